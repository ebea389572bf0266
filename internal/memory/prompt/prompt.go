package prompt

import (
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// Source is one passage that the app retrieved for a question. Its text is a third party's. Empty fields are left out.
type Source struct {
	Title, URL, Content string
}

// Question is the message to be answered, and what was found for it.
type Question struct {
	Content string
	Sources []Source
	// Retrieved are the sections that were looked up for this question, by name and without their headings.
	Retrieved []Section
	// InstructionTokens is the size of the instructions that go beside the prompt. Like the question and its
	// sources they take their place from the files.
	InstructionTokens int
}

// Prompt is what the main model reads, with the account of it.
type Prompt struct {
	// Input goes to the model in the user's role, never as instructions.
	Input string
	// Sections are the parts of Input that are memory, in order: see Receipt.Sections for those that are missing.
	Sections []Section
	Receipt  Receipt
}

// Build writes the prompt of a chat whose buffer does not hold the message being answered. Stored texts are
// tokenized only when something has to be shortened.
func Build(c memory.Chat, q Question, limits memory.Limits) Prompt {
	s := selectFrom(&c, q, limits)
	var w writer
	w.Grow(s.size())
	for i := range parts {
		w.add(&parts[i], &s)
	}
	return Prompt{Input: w.String(), Sections: w.sections, Receipt: receiptOf(&c, &s, w.accounts)}
}

// selection is what a prompt shows. The turns of the buffer are in unseen, bridge and tail, in this order.
type selection struct {
	brief        memory.Brief // as shown: perhaps shortened; zero when none is
	briefTurns   int
	kept         []memory.Message
	unseen       []memory.Turn
	bridge, tail []memory.Turn
	files        shownFiles
	question     Question

	bridgeTokens, tailTokens, keptTokens int
	leftOut                              int // pinned and important messages without room
	unread                               int // turns that are unseen because they were too old to be read
	truncated                            bool
	// The most tokens that the strategy lets the sections take.
	briefBudget, keptBudget, recentBudget int
}

// selectFrom picks what is shown: the turns by the chat's strategy, the files by the room that is left.
func selectFrom(c *memory.Chat, q Question, limits memory.Limits) selection {
	if strings.TrimSpace(c.Brief.Summary) == "" {
		c.Brief.Summary, c.Brief.Tokens = "", 0
	}
	turns, _ := quotedTurns(wholeTurns(c))
	c.Kept, _ = quotedMessages(c.Kept)
	s := strategyOf(c.Strategy).pick(c, turns, limits)
	s.unread, s.briefTurns, s.question = c.Unread(), c.BriefTurns(), q
	s.files = pickFiles(c.Files, s.fileRoom(c, limits))
	return s
}

// wholeTurns are the turns of the buffer without the rest of one whose beginning was too old to be read: that one
// counts as unread.
func wholeTurns(c *memory.Chat) []memory.Turn {
	turns := memory.Turns(c.Buffer)
	if c.Unread() > 0 && len(turns) > 0 && turns[0].AnswersUnread() {
		return turns[1:]
	}
	return turns
}

// HeadingTokens is what the headings of all sections take, from above.
const HeadingTokens = 64

// fileRoom returns how many tokens the files may take: what the instructions, the question, its sources, and the
// headings and labels, which the history's budgets do not count, leave of the share of the window.
func (s *selection) fileRoom(c *memory.Chat, l memory.Limits) int {
	if len(c.Files) == 0 {
		return 0
	}
	used := s.question.InstructionTokens + text.Tokens(s.question.Content) + text.Tokens(writeSources(s).Text) + s.frameTokens()
	return min(l.FileTokens-used, memory.MaxFileTokens)
}

// frameTokens is what the headings and the labels of the messages take, from above.
func (s *selection) frameTokens() int {
	messages := len(s.kept)
	for _, t := range s.shownTurns() {
		messages += len(t.Messages)
	}
	return HeadingTokens + memory.LabelTokens*messages
}

// shownTurns are bridge and tail as one run.
func (s *selection) shownTurns() []memory.Turn {
	return append(s.bridge[:len(s.bridge):len(s.bridge)], s.tail...)
}

// size estimates the length of the prompt, from above in most cases, to allocate once.
func (s *selection) size() int {
	const perMessage, headings = 16, 256
	size := headings + len(s.brief.Summary) + len(s.question.Content) + s.recentSize() + s.files.size()
	for i := range s.kept {
		size += perMessage + len(s.kept[i].Content)
	}
	for _, source := range s.question.Sources {
		size += perMessage + len(source.Title) + len(source.URL) + len(source.Content)
	}
	for i := range s.question.Retrieved {
		size += perMessage + len(s.question.Retrieved[i].Text)
	}
	return size
}

// recentSize is the part of size that bridge and tail take.
func (s *selection) recentSize() int {
	const perMessage = 16
	size := 0
	for _, turns := range [][]memory.Turn{s.bridge, s.tail} {
		for i := range turns {
			for j := range turns[i].Messages {
				size += perMessage + len(turns[i].Messages[j].Content)
			}
		}
	}
	return size
}
