package longterm

import (
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// Empty is the section of a user without memories, where MEMORY_SHOW_EMPTY asks for one.
const Empty = "(No specific memories yet)"

// Section writes memories, which come best first, for a prompt: one line each, those that fit into budget tokens. It
// returns the text, the memories that are in it, and the tokens that they take with their line ends.
func Section(found []memory.Remembered, budget int) (written string, shown []memory.Remembered, size int) {
	var lines []string
	for i := range found {
		more := tokens(&found[i])
		if size+more > budget {
			continue
		}
		lines, shown, size = append(lines, lineOf(&found[i])), append(shown, found[i]), size+more
	}
	return strings.Join(lines, "\n"), shown, size
}

// tokens returns how many tokens a memory takes in a section, with its line end.
func tokens(m *memory.Remembered) int { return text.Tokens(lineOf(m)) + 1 }

// lineOf writes a memory as "- Prefers oat milk (since March 2026)". A content that looks like a label or a list of the
// prompt's own is quoted; one that looks like a heading is quoted with its whole line, as package prompt does.
func lineOf(m *memory.Remembered) string {
	content := text.OneLine(m.Content)
	if looksLikeOurs(content) {
		content = text.QuotePrefix + content
	}
	return text.QuoteLines("- "+content+since(m), prompt.LooksLikeHeading)
}

// looksLikeOurs reports whether a content would read as a line of the prompt if it stood alone: a label such as "User:", the
// beginning of a quoted turn or of a list. Headings are told by the whole line.
func looksLikeOurs(content string) bool {
	return !prompt.LooksLikeHeading(content) && prompt.LooksLikePrompt(content) || strings.ContainsAny(content[:min(1, len(content))], "-*#[>•")
}

// since writes the times between which a memory is true.
func since(m *memory.Remembered) string {
	var parts []string
	if !m.ValidFrom.IsZero() {
		parts = append(parts, "since "+date(m.ValidFrom, m.Precision))
	}
	if !m.ValidTo.IsZero() {
		parts = append(parts, "until "+date(m.ValidTo, m.Precision))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func date(t time.Time, p memory.Precision) string {
	switch p {
	case memory.Year:
		return t.UTC().Format("2006")
	case memory.Month:
		return t.UTC().Format("January 2006")
	default:
		return t.UTC().Format("2 January 2006")
	}
}
