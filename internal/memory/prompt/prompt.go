// Package prompt builds the prompt of the main model: it selects parts of a chat by the chat's strategy and
// the token budgets, writes it section by section, and describes it in a receipt.
//
// Everything here is a pure function. Stored texts are tokenized only when something has to be shortened.
package prompt

import (
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// Source is one passage that the app retrieved for a question. Its text is a third party's. Empty fields are left out.
type Source struct {
	Title   string `json:"title,omitempty" nullable:"true" maxLength:"2000"`
	URL     string `json:"url,omitempty" nullable:"true" maxLength:"2000"`
	Content string `json:"content,omitempty" nullable:"true" maxLength:"8000"`
}

// Question is the message to be answered, with what belongs to it.
type Question struct {
	Content string
	Sources []Source
	// Retrieved are the sections that were retrieved for this question, by name and without their headings. They are
	// left out first where the window is too small.
	Retrieved []Section
	// Instructions are sent beside the prompt. Like the question they leave less room for sources and files.
	Instructions string
	// Done are the parts of an earlier try at the reply. Calls that are done are shown, so that they are not made again.
	Done []memory.Part
}

// Prompt is the main model's input, and its description.
type Prompt struct {
	// Input is sent in the user's role, never as instructions.
	Input string
	// Sections are the parts of Input that are memory, in order. Receipt.Sections also has those that are missing.
	Sections []Section
	Receipt  Receipt
	// Cuts are the tokens by which texts are shown shorter than they are, by the name of their section. Nil for none.
	Cuts map[string]int
}

// Build writes the prompt of a chat whose buffer does not hold the message being answered. With its instructions it
// never exceeds limits.InputTokens, unless instructions and question do so by themselves. Stored texts are tokenized only
// when something has to be shortened, or might have to be.
func Build(c memory.Chat, q Question, limits memory.Limits) Prompt {
	return Select(c, limits).Build(q)
}

// Draft is a prompt of which only the turns are selected. The sections retrieved for the question may depend on them.
type Draft struct {
	chat   memory.Chat
	limits memory.Limits
	turns  selection
}

// Select selects the turns of a chat that a prompt shows. See Build.
func Select(c memory.Chat, limits memory.Limits) Draft {
	if c.Tool {
		limits = limits.Thread()
	}
	c.Brief.Tokens = max(0, c.Brief.Tokens)
	if strings.TrimSpace(c.Brief.Summary) == "" {
		c.Brief.Summary, c.Brief.Tokens = "", 0
	}
	turns := wholeTurns(&c)
	for _, t := range turns {
		quoteMessages(t.Messages)
	}
	s := selectTurns(&c, turns, limits)
	s.unread, s.briefTurns = c.UnreadTurns(), c.BriefTurns()
	return Draft{chat: c, limits: limits, turns: s}
}

// ShownFrom returns the seq from which on the prompt shows the turns word for word. Where it shows none, it is the seq
// after the last message of which the brief or nothing is shown.
func (d *Draft) ShownFrom() int64 {
	for t := range d.turns.recentTurns {
		return t.FirstSeq()
	}
	return max(d.chat.Brief.CoveredSeq, d.chat.Brief.ClearedSeq) + 1
}

// Kept returns the seqs of the messages that the prompt shows beside the turns.
func (d *Draft) Kept() []int64 { return d.turns.keptSeqs() }

// Shown returns the messages that the prompt shows, as it shows them.
func (d *Draft) Shown() []memory.Message {
	var shown []memory.Message
	for t := range d.turns.recentTurns {
		shown = append(shown, t.Messages...)
	}
	return append(shown, d.turns.kept...)
}

// Build writes the prompt for a question.
func (d Draft) Build(q Question) Prompt {
	p := d.write(q)
	if excess(p, q, d.limits) <= 0 {
		return p
	}
	for _, name := range retrievedParts {
		if !q.leaveOut(name) {
			continue
		}
		if p = d.write(q); excess(p, q, d.limits) <= 0 {
			return p
		}
	}
	return squeeze(d.chat, q, d.limits)
}

// write writes the prompt, whether or not it fits the window.
func (d *Draft) write(q Question) Prompt {
	s, c := d.turns, &d.chat
	s.add(c, q, d.limits)
	var written [len(parts)]Section
	size := 0
	for i := range parts {
		written[i] = parts[i].write(&s)
		size += len(parts[i].heading) + len(written[i].Text) + len(sectionBreak) + 1
	}
	var w writer
	w.Grow(size)
	for i := range parts {
		w.add(&parts[i], written[i])
	}
	return Prompt{Input: w.String(), Sections: w.sections, Receipt: receiptOf(c, &s, w.accounts), Cuts: s.cuts}
}

// selection is all that a prompt shows. The turns of the buffer are in unseen, bridge and tail, in this order.
type selection struct {
	brief        memory.Brief // as shown, perhaps shortened; zero when none is shown
	briefTurns   int
	kept         []memory.Message
	unseen       []memory.Turn
	bridge, tail []memory.Turn
	files        fileSelection
	sources      sourceSelection
	question     Question
	done         string // of the question

	bridgeTokens, tailTokens, keptTokens int
	keptLeftOut                          int            // pinned and important messages without room
	unread                               int            // turns that are unseen because they were too old to be read
	cuts                                 map[string]int // see Prompt
	// The most tokens that the strategy lets the sections take.
	briefBudget, keptBudget, recentBudget int
}

// add selects the rest beside the turns: sources and files, by the room that is left.
func (s *selection) add(c *memory.Chat, q Question, limits memory.Limits) {
	s.question, s.done = q, doneText(q.Done)
	fits := limits.InputTokens == 0 || s.bytes() <= limits.InputTokens // a token has at least one byte
	s.sources = selectSources(q.Sources, func() int { return s.sourceRoom(limits) }, fits)
	s.files = selectFiles(c.Files, s.fileRoom(c, limits))
}

// cut records that a text of a section was shortened.
func (s *selection) cut(section string, before, after int) {
	if s.cuts == nil {
		s.cuts = map[string]int{}
	}
	s.cuts[section] += max(0, before-after)
}

// wholeTurns returns the turns of the buffer, as copies that may be changed, without the first when its beginning was too
// old to be read: that one counts as unread.
func wholeTurns(c *memory.Chat) []memory.Turn {
	turns := memory.Turns(c.Buffer)
	if c.UnreadTurns() > 0 && len(turns) > 0 && turns[0].LacksQuestion() {
		return turns[1:]
	}
	return turns
}

// HeadingTokens is an upper bound of the tokens that all headings together take, apart from those of retrieved sections.
const HeadingTokens = 64

// fileRoom returns how many tokens the files may take: the part of the window that instructions, question, sources,
// headings and labels leave free.
func (s *selection) fileRoom(c *memory.Chat, l memory.Limits) int {
	if len(c.Files) == 0 {
		return 0
	}
	return min(l.FileTokens-s.fixedTokens()-text.Tokens(writeSources(s).Text), memory.MaxFileTokens)
}

// bytes returns at least as many bytes as instructions and prompt without the files have.
func (s *selection) bytes() int {
	const heading, label, separator = 128, 16, 64
	size := len(parts)*heading + len(s.question.Instructions) + len(s.question.Content) + len(s.done) + 2*len(s.brief.Summary)
	for i := range s.kept {
		size += label + len(s.kept[i].Content)
	}
	for t := range s.recentTurns {
		for i := range t.Messages {
			size += label + len(t.Messages[i].Content)
		}
	}
	for _, section := range s.question.Retrieved {
		size += 2 * len(section.Text)
	}
	for _, source := range s.question.Sources {
		size += separator + len(source.Title) + len(source.URL) + 2*len(source.Content) // lines may be quoted
	}
	return size
}

func (s *selection) keptSeqs() []int64 {
	seqs := make([]int64, len(s.kept))
	for i := range s.kept {
		seqs[i] = s.kept[i].Seq
	}
	return seqs
}

// recentTurns iterates over bridge and tail.
func (s *selection) recentTurns(yield func(memory.Turn) bool) {
	for _, turns := range [...][]memory.Turn{s.bridge, s.tail} {
		for _, t := range turns {
			if !yield(t) {
				return
			}
		}
	}
}
