package prompt

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// The headings of a prompt's sections, to the letter: models, caches and tests know them.
const (
	BackgroundHeading = "BACKGROUND – PRIOR CONVERSATION SUMMARY (use only if relevant):"
	KeptHeading       = "KEPT MESSAGES (pinned or important, oldest first):"
	RecentHeading     = "RECENT CONVERSATION (oldest first):"
	FilesHeading      = "FILES (newest first):"
	SourcesHeading    = "RETRIEVED SOURCES:"
	CurrentHeading    = "CURRENT MESSAGE:"
)

// Source is one retrieved passage. Its text is a third party's. Empty fields are left out.
type Source struct {
	Title, URL, Content string
}

// Question is the message to be answered, with the passages retrieved for it.
type Question struct {
	Content string
	Sources []Source
	// InstructionTokens is the size of the instructions that go beside the prompt. Like the question and its
	// sources they take their place from the files.
	InstructionTokens int
}

// Receipt says what a reply was given to remember. Its JSON is part of the HTTP contract.
type Receipt struct {
	BriefVersion int64 `json:"brief_version"`
	// BriefTokens is the size of the brief as shown, 0 when none is.
	BriefTokens int `json:"brief_tokens"`
	// CoveredThroughSeq is 0 while the brief is stale: it then claims no coverage.
	CoveredThroughSeq int64 `json:"covered_through_seq"`
	BridgeTurns       int   `json:"bridge_turns"`
	TailTurns         int   `json:"tail_turns"`
	TailTokens        int   `json:"tail_tokens"`
	BridgeTokens      int   `json:"bridge_tokens"`
	// DroppedTurns counts the buffer's turns that are in neither brief nor prompt: 0 unless folds are
	// late or turns are huge. In a simple chat it is every turn that is too far back.
	DroppedTurns int `json:"dropped_turns"`
	// Truncated says that the brief, a message of the tail or a kept one was shortened.
	Truncated bool `json:"truncated"`
	// Strategy is the chat's.
	Strategy memory.StrategyName `json:"strategy"`
	// KeptMessages are the pinned and important messages that are shown beside the turns, LeftOutMessages
	// those without room.
	KeptMessages    int `json:"kept_messages,omitempty"`
	KeptTokens      int `json:"kept_tokens,omitempty"`
	LeftOutMessages int `json:"left_out_messages,omitempty"`
	// Files are the contents that are shown, LeftOutFiles those without room.
	Files        int `json:"files,omitempty"`
	FileTokens   int `json:"file_tokens,omitempty"`
	LeftOutFiles int `json:"left_out_files,omitempty"`
	// BriefUnreadable says that the stored brief is not in its form, so that the reply did without it.
	BriefUnreadable bool `json:"brief_unreadable,omitempty"`
}

// Dropped describes the turns a prompt had no room for, for the log: they are the oldest of the
// buffer. It is zero when there are none.
type Dropped struct {
	Turns, Tokens     int
	FirstSeq, LastSeq int64
}

// Prompt is what the main model reads, with the account of it.
type Prompt struct {
	// Input goes to the model in the user's role, never as instructions.
	Input string
	// Memory is the beginning of Input that stays the same while the chat goes on: brief, kept messages and
	// recent turns. Between two folds the Memory of one turn is a prefix of the next one's.
	Memory  string
	Receipt Receipt
	Dropped Dropped
	// Sections are the parts of Input that come from the chat, in order.
	Sections []Section
}

// Section is a part of a prompt, with its heading.
type Section struct {
	// Name is brief, kept, recent or files.
	Name string `json:"name"`
	Text string `json:"text"`
	// Tokens are those that the budgets count: of what is stored, without headings and labels.
	Tokens int `json:"tokens"`
	// Turns that the section stands for; Messages where it shows single ones, Files where it shows those.
	Turns    int `json:"turns,omitempty"`
	Messages int `json:"messages,omitempty"`
	Files    int `json:"files,omitempty"`
}

// Build writes the prompt of a chat whose buffer does not hold the message being answered. Stored texts
// are only tokenized when something has to be shortened.
func Build(c memory.Chat, q Question, limits memory.Limits) Prompt {
	if strings.TrimSpace(c.Brief.Summary) == "" {
		c.Brief.Summary, c.Brief.Tokens = "", 0
	}
	c.Turns, _ = quotedTurns(c.WholeTurns())
	c.Kept, _ = quotedMessages(c.Kept)
	p := strategyOf(c.Strategy).pick(&c, limits)
	files := pickFiles(c.Files, fileRoom(&c, &p, q, limits))

	var w promptWriter
	w.Grow(sizeOf(&p, &files, q))
	writeSection(&w.Builder, BackgroundHeading, text.QuoteLines(p.brief.Summary, ReadsAsPrompt))
	w.wrote(Section{Name: "brief", Tokens: p.brief.Tokens, Turns: c.BriefTurns()})
	writeKept(&w.Builder, p.kept)
	w.wrote(Section{Name: "kept", Tokens: p.keptTokens, Messages: len(p.kept)})
	writeRecent(&w.Builder, p.bridge, p.tail)
	w.wrote(Section{Name: "recent", Tokens: p.bridgeTokens + p.tailTokens, Turns: len(p.bridge) + len(p.tail)})
	memoryEnd := w.Len()
	files.write(&w.Builder)
	w.wrote(Section{Name: "files", Tokens: files.tokens, Files: len(files.entries)})
	writeSources(&w.Builder, q.Sources)
	section(&w.Builder, CurrentHeading)
	w.WriteString(q.Content)

	input := w.String()
	return Prompt{
		Input: input, Memory: input[:memoryEnd], Sections: w.sections,
		Receipt: receipt(&c, &p, &files), Dropped: dropped(p.unseen),
	}
}

// fileRoom is what the question leaves to the files, and the labels that the history's budgets do not count.
func fileRoom(c *memory.Chat, p *picked, q Question, l memory.Limits) int {
	if len(c.Files) == 0 {
		return 0
	}
	var sources strings.Builder
	writeSources(&sources, q.Sources)
	used := q.InstructionTokens + text.Tokens(q.Content) + text.Tokens(sources.String()) + p.frameTokens()
	return min(l.FileTokens-used, memory.MaxFileTokens)
}

// HeadingTokens is what the headings of all sections take, from above.
const HeadingTokens = 64

// frameTokens is what the headings and the labels of the messages take, from above.
func (p *picked) frameTokens() int {
	messages := len(p.kept)
	for _, turns := range [][]memory.Turn{p.bridge, p.tail} {
		for _, t := range turns {
			messages += len(t.Messages)
		}
	}
	return HeadingTokens + memory.LabelTokens*messages
}

// promptWriter writes a prompt and remembers its sections.
type promptWriter struct {
	strings.Builder

	sections []Section
	end      int // of the last one
}

// wrote notes what was written since the last note as a section, if anything was.
func (w *promptWriter) wrote(s Section) {
	if w.Len() == w.end {
		return
	}
	s.Text = strings.TrimLeft(w.String()[w.end:], "\n")
	w.end = w.Len()
	w.sections = append(w.sections, s)
}

func receipt(c *memory.Chat, p *picked, files *shownFiles) Receipt {
	r := Receipt{
		BriefVersion: p.brief.Version, BriefTokens: p.brief.Tokens, CoveredThroughSeq: p.brief.CoveredSeq,
		BridgeTurns: len(p.bridge), BridgeTokens: p.bridgeTokens, TailTurns: len(p.tail), TailTokens: p.tailTokens,
		DroppedTurns: len(p.unseen) + p.unread, Truncated: p.truncated,
		Strategy: cmp.Or(c.Strategy, memory.StrategySummary), KeptMessages: len(p.kept), KeptTokens: p.keptTokens, LeftOutMessages: p.leftOut,
		FileTokens: files.tokens, LeftOutFiles: files.untold, BriefUnreadable: c.Brief.Unreadable,
	}
	if c.Brief.Stale || c.Brief.Unreadable {
		r.CoveredThroughSeq = 0
	}
	for _, f := range files.entries {
		switch {
		case f.leftOut:
			r.LeftOutFiles++
		case f.sameAs == "":
			r.Files++
		}
	}
	return r
}

func dropped(turns []memory.Turn) Dropped {
	if len(turns) == 0 {
		return Dropped{}
	}
	d := Dropped{Turns: len(turns), FirstSeq: turns[0].FirstSeq()}
	for _, t := range turns {
		d.Tokens += t.Tokens()
		d.LastSeq = max(d.LastSeq, t.LastSeq())
	}
	return d
}

func section(b *strings.Builder, heading string) {
	if b.Len() > 0 {
		b.WriteString("\n\n")
	}
	b.WriteString(heading)
	b.WriteByte('\n')
}

func writeSection(b *strings.Builder, heading, text string) {
	if text == "" {
		return
	}
	section(b, heading)
	b.WriteString(text)
}

// writeRecent writes bridge and tail as one run, so that a turn's move from tail to bridge changes
// no byte of the prompt.
func writeRecent(b *strings.Builder, bridge, tail []memory.Turn) {
	if len(bridge)+len(tail) == 0 {
		return
	}
	section(b, RecentHeading)
	separator := ""
	for _, turns := range [][]memory.Turn{bridge, tail} {
		for _, t := range turns {
			b.WriteString(separator)
			WriteTurn(b, t)
			separator = "\n\n"
		}
	}
}

// WriteTurn writes a turn's messages, one after another.
func WriteTurn(b *strings.Builder, t memory.Turn) {
	first := true
	for i := range t.Messages {
		m := &t.Messages[i]
		if m.Blank() {
			continue
		}
		if !first {
			b.WriteByte('\n')
		}
		first = false
		writeMessage(b, m)
	}
}

func writeMessage(b *strings.Builder, m *memory.Message) {
	b.WriteString(m.Role.Label())
	b.WriteString(": ")
	b.WriteString(m.Content)
}

// writeKept writes messages that were said long ago, each by itself.
func writeKept(b *strings.Builder, kept []memory.Message) {
	if len(kept) == 0 {
		return
	}
	section(b, KeptHeading)
	for i := range kept {
		if i > 0 {
			b.WriteString("\n\n")
		}
		writeMessage(b, &kept[i])
	}
}

func writeSources(b *strings.Builder, sources []Source) {
	begun := false
	for i, s := range sources {
		if s == (Source{}) {
			continue
		}
		if begun {
			b.WriteString("\n\n")
		} else {
			section(b, SourcesHeading)
		}
		begun = true
		writeSource(b, i+1, s)
	}
}

// writeSource numbers a passage by its place in the question, so that the app can follow a "[2]" of
// the reply. Lines that read as a heading of ours are quoted: a retrieved page must not be able to
// start a section.
func writeSource(b *strings.Builder, number int, s Source) {
	b.WriteByte('[')
	b.WriteString(strconv.Itoa(number))
	b.WriteByte(']')
	separator := " "
	for _, field := range []string{s.Title, s.URL} {
		if line := strings.Join(strings.Fields(field), " "); line != "" {
			b.WriteString(separator + line)
			separator = ", "
		}
	}
	if content := strings.TrimSpace(s.Content); content != "" {
		b.WriteString(strings.Replace(separator, ", ", "\n", 1))
		b.WriteString(text.QuoteLines(content, readsAsSource))
	}
}

// sizeOf estimates the length of a prompt from above in most cases, to allocate once.
func sizeOf(p *picked, files *shownFiles, q Question) int {
	const perMessage, headings = 16, 256
	size := headings + len(p.brief.Summary) + len(q.Content)
	for i := range p.kept {
		size += perMessage + len(p.kept[i].Content)
	}
	for _, turns := range [][]memory.Turn{p.bridge, p.tail} {
		for i := range turns {
			for j := range turns[i].Messages {
				size += perMessage + len(turns[i].Messages[j].Content)
			}
		}
	}
	for _, f := range files.entries {
		size += 4*perMessage + len(f.Path) + len(f.sameAs) + len(f.text)
	}
	for _, s := range q.Sources {
		size += perMessage + len(s.Title) + len(s.URL) + len(s.Content)
	}
	return size
}
