package prompt

import (
	"math"
	"slices"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// Room returns how many tokens a question and instructions of that many tokens leave in a window, apart from the room of
// the conversation. Where it is negative, no prompt fits.
func Room(question, instructions int, l memory.Limits) int {
	return l.InputTokens - HeadingTokens - max(l.PromptTokenBudget+l.BridgeTokenBudget, l.MaxHistoryTokens) - instructions - question
}

// excess returns by how many tokens instructions and prompt exceed the window; 0 or less when they fit. A token has at
// least one byte, so most prompts are known to fit without being tokenized.
func excess(p Prompt, q Question, l memory.Limits) int {
	if l.InputTokens == 0 || len(q.Instructions)+len(p.Input) <= l.InputTokens {
		return 0
	}
	return text.Tokens(q.Instructions) + text.Tokens(p.Input) - l.InputTokens
}

// RetrievedRoom returns the most tokens that the sections retrieved for a question may take together: a tenth of what the
// window takes.
func RetrievedRoom(l memory.Limits) int {
	if l.InputTokens == 0 {
		return math.MaxInt
	}
	return l.InputTokens / 10
}

// FitRetrieved makes the sections that are retrieved for a question shorter, in the order in which they are left out, so
// that together they take at most room tokens.
func FitRetrieved(sections []Section, room int) {
	over := -room
	for i := range sections {
		over += sections[i].Tokens
	}
	for _, name := range retrievedParts {
		at := slices.IndexFunc(sections, func(s Section) bool { return s.Name == name && s.Shorter != nil })
		if over <= 0 || at < 0 || sections[at].Tokens == 0 {
			continue
		}
		before := sections[at]
		sections[at] = before.Shorter(max(before.Tokens-over, 0))
		sections[at].Name = name
		over -= before.Tokens - sections[at].Tokens
	}
}

// leaveOut empties a retrieved section, and reports whether there was something in it.
func (q *Question) leaveOut(name string) bool {
	at := slices.IndexFunc(q.Retrieved, func(s Section) bool { return s.Name == name && s.Text != "" })
	if at < 0 {
		return false
	}
	q.Retrieved = slices.Clone(q.Retrieved)
	left := &q.Retrieved[at]
	left.LeftOut += left.Items
	left.Text, left.Seqs, left.IDs, left.Tokens, left.Items = "", nil, nil, 0, 0
	return true
}

// squeeze builds a prompt that does not fit again, so that it does: by counts of its own, because the stored ones are
// estimates, then with less of the conversation. At last only the question is left.
func squeeze(c memory.Chat, q Question, l memory.Limits) Prompt {
	recount(&c, l)
	for range 4 {
		d := Select(c, l)
		p := d.write(q)
		over := excess(p, q, l)
		if over <= 0 {
			return p
		}
		over += over / 8 // what is cut off in the middle of a word may count anew
		l = l.Less(over)
	}
	c.PendingTurns = c.UnreadTurns() + len(memory.Turns(c.Buffer))
	c.Buffer, c.Kept, c.Files, c.Brief.Summary = nil, nil, nil, ""
	d := Select(c, l)
	return d.write(q)
}

// recount counts the tokens of everything that may be shown of a chat.
func recount(c *memory.Chat, l memory.Limits) {
	c.Brief.Tokens = text.Tokens(c.Brief.Summary)
	c.Buffer, c.Kept, c.Files = slices.Clone(c.Buffer), slices.Clone(c.Kept), slices.Clone(c.Files)
	room, turns := max(l.PromptTokenBudget+l.BridgeTokenBudget, l.MaxHistoryTokens), max(l.KRawTurns, l.MinTailTurns, 1)
	for i := len(c.Buffer) - 1; i >= 0 && (room >= 0 || turns > 0); i-- { // what is older has no room in any case
		m := &c.Buffer[i]
		m.Tokens = text.Tokens(m.Content)
		room -= m.Tokens
		turns -= memory.Turn{Messages: c.Buffer[i : i+1]}.UserMessages()
	}
	for i := range c.Kept {
		c.Kept[i].Tokens = text.Tokens(c.Kept[i].Content)
	}
	for i := range c.Files {
		c.Files[i].Tokens = max(c.Files[i].Tokens, text.Tokens(c.Files[i].Content))
	}
}
