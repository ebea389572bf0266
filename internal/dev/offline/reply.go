package offline

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// reply answers a main prompt. It depends on the text alone.
func reply(r *Request) string {
	p := parsePrompt(r.Text)
	p.current = strings.TrimSpace(withoutDirectives(p.current))
	seed := hash(r.Text)
	if topic, count, ok := essayWanted(p.current); ok {
		return essay(topic, count, seed)
	}
	parts := []string{firstSentence(p)}
	for n := range seed / 7 % 4 { // so that replies differ in length
		parts = append(parts, stock[2+(seed/31+n)%uint64(len(stock)-2)])
	}
	return strings.Join(parts, " ")
}

// firstSentence answers a question with a quotation, and a statement with what it is mainly about.
func firstSentence(p mainPrompt) string {
	if isQuestion(p.current) {
		found, ok := recall(p)
		if !ok {
			return nothing
		}
		return inQuotes(found.from, found.text)
	}
	said := sentences(p.current)
	if len(said) == 0 {
		return present
	}
	return inQuotes("Noted", slices.MaxFunc(said, func(a, b string) int { return informativeness(a) - informativeness(b) }))
}

// inQuotes quotes a sentence without its quotation marks, and cut if it is long.
func inQuotes(from, sentence string) string {
	const longest = 280 // characters
	return fmt.Sprintf(`%s: "%s"`, from, clip(strings.ReplaceAll(sentence, `"`, "'"), longest))
}

var asksWithoutMark = regexp.MustCompile(
	`(?i)^\W*(?:what|who|whom|whose|when|where|which|why|how|what's|who's|where's|remind me|tell me|do you remember|do you know|do you recall)\b`,
)

// isQuestion reports whether a text has a question mark or begins like a question.
func isQuestion(text string) bool {
	return strings.ContainsAny(text, "?？؟") || asksWithoutMark.MatchString(text)
}

const (
	nothing = "Nothing in what I was given answers that."
	present = "I am here."
)

// stock are sentences that carry no information: recall and folds ignore them.
var stock = []string{
	nothing,
	present,
	"I quote word for word instead of guessing, because I am the offline model and know nothing beyond this prompt.",
	"I will go by that from here on.",
	"Correct me whenever something about it changes.",
	"You can ask me about it later, also after many other messages.",
	"Go on with whatever comes next, and give me names, numbers and dates where they matter.",
}

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
	count, _ = strconv.Atoi(found[1]) // up to five digits
	topic = "this subject"
	if about := essayTopic.FindStringSubmatch(message); about != nil {
		topic = strings.TrimSpace(about[1])
	}
	return topic, min(count, 5000), count > 0
}

// essay writes count words on a topic. The same seed gives the same text.
func essay(topic string, count int, seed uint64) string {
	words := strings.Fields("This is about " + topic + ".")
	for day := int(seed % 1000); len(words) < count; day++ {
		words = append(words, strings.Fields(diaryEntry(day))...)
	}
	return strings.TrimRight(strings.Join(words[:count], " "), ".,:;") + "."
}

// diary returns a text of at least that many tokens that never repeats itself: a summary that is too long and has no
// other fault.
func diary(tokens int) string {
	var entries []string
	for day, used := 1, 0; used < tokens; day++ {
		entry := diaryEntry(day)
		entries = append(entries, entry)
		used += countTokens(entry)
	}
	return strings.Join(entries, " ")
}

var diaryThings = strings.Split(
	"timing,the first attempt,a clear plan,the choice of material,regular practice,good advice,the weather,a second opinion,"+
		"the smallest detail,the daily routine,a shared goal,the budget,an open question,the order of the steps,the final check,a written record",
	",",
)

// diaryEntry is a sentence. Its numbers keep many of them from repeating the same eight words.
func diaryEntry(day int) string {
	thing := func(n int) string { return diaryThings[n%len(diaryThings)] }
	return fmt.Sprintf("On day %d they chose %s (%d), later %s (%d).", day, thing(day), day, thing(day*7), day)
}
