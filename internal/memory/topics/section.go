package topics

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// Shown is what a prompt tells of a topic.
type Shown struct {
	Title string
	// Since is when its first turn was said.
	Since time.Time
	Turns int
	// Summary is "" where there is none yet.
	Summary string
}

// leastSummary is how many tokens of a summary are worth showing.
const leastSummary = 16

// Section writes a topic for a prompt in at most budget tokens, line ends included: the rest of the heading's line, such as
// "Bows, since 3 March 2026, 18 turns", and the summary in the lines below, as much of it as there is room for. It returns
// "" where not even the first line fits.
func Section(s Shown, budget int) (written string, tokens int) {
	written = fmt.Sprintf("%s, since %s, %s", text.OneLine(s.Title), s.Since.UTC().Format("2 January 2006"), turns(s.Turns))
	if tokens = text.Tokens(written) + 1; tokens > budget {
		return "", 0
	}
	summary := quoted(s.Summary)
	for room := budget - tokens - 1; summary != "" && room >= leastSummary; room -= 8 {
		longer := written + "\n" + text.FitCap(summary, room)
		if size := text.Tokens(longer) + 1; size <= budget {
			return longer, size
		}
	}
	return written, tokens
}

func turns(n int) string {
	if n == 1 {
		return "1 turn"
	}
	return fmt.Sprint(n, " turns")
}

var quotedTurn = regexp.MustCompile(`^\s*\[\s*\p{Nd}{4}`)

// quoted marks lines of a summary that look like the prompt's own, or like the turns that it quotes below.
func quoted(summary string) string {
	return text.QuoteLines(strings.TrimSpace(summary), func(line string) bool {
		return prompt.LooksLikePrompt(line) || quotedTurn.MatchString(line)
	})
}
