package recall

import "strings"

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
