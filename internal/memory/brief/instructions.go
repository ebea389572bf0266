package brief

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// SummaryInstructionsVersion is the version of the built-in instructions. Each revision of a brief names it, so it has
// to change with every change of their text.
const SummaryInstructionsVersion = "1"

//go:embed instructions/summary.md
var builtInSummaryInstructions string

//go:embed instructions/condense.md
var builtInCondenseInstructions string

// SummaryTask holds all that the instructions of one inline summary call depend on.
type SummaryTask struct {
	// Base replaces the built-in text when it is not empty. A "%d" in it stands for the cap.
	Base string
	// Cap is the most tokens the summary may have.
	Cap int
	// Piece is the call's input. The instructions end with the dates of its turns.
	Piece Piece
	// Refused is why the first answer was refused; zero in a first call.
	Refused Refusal
	// Titled asks for a title before the summary.
	Titled bool
}

// SummaryInstructions writes the instructions of an inline summary call: the base text with the cap,
// why a first answer was refused, a title if one is wanted, and the turns' dates, one line per day.
func SummaryInstructions(task SummaryTask) string {
	base := task.Base
	if strings.TrimSpace(base) == "" {
		base = builtInSummaryInstructions
	}
	parts := []string{withCap(base, task.Cap)}
	if task.Refused != (Refusal{}) {
		parts = append(parts, task.Refused.Sentence+" Answer with the summary alone.")
	}
	if task.Titled {
		parts = append(parts, askForTitle)
	}
	if dates := turnDates(task.Piece); dates != "" {
		parts = append(parts, "When the new turns were written:\n"+dates)
	}
	return strings.Join(parts, "\n\n")
}

// CondenseInstructions writes the instructions of the call that shortens a summary over the cap, which is its input.
func CondenseInstructions(limit int) string {
	return withCap(builtInCondenseInstructions, limit)
}

// withCap replaces "%d" by the cap, or adds a sentence to a text without it: the offline model looks for the words
// "at most N tokens".
func withCap(text string, limit int) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "%d", strconv.Itoa(limit))
	words := fmt.Sprintf("at most %d tokens", limit)
	if strings.Contains(text, words) {
		return text
	}
	return text + "\n\nThe summary has " + words + "."
}

// turnDates writes a line for each run of turns of one day: "Turns 1 to 4: 2026-11-20, Europe/Berlin". A day is that
// of the time zone in the turn's user message, or of the zone named last before it in the piece, else of UTC.
// Turns without a date are left out.
func turnDates(piece Piece) string {
	dates := make([]string, len(piece.Turns))
	zones := zoneReader{zone: time.UTC}
	for i, turn := range piece.Turns {
		dates[i] = dateOf(turn, zones.read(turn))
	}
	var lines []string
	for first := 0; first < len(dates); {
		last := first
		for last+1 < len(dates) && dates[last+1] == dates[first] {
			last++
		}
		if dates[first] != "" {
			lines = append(lines, turnRange(first+1, last+1)+": "+dates[first])
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

func dateOf(turn PieceTurn, zone *time.Location) string {
	if len(turn) == 0 || turn[0].Message.CreatedAt.IsZero() {
		return ""
	}
	return turn[0].Message.CreatedAt.In(zone).Format(time.DateOnly) + ", " + zone.String()
}

// zoneReader remembers the time zone that was named last.
type zoneReader struct {
	name string
	zone *time.Location
}

// read returns the time zone of a turn. A name that is unknown means UTC.
func (r *zoneReader) read(turn PieceTurn) *time.Location {
	for i := range turn {
		name := turn[i].Message.TimeZone
		if turn[i].Message.Role != memory.RoleUser || name == "" || name == r.name {
			continue
		}
		r.name, r.zone = name, time.UTC
		if zone, err := time.LoadLocation(name); err == nil && zone != time.Local { // "Local" is the server's own
			r.zone = zone
		}
	}
	return r.zone
}

// askForTitle is added to the instructions of a summary that is to begin with a title, which cutTitle takes off the answer.
const askForTitle = "Begin with one more line: \"Title: \" and three to six words, in the user's language, that name what is talked about. " +
	"The summary follows on the next line."

// Bounds of a title: one of more words is a sentence.
const mostTitleWords, mostTitle = 8, 80

// cutTitle takes the title off an answer that was asked to begin with one; "" for none, and for one that is no title.
func cutTitle(answer string) (title, summary string) {
	first, rest, _ := strings.Cut(strings.TrimSpace(answer), "\n")
	label, named, found := strings.Cut(first, ":")
	if !found || !strings.EqualFold(strings.Trim(label, "*# "), "title") {
		return "", answer
	}
	title = text.OneLine(strings.Trim(named, " *\"“”„«»'.\t"))
	if len(strings.Fields(title)) > mostTitleWords || utf8.RuneCountInString(title) > mostTitle {
		title = ""
	}
	return title, strings.TrimSpace(rest)
}
