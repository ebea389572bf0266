package brief

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory/text"
)

// The frame of a fold's input. It must not change: hosted prompts and inspection tools rely on it.
const (
	summaryFence    = "=== EXISTING_SUMMARY ==="
	endSummaryFence = "=== END_EXISTING_SUMMARY ==="
	turnsFence      = "=== NEW_TURNS ==="
	EndTurnsFence   = "=== END_NEW_TURNS ==="
	noSummary       = "NONE"
)

// FoldInput writes what the summarizer reads: the summary so far, or the word NONE, and the turns of one piece, numbered
// from 1. Blank messages are left out. A line of the summary or of a message that looks like a part of this frame (a
// fence, a turn header, a speaker label) is quoted, so that what people wrote cannot pass for someone else's words. All
// other text is word for word.
func FoldInput(existingSummary string, piece Piece) string {
	var b strings.Builder
	b.Grow(len(existingSummary) + piece.textLen() + 256)
	b.WriteString(summaryFence + "\n")
	b.WriteString(quoteSummary(existingSummary))
	b.WriteString("\n" + endSummaryFence + "\n\n" + turnsFence + "\n")
	for i, turn := range piece.Turns {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString("Turn " + strconv.Itoa(i+1) + ":")
		for _, e := range turn {
			b.WriteByte('\n')
			writeExcerpt(&b, e)
		}
	}
	b.WriteString("\n" + EndTurnsFence)
	return b.String()
}

func quoteSummary(summary string) string {
	summary = strings.TrimSpace(summary)
	if summary == "" || strings.EqualFold(summary, noSummary) {
		return noSummary
	}
	return text.QuoteLines(summary, looksLikeFoldInput)
}

func writeExcerpt(b *strings.Builder, e Excerpt) {
	b.WriteString(e.Message.Role.Label())
	b.WriteString(": ")
	if e.Parts > 1 {
		fmt.Fprintf(b, "[part %d of %d] ", e.Part, e.Parts)
	}
	b.WriteString(text.QuoteLines(e.Text, looksLikeFoldInput))
}

var fenceWords = regexp.MustCompile(`(^=|==)(end)?(existingsummary|newturns)`)

// looksLikeFoldInput reports whether a line looks like a part of a fold input's frame.
func looksLikeFoldInput(line string) bool {
	return looksLikeFence(line) || text.LooksLikeLabel(line, false)
}

// looksLikeFence reports whether a line begins like a fence, or holds a whole one further on.
func looksLikeFence(line string) bool {
	if !text.HasEquals(line) || strings.HasPrefix(line, text.QuotePrefix) {
		return false
	}
	return fenceWords.MatchString(text.LettersAndDigits(text.Skeleton(line, len(line)), "="))
}
