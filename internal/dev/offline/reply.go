package offline

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// quoteRunes is the longest quotation in characters.
const quoteRunes = 280

// reply answers a main prompt. It depends on the text alone.
func reply(r *Request) string {
	p := parsePrompt(r.Text)
	p.current = strings.TrimSpace(withoutDirectives(p.current))
	seed := hash(r.Text)
	if topic, count, ok := essayWanted(p.current); ok {
		return essay(topic, count, seed)
	}
	if isQuestion(p.current) {
		return answerQuestion(p, seed)
	}
	return acknowledge(p.current, seed)
}

var asksWithoutMark = regexp.MustCompile(`(?i)^\W*(?:what|who|whom|whose|when|where|which|why|how|what's|who's|where's|remind me|tell me|do you remember|do you know|do you recall)\b`)

// isQuestion reports whether a text has a question mark or begins like a question.
func isQuestion(text string) bool {
	return strings.ContainsAny(text, "?？؟") || asksWithoutMark.MatchString(text)
}

func answerQuestion(p mainPrompt, seed uint64) string {
	found, ok := recall(p)
	if !ok {
		return join("Nothing in what I was given answers that.", afterNothing, seed)
	}
	return join(fmt.Sprintf(`%s: "%s"`, found.from, fitQuote(found.text)), afterQuote, seed)
}

// acknowledge echoes what a message is mainly about.
func acknowledge(message string, seed uint64) string {
	all := sentences(message)
	if len(all) == 0 {
		return join("I am here.", afterFact, seed)
	}
	main := all[0]
	for _, sentence := range all[1:] {
		if informativeness(sentence) > informativeness(main) {
			main = sentence
		}
	}
	opening := [...]string{"Noted", "Understood", "Got it"}[seed%3]
	return join(fmt.Sprintf(`%s: "%s"`, opening, fitQuote(main)), afterFact, seed)
}

// fitQuote makes a sentence fit for a quotation: without quotation marks and not too long.
func fitQuote(sentence string) string {
	return clip(strings.ReplaceAll(sentence, `"`, "'"), quoteRunes)
}

// join adds zero to three of the stock sentences, chosen by the seed, so that replies differ in length.
func join(first string, stock []string, seed uint64) string {
	parts := []string{first}
	for n := range seed / 7 % 4 {
		parts = append(parts, stock[(seed/31+n)%uint64(len(stock))])
	}
	return strings.Join(parts, " ")
}

// The stock sentences. They carry no information: recall and folds ignore them.
var (
	afterQuote = []string{
		"That is the line closest to your question in everything I was given for this reply.",
		"If it has changed since, tell me the new state and I will go by that.",
		"I quote it word for word instead of guessing, because I am the offline model and know nothing else.",
		"Ask again in other words if you meant something different.",
	}
	afterNothing = []string{
		"I looked through the summary, the recent turns and the sources that came with your message.",
		"Tell me once, and I will be able to quote it for as long as the memory keeps it.",
		"I am the offline model, so I do not know anything beyond this prompt.",
		"It may also be in there in other words than the ones you used.",
	}
	afterFact = []string{
		"I will go by that from here on.",
		"Correct me whenever something about it changes.",
		"You can ask me about it later, also after many other messages.",
		"Go on with whatever comes next, and give me names, numbers and dates where they matter.",
		"If there is a decision to take, say which way you lean and why.",
	}
	stock = stockSet(afterQuote, afterNothing, afterFact, []string{"Nothing in what I was given answers that.", "I am here."})
)

func stockSet(lists ...[]string) map[string]bool {
	set := map[string]bool{}
	for _, list := range lists {
		for _, sentence := range list {
			set[sentence] = true
		}
	}
	return set
}

func isStock(sentence string) bool { return stock[sentence] }

var (
	essayVerb  = regexp.MustCompile(`(?i)\b(?:write|compose|draft|produce|give|tell|explain|describe|essay|story|summary|article|text)\b`)
	essayCount = regexp.MustCompile(`(?i)\b(\d{1,5})[ -]words?\b`)
	essayTopic = regexp.MustCompile(`(?i)\b(?:about|on)\s+([^.!?\n]{2,120})`)
)

// essayWanted reads requests like "write 300 words about sourdough".
func essayWanted(message string) (topic string, count int, ok bool) {
	found := essayCount.FindStringSubmatch(message)
	if found == nil || !essayVerb.MatchString(message) {
		return "", 0, false
	}
	count, err := strconv.Atoi(found[1])
	if err != nil || count == 0 {
		return "", 0, false
	}
	topic = "this subject"
	if about := essayTopic.FindStringSubmatch(message); about != nil {
		topic = strings.TrimSpace(essayCount.ReplaceAllString(about[1], ""))
	}
	return topic, min(count, 5000), true
}
