package recall

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

const (
	// ownShare is how far, at most, the message of a turn that says least of what is asked for is below the one that says
	// most, in standard deviations of turns.
	ownShare = 1.5
	// quoteTokens is about the length of Message.Text.
	quoteTokens = 60
)

// turns reads the messages of turns and returns those that still have some, best first.
func (r *Recaller) turns(ctx context.Context, user auth.Principal, found *ranked, best []*candidate) ([]Turn, error) {
	spans := make([]Span, len(best))
	for n, c := range best {
		spans[n] = c.Span
	}
	texts, err := r.Store.Texts(ctx, user, spans)
	if err != nil {
		return nil, err
	}
	turns := make([]Turn, 0, len(best))
	for _, c := range best {
		if messages := texts[c.TurnID]; len(messages) > 0 {
			turns = append(turns, found.turn(c, messages))
		}
	}
	return turns, nil
}

// turn scores the messages of a turn by their own words, so that an "I see" does not rank beside what it answers.
func (f *ranked) turn(c *candidate, messages []Message) Turn {
	finder := f.finder()
	values := make([]float64, len(messages))
	best := 0.
	for n := range messages {
		m := &messages[n]
		m.Text, values[n] = finder.quote(m.Content)
		best = max(best, values[n])
	}
	for n := range messages {
		messages[n].Score = share(c.score - ownShare*(best-values[n])/(best+1))
	}
	return Turn{
		ChatID: c.ChatID, Seq: c.Seq, LastSeq: c.LastSeq, SaidAt: c.SaidAt,
		Score: share(c.score), Why: f.why(c), Messages: messages,
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
		reasons = append(reasons, f.words[n].forms[0])
	}
	why := strings.Join(reasons, ", ")
	if why == "" {
		why = "similar in meaning"
	}
	if isWithin(f.times, c.SaidAt) {
		why += "; " + c.SaidAt.UTC().Format("2 January 2006")
	}
	return why
}

// firstMessages keeps the most messages with the best scores, and orders turns by their best message.
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
	bestOf := func(t Turn) float64 {
		return slices.MaxFunc(t.Messages, func(a, b Message) int { return cmp.Compare(a.Score, b.Score) }).Score
	}
	slices.SortStableFunc(turns, func(a, b Turn) int { return cmp.Compare(bestOf(b), bestOf(a)) })
	return turns
}

// finder finds a question's words in texts.
type finder struct {
	words []int // the position of each of roots in the question
	roots []string
	value []float64 // by word
}

func (f *ranked) finder() *finder {
	found := &finder{value: make([]float64, len(f.words))}
	for n, w := range f.words {
		found.value[n] = rarityOf(f.ownHolders[n], f.matches.Turns)
		if f.ownHolders[n] == 0 {
			found.value[n] = 0
		}
		for _, form := range w.forms {
			found.words, found.roots = append(found.words, n), append(found.roots, rootOf(form))
		}
	}
	return found
}

// counts returns how often a text holds each word, and how many words it has.
func (f *finder) counts(content string) (counts []float64, size int) {
	counts = make([]float64, len(f.value))
	tokens := tokensOf(content)
	for _, token := range tokens {
		root := rootOf(token)
		for n, wanted := range f.roots {
			if root == wanted {
				counts[f.words[n]]++
				break
			}
		}
	}
	return counts, len(tokens)
}

// valueOf returns how much of the question a text says.
func (f *finder) valueOf(content string) float64 {
	const ordinarySize = 20
	counts, size := f.counts(content)
	sum := 0.
	for n, count := range counts {
		sum += f.value[n] * saturated(count, float64(size)/ordinarySize)
	}
	return sum
}

// quote returns the sentences of a text that say most of the question, and how much the whole text says.
func (f *finder) quote(content string) (string, float64) {
	const mostRead = 20_000 // bytes; the rest of a long text is not looked at
	if len(content) > mostRead {
		content = strings.ToValidUTF8(content[:mostRead], "")
	}
	sentences := text.Sentences(content)
	return strings.TrimSpace(around(sentences, f.bestOf(sentences), quoteTokens)), f.valueOf(content)
}

// bestOf returns the position of the sentence that says most of the question; the first of equals.
func (f *finder) bestOf(sentences []string) int {
	best, most := 0, 0.
	for n, sentence := range sentences {
		if value := f.valueOf(sentence); value > most {
			best, most = n, value
		}
	}
	return best
}

// around returns a sentence with as many of its neighbours as fit into limit tokens, those after it first.
func around(sentences []string, at, limit int) string {
	if len(sentences) == 0 {
		return ""
	}
	tokens := text.Tokens(sentences[at])
	if tokens > limit {
		return text.FitCap(sentences[at], limit)
	}
	from, to := at, at+1
	for {
		grown := false
		if to < len(sentences) {
			if n := text.Tokens(sentences[to]); tokens+n <= limit {
				tokens, to, grown = tokens+n, to+1, true
			}
		}
		if from > 0 {
			if n := text.Tokens(sentences[from-1]); tokens+n <= limit {
				tokens, from, grown = tokens+n, from-1, true
			}
		}
		if !grown {
			return strings.Join(sentences[from:to], "")
		}
	}
}
