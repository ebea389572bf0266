package prompt

import (
	"strconv"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// sourceSelection are the question's sources that a prompt shows.
type sourceSelection struct {
	texts     []string
	tokens    int // of texts, once they had to be counted; else 0
	shortened int
	leftOut   int
}

// leastSource is the fewest tokens to which a source is shortened, enough for its number and a few words.
const leastSource = 4 * text.ClipReserve

// selectSources writes the sources. Where they have no room, the longest are shortened in their middle to a common
// length; where that is less than a few words, the last ones are left out. room is in tokens.
func selectSources(sources []Source, room func() int, fits bool) sourceSelection {
	var s sourceSelection
	for i, source := range sources {
		if source != (Source{}) {
			s.texts = append(s.texts, sourceText(i+1, source))
		}
	}
	if fits || len(s.texts) == 0 {
		return s
	}
	return s.shorten(room())
}

// shorten shortens the sources to room tokens.
func (s sourceSelection) shorten(room int) sourceSelection {
	const separator = 2 // tokens of the blank line between two sources
	sizes := make([]int, len(s.texts))
	for i, written := range s.texts {
		sizes[i] = text.Tokens(written) + separator
		s.tokens += sizes[i]
	}
	if s.tokens <= room {
		return s
	}
	for len(s.texts) > 0 && room/len(s.texts) < leastSource {
		s.texts = s.texts[:len(s.texts)-1]
		s.leftOut++
	}
	s.tokens = 0
	level := sharedLevel(append([]int{}, sizes[:len(s.texts)]...), room)
	for i, written := range s.texts {
		if sizes[i] > level {
			s.texts[i], sizes[i] = text.Clip(written, level-separator)
			s.shortened++
		}
		s.tokens += sizes[i]
	}
	return s
}

func writeSources(s *selection) Section {
	return Section{Text: strings.Join(s.sources.texts, "\n\n"), Account: Account{
		Tokens: s.sources.tokens, Items: len(s.sources.texts), LeftOut: s.sources.leftOut, Shortened: s.sources.shortened,
	}}
}

// sourceText numbers a source by its position in the question, so that the app can resolve a "[2]" of the reply. Lines
// that look like a heading are quoted: a retrieved page must not be able to start a section.
func sourceText(number int, s Source) string {
	var b strings.Builder
	b.WriteString("[" + strconv.Itoa(number) + "]")
	separator := " "
	for _, field := range []string{s.Title, s.URL} {
		if line := text.OneLine(field); line != "" {
			b.WriteString(separator + line)
			separator = ", "
		}
	}
	if content := strings.TrimSpace(s.Content); content != "" {
		b.WriteString(strings.Replace(separator, ", ", "\n", 1))
		b.WriteString(text.QuoteLines(content, looksLikeSource))
	}
	return b.String()
}

// sourceRoom returns how many tokens the window leaves for the sources.
func (s *selection) sourceRoom(l memory.Limits) int {
	return l.InputTokens - s.brief.Tokens - s.keptTokens - s.bridgeTokens - s.tailTokens - s.fixedTokens()
}

// fixedTokens returns the tokens of the prompt's unavoidable parts, and of headings and labels, which no budget counts.
func (s *selection) fixedTokens() int {
	messages := len(s.kept)
	for t := range s.recentTurns {
		messages += len(t.Messages)
	}
	used := text.Tokens(s.question.Instructions) + text.Tokens(s.question.Content) + text.Tokens(s.done) + HeadingTokens +
		memory.LabelTokens*messages
	for _, section := range s.question.Retrieved {
		if section.Text != "" {
			used += text.Tokens(Heading(section.Name)) + text.Tokens(section.Text)
		}
	}
	return used
}
