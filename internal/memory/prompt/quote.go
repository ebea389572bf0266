package prompt

import (
	"regexp"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// quotedTurns are turns whose messages cannot speak in the prompt's name: lines that read as a heading or
// as a speaker are quoted, all else is word for word. Turns without such lines, which is nearly all, are
// the same ones. It tells whether any has changed.
func quotedTurns(turns []memory.Turn) ([]memory.Turn, bool) {
	changed := false
	for i := range turns {
		messages, quoted := quotedMessages(turns[i].Messages)
		if !quoted {
			continue
		}
		if !changed {
			turns, changed = slices.Clone(turns), true
		}
		turns[i].Messages = messages
	}
	return turns, changed
}

// quotedMessages counts what the quotes take: each is two bytes, and at most as many tokens.
func quotedMessages(messages []memory.Message) ([]memory.Message, bool) {
	changed := false
	for i := range messages {
		if isBare(messages[i].Content) {
			continue
		}
		text := text.QuoteLines(messages[i].Content, ReadsAsPrompt)
		added := len(text) - len(messages[i].Content)
		if added == 0 {
			continue
		}
		if !changed {
			messages, changed = slices.Clone(messages), true
		}
		messages[i].Content, messages[i].Tokens = text, messages[i].Tokens+added
	}
	return messages, changed
}

// isBare is a cheap test that spares most messages the dear one: printable ASCII, and nothing that could
// end a label.
func isBare(text string) bool {
	for i := range len(text) {
		if c := text[i]; c == ':' || c == '&' || c >= 0x7f {
			return false
		}
	}
	return true
}

var sourceStart = regexp.MustCompile(`^\[\s*\p{Nd}+\s*\]`)

// ReadsAsHeading tells whether a line reads as the heading of one of a prompt's sections.
func ReadsAsHeading(line string) bool {
	_, words := text.LabelOf(line)
	return headings[words]
}

// ReadsAsPrompt tells whether a line of a message or of the brief reads as a part of the prompt.
func ReadsAsPrompt(line string) bool {
	return ReadsAsHeading(line) || text.ReadsAsLabel(line, true)
}

// readsAsSource tells whether a line of a passage reads as a heading or as the beginning of another one.
func readsAsSource(line string) bool {
	return ReadsAsHeading(line) || strings.ContainsAny(line, "[\uff3b&") && sourceStart.MatchString(text.AsSeen(line, text.SeenRunes))
}
