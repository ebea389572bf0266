package prompt

import (
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

func writeBrief(s *selection) Section {
	return Section{
		Text: text.QuoteLines(s.brief.Summary, LooksLikePrompt), Budget: s.briefBudget,
		Account: Account{Tokens: s.brief.Tokens, Items: s.briefTurns},
	}
}

// writeKept writes the kept messages. They need not follow one another, so each is a paragraph.
func writeKept(s *selection) Section {
	var b strings.Builder
	for i := range s.kept {
		if i > 0 {
			b.WriteString("\n\n")
		}
		writeMessage(&b, &s.kept[i])
	}
	return Section{
		Text: b.String(), Budget: s.keptBudget, Seqs: s.keptSeqs(),
		Account: Account{Tokens: s.keptTokens, Items: len(s.kept), LeftOut: s.keptLeftOut},
	}
}

// writeRecent writes bridge and tail without a mark between them, so that a turn's move from tail to bridge changes no
// byte of the prompt.
func writeRecent(s *selection) Section {
	const perMessage = 16 // bytes, of labels and separators
	size := 0
	for t := range s.recentTurns {
		for i := range t.Messages {
			size += perMessage + len(t.Messages[i].Content)
		}
	}
	var b strings.Builder
	b.Grow(size)
	seqs := make([]int64, 0, len(s.bridge)+len(s.tail))
	separator := ""
	for t := range s.recentTurns {
		seqs = append(seqs, t.FirstSeq())
		b.WriteString(separator)
		WriteTurn(&b, t)
		separator = "\n\n"
	}
	return Section{
		Text: b.String(), Budget: s.recentBudget, Seqs: seqs,
		Account: Account{Tokens: s.bridgeTokens + s.tailTokens, Items: len(s.bridge) + len(s.tail), LeftOut: s.dropped()},
	}
}

// WriteTurn writes the messages of a turn as prompts show them, one per line. Blank ones are left out.
func WriteTurn(b *strings.Builder, t memory.Turn) {
	separator := ""
	for i := range t.Messages {
		m := &t.Messages[i]
		if m.Blank() {
			continue
		}
		b.WriteString(separator)
		writeMessage(b, m)
		separator = "\n"
	}
}

func writeMessage(b *strings.Builder, m *memory.Message) {
	b.WriteString(m.Role.Label())
	b.WriteString(": ")
	b.WriteString(m.Content)
}

// writeRetrieved writes a section that was retrieved for the question. The retriever has quoted the texts that people
// wrote; lines that look like a heading are quoted here in any case.
func writeRetrieved(name string) func(*selection) Section {
	return func(s *selection) Section {
		for _, section := range s.question.Retrieved {
			if section.Name == name {
				section.Text = text.QuoteLines(section.Text, LooksLikeHeading)
				return section
			}
		}
		return Section{}
	}
}

func writeQuestion(s *selection) Section {
	return Section{Text: s.question.Content}
}
