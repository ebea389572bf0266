package brief

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// SummaryInstructionsVersion names the reviewed text of the built-in instructions. It goes into each
// revision of a brief, so it changes whenever a word of them does.
const SummaryInstructionsVersion = "1"

//go:embed instructions/summary.md
var builtInSummaryInstructions string

//go:embed instructions/condense.md
var builtInCondenseInstructions string

// SummaryTask is what the instructions of one inline summary call depend on.
type SummaryTask struct {
	// Base replaces the built-in text when it is not empty. A "%d" in it stands for the cap.
	Base string
	// Cap is the most tokens the summary may have.
	Cap int
	// Piece is what the call reads: the instructions end with the dates of its turns.
	Piece Piece
	// Zone is the user's time zone where known; nil means UTC.
	Zone *time.Location
	// Refused is why the first answer was refused; zero in a first call.
	Refused Refusal
}

// SummaryInstructions writes the instructions of an inline summary call: the base text with the cap,
// why a first answer was refused, and the turns' dates, one line per day.
func SummaryInstructions(task SummaryTask) string {
	base := task.Base
	if strings.TrimSpace(base) == "" {
		base = builtInSummaryInstructions
	}
	parts := []string{withCap(base, task.Cap)}
	if task.Refused != (Refusal{}) {
		parts = append(parts, task.Refused.Sentence+" Answer with the summary alone.")
	}
	if dates := TurnDates(task.Piece, task.Zone); dates != "" {
		parts = append(parts, "When the new turns were written:\n"+dates)
	}
	return strings.Join(parts, "\n\n")
}

// CondenseInstructions writes the instructions of the call that shortens a summary over the cap. Its
// input is the long text.
func CondenseInstructions(limit int) string {
	return withCap(builtInCondenseInstructions, limit)
}

// withCap puts the cap in its place, or at the end of a text that has no place for it: programs and
// simple models look for the words "at most N tokens".
func withCap(text string, limit int) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "%d", strconv.Itoa(limit))
	words := fmt.Sprintf("at most %d tokens", limit)
	if strings.Contains(text, words) {
		return text
	}
	return text + "\n\nThe summary has " + words + "."
}

// TurnDates gives a line for each run of turns of one day: "Turns 1 to 4: 2026-11-20, Europe/Berlin".
// Turns without a date are left out.
func TurnDates(piece Piece, zone *time.Location) string {
	if zone == nil {
		zone = time.UTC
	}
	var lines []string
	for first := 0; first < len(piece.Turns); {
		day := dayOf(piece.Turns[first], zone)
		last := first
		for last+1 < len(piece.Turns) && dayOf(piece.Turns[last+1], zone) == day {
			last++
		}
		if day != "" {
			lines = append(lines, fmt.Sprintf("%s: %s, %s", turnRange(first+1, last+1), day, zone))
		}
		first = last + 1
	}
	return strings.Join(lines, "\n")
}

func turnRange(first, last int) string {
	if first == last {
		return fmt.Sprintf("Turn %d", first)
	}
	return fmt.Sprintf("Turns %d to %d", first, last)
}

func dayOf(turn PieceTurn, zone *time.Location) string {
	if len(turn) == 0 || turn[0].Message.CreatedAt.IsZero() {
		return ""
	}
	return turn[0].Message.CreatedAt.In(zone).Format(time.DateOnly)
}
