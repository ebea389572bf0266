package memory

import (
	"strconv"
	"strings"
)

// The headings of a prompt's sections, to the letter: models, caches and tests know them.
const (
	backgroundHeading = "BACKGROUND – PRIOR CONVERSATION SUMMARY (use only if relevant):"
	recentHeading     = "RECENT CONVERSATION (oldest first):"
	sourcesHeading    = "RETRIEVED SOURCES:"
	currentHeading    = "CURRENT MESSAGE:"
)

// Source is one retrieved passage. Its text is a third party's. Empty fields are left out.
type Source struct {
	Title, URL, Content string
}

// Question is the message to be answered, with the passages retrieved for it.
type Question struct {
	Content string
	Sources []Source
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
	// late or turns are huge.
	DroppedTurns int `json:"dropped_turns"`
	// Truncated says that the brief or a message of the tail was shortened.
	Truncated bool `json:"truncated"`
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
	// Memory is the beginning of Input that stays the same while the chat goes on: brief and recent
	// turns. Between two folds the Memory of one turn is a prefix of the next one's.
	Memory  string
	Receipt Receipt
	Dropped Dropped
}

// Build writes the prompt. turns is the chunk buffer: every turn after brief.CoveredSeq without the
// message being answered. Stored texts are only tokenized when something has to be shortened.
func Build(brief Brief, turns []Turn, q Question, limits Limits) Prompt {
	if strings.TrimSpace(brief.Summary) == "" {
		brief.Summary, brief.Tokens = "", 0
	}
	s := choose(brief.Tokens, turns, limits)
	bridge, tail := turns[s.bridge:s.tail], turns[s.tail:]
	f := fit(brief, tail, limits.PromptTokenBudget)

	var b strings.Builder
	b.Grow(sizeOf(f.summary, bridge, f.tail, q))
	writeSection(&b, backgroundHeading, f.summary)
	writeRecent(&b, bridge, f.tail)
	memoryEnd := b.Len()
	writeSources(&b, q.Sources)
	section(&b, currentHeading)
	b.WriteString(q.Content)

	input := b.String()
	return Prompt{
		Input:   input,
		Memory:  input[:memoryEnd],
		Receipt: receipt(brief, s, f, len(bridge)),
		Dropped: dropped(turns[:s.bridge]),
	}
}

func receipt(brief Brief, s selection, f fitted, bridgeTurns int) Receipt {
	r := Receipt{
		BriefVersion:      brief.Version,
		BriefTokens:       f.summaryTokens,
		CoveredThroughSeq: brief.CoveredSeq,
		BridgeTurns:       bridgeTurns,
		TailTurns:         len(f.tail),
		TailTokens:        f.tailTokens,
		BridgeTokens:      s.bridgeTokens,
		DroppedTurns:      s.bridge,
		Truncated:         f.truncated,
	}
	if brief.Stale {
		r.CoveredThroughSeq = 0
	}
	return r
}

func dropped(turns []Turn) Dropped {
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
func writeRecent(b *strings.Builder, bridge, tail []Turn) {
	if len(bridge)+len(tail) == 0 {
		return
	}
	section(b, recentHeading)
	separator := ""
	for _, turns := range [][]Turn{bridge, tail} {
		for _, t := range turns {
			b.WriteString(separator)
			writeTurn(b, t)
			separator = "\n\n"
		}
	}
}

// writeTurn writes a turn's messages word for word, one after another.
func writeTurn(b *strings.Builder, t Turn) {
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
		b.WriteString(m.Role.label())
		b.WriteString(": ")
		b.WriteString(m.Content)
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
			section(b, sourcesHeading)
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
		b.WriteString(quoteLines(content, readsAsHeading))
	}
}

// sizeOf estimates the length of a prompt from above in most cases, to allocate once.
func sizeOf(summary string, bridge, tail []Turn, q Question) int {
	const perMessage, headings = 16, 256
	size := headings + len(summary) + len(q.Content)
	for _, turns := range [][]Turn{bridge, tail} {
		for i := range turns {
			for j := range turns[i].Messages {
				size += perMessage + len(turns[i].Messages[j].Content)
			}
		}
	}
	for _, s := range q.Sources {
		size += perMessage + len(s.Title) + len(s.URL) + len(s.Content)
	}
	return size
}
