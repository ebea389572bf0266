package recall

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/google/uuid"
)

const (
	// ownShare is how far, at most, the message of a turn that says least of what is asked for is below the one that says
	// most, in standard deviations of turns.
	ownShare = 1.5
	// quoteTokens is about the length of Message.Text.
	quoteTokens = 60
	// askShare is how far a message is put back that only asks, in standard deviations of turns: a question that was
	// asked before has the same words, and no answer. With more, a message that alone holds a word could come after those
	// without it.
	askShare = 2.
	// callShare is how far a message is put back that speaks to the one whom the question is about: it is another's.
	callShare = 3.
)

// turns reads the messages of turns and returns those that still have some, best first, and a topic.
func (r *Recaller) turns(ctx context.Context, user auth.Principal, found *ranked, best []*candidate, topicID uuid.UUID) ([]Turn, *Topic, error) {
	spans := make([]Span, len(best))
	for n, c := range best {
		spans[n] = c.Span
	}
	texts, topic, err := r.Store.Texts(ctx, user, spans, topicID)
	if err != nil {
		return nil, nil, err
	}
	finder := found.finder()
	turns, quotes := make([]Turn, 0, len(best)), make([][]quote, 0, len(best))
	for _, c := range best {
		if messages := texts[c.TurnID]; len(messages) > 0 {
			turns, quotes = append(turns, found.turn(c, messages)), append(quotes, finder.quotes(messages))
		}
	}
	callers := callersOf(turns, quotes)
	for n := range turns {
		turns[n].score(quotes[n], callers)
	}
	slices.SortStableFunc(turns, func(a, b Turn) int { return cmp.Compare(b.Score, a.Score) })
	return turns, topic, nil
}

// turn returns a candidate as a turn, with the score of its place in the ranking.
func (f *ranked) turn(c *candidate, messages []Message) Turn {
	return Turn{ChatID: c.ChatID, Seq: c.Seq, LastSeq: c.LastSeq, SaidAt: c.SaidAt, Score: c.score, Why: f.why(c), Messages: messages}
}

func (f *finder) quotes(messages []Message) []quote {
	quotes := make([]quote, len(messages))
	for n := range messages {
		quotes[n] = f.quote(messages[n].Content)
	}
	return quotes
}

// score scores the messages of a turn by their own words, so that an "I see" does not rank beside what it answers.
func (t *Turn) score(quotes []quote, callers callers) {
	best, place := 0., t.Score
	for _, q := range quotes {
		best = max(best, q.value)
	}
	t.Score = 0
	for n, q := range quotes {
		m := &t.Messages[n]
		m.Text = q.text
		m.Score = share(place - ownShare*(best-q.value)/(best+1) - askShare*q.asks - callShare*callers.another(m.Role, q))
		t.Score = max(t.Score, m.Score)
	}
}

// share puts a score between 0 and 1.
func share(score float64) float64 { return 1 / (1 + math.Exp(-score/2)) }

// why names the words that a turn holds, the rarest first, and whether it was said when the question asks for.
func (f *ranked) why(c *candidate) string {
	var held []int
	for n := range f.words {
		if c.own[n]+c.asked[n] > 0 {
			held = append(held, n)
		}
	}
	slices.SortStableFunc(held, func(a, b int) int { return cmp.Compare(f.holders[a], f.holders[b]) })
	var reasons []string
	for _, n := range held {
		reasons = append(reasons, f.words[n].Forms[0])
	}
	why := strings.Join(reasons, ", ")
	if why == "" {
		why = "similar in meaning"
	}
	if c.isWithin {
		why += "; " + c.SaidAt.UTC().Format("2 January 2006")
	}
	return why
}

// firstMessages keeps the most messages with the best scores.
func firstMessages(turns []Turn, most int) []Turn {
	var scores []float64
	for _, t := range turns {
		for _, m := range t.Messages {
			scores = append(scores, m.Score)
		}
	}
	slices.SortFunc(scores, func(a, b float64) int { return cmp.Compare(b, a) })
	if len(scores) > most {
		least := scores[most-1]
		room := most
		for n := range turns {
			turns[n].Messages = slices.DeleteFunc(turns[n].Messages, func(m Message) bool {
				if m.Score < least || room == 0 {
					return true
				}
				room--
				return false
			})
		}
		turns = slices.DeleteFunc(turns, func(t Turn) bool { return len(t.Messages) == 0 })
	}
	return turns
}

type finder struct {
	words map[string]int // the position of a word in the question, by the root of each form
	value []float64      // by word
}

func (f *ranked) finder() *finder {
	found := &finder{words: map[string]int{}, value: make([]float64, len(f.words))}
	for n, w := range f.words {
		if f.ownHolders[n] > 0 {
			found.value[n] = rarityOf(f.ownHolders[n], f.matches.Turns)
		}
		for _, form := range w.Forms {
			found.words[rootOf(form)] = n
		}
	}
	return found
}

// count adds to counts how often a text holds each word.
func (f *finder) count(content string, counts []float64) {
	if !f.mayHold(content) {
		return
	}
	for _, token := range tokensOf(content) {
		if n, ok := f.words[rootOf(token)]; ok {
			counts[n]++
		}
	}
}

// mayHold is a quick look at a text. A word begins with its root.
func (f *finder) mayHold(content string) bool {
	lower := strings.ToLower(content)
	for root := range f.words {
		if strings.Contains(lower, root) {
			return true
		}
	}
	return false
}

// valueOf returns how much of the question a text says that has so many of its words.
func (f *finder) valueOf(counts []float64, size int) float64 {
	const ordinarySize = 20
	sum := 0.
	for n, count := range counts {
		sum += f.value[n] * saturated(count, float64(size)/ordinarySize)
	}
	return sum
}

// quote is the answer of a text to a question.
type quote struct {
	text  string    // the sentences that say most of it
	value float64   // how much the whole text says
	asks  float64   // the share of the text that is questions
	holds []float64 // how often the text holds each word of the question
	calls []bool    // whether the text speaks to somebody by that word
}

func (f *finder) quote(content string) quote {
	const mostRead = 20_000 // bytes; the rest of a long text is not looked at
	if len(content) > mostRead {
		content = strings.ToValidUTF8(content[:mostRead], "")
	}
	sentences := text.Sentences(content)
	all, calls, size := make([]float64, len(f.value)), make([]bool, len(f.value)), 0
	best, most, asks := 0, 0., 0
	counts := make([]float64, len(f.value))
	for n, sentence := range sentences {
		clear(counts)
		f.count(sentence, counts)
		words := strings.Count(sentence, " ") + 1
		value := f.valueOf(counts, words)
		if value > most {
			best, most = n, value
		}
		if value > 0 {
			f.call(sentence, calls)
		}
		for w, count := range counts {
			all[w] += count
		}
		size += words
		if strings.ContainsAny(sentence, "?？؟") {
			asks += len(sentence)
		}
	}
	return quote{
		text:  strings.TrimSpace(around(sentences, best, quoteTokens, aboutTokens)),
		value: f.valueOf(all, size), asks: float64(asks) / float64(max(len(content), 1)), holds: all, calls: calls,
	}
}

// aboutTokens is an estimate that spares counting.
func aboutTokens(content string) int {
	const bytesPerToken = 4
	return len(content)/bytesPerToken + 1
}

// around returns a sentence with as many of its neighbours as fit into limit tokens by size, those after it first.
func around(sentences []string, at, limit int, size func(string) int) string {
	if len(sentences) == 0 {
		return ""
	}
	tokens := size(sentences[at])
	if tokens > limit {
		return text.FitCap(sentences[at], limit)
	}
	from, to := at, at+1
	for {
		grown := false
		if to < len(sentences) {
			if n := size(sentences[to]); tokens+n <= limit {
				tokens, to, grown = tokens+n, to+1, true
			}
		}
		if from > 0 {
			if n := size(sentences[from-1]); tokens+n <= limit {
				tokens, from, grown = tokens+n, from-1, true
			}
		}
		if !grown {
			return strings.Join(sentences[from:to], "")
		}
	}
}

// callers are, for each word of a question, the messages that speak to somebody by it.
type callers []calls

type calls struct {
	held, called float64            // how many messages hold the word, and how many of them speak to somebody by it
	byRole       map[string]float64 // of the messages that speak to somebody
}

func callersOf(turns []Turn, quotes [][]quote) callers {
	var all callers
	for t := range turns {
		for m, q := range quotes[t] {
			if all == nil {
				all = make(callers, len(q.holds))
			}
			for w, count := range q.holds {
				if count > 0 {
					all[w].add(turns[t].Messages[m].Role, q.calls[w])
				}
			}
		}
	}
	return all
}

func (c *calls) add(role string, isCall bool) {
	c.held++
	if !isCall {
		return
	}
	if c.byRole == nil {
		c.byRole = map[string]float64{}
	}
	c.called++
	c.byRole[role]++
}

// isName reports whether people of the chat call each other so: if most of those who say it do.
func (c *calls) isName() bool {
	const fewest = 3
	return c.called >= fewest && 2*c.called >= c.held
}

// another returns how sure it is that a message is not by whom the question is about: 1 if it speaks to them, and a third
// if its role is that of those who do.
func (c callers) another(role string, q quote) float64 {
	const nearlyAll, byRole = .9, 1. / 3
	sure := 0.
	for w := range c {
		switch {
		case !c[w].isName():
		case q.calls[w]:
			return 1
		case c[w].byRole[role] >= nearlyAll*c[w].called:
			sure = byRole
		}
	}
	return sure
}

// call marks the words by which a sentence speaks to somebody: they stand alone between marks, or after one word, as in "Thanks,
// Anna!" and "Hey Anna, …".
func (f *finder) call(sentence string, calls []bool) {
	const wordsAlone = 2
	for part := range strings.FieldsFuncSeq(sentence, isPause) {
		words := strings.Fields(part)
		if len(words) == 0 || len(words) > wordsAlone {
			continue
		}
		if n, ok := f.words[rootOf(strings.ToLower(words[len(words)-1]))]; ok {
			calls[n] = true
		}
	}
}

func isPause(r rune) bool { return strings.ContainsRune(",.!?;:…–—、。！？，；：،؟", r) }
