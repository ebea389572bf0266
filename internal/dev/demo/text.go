package demo

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// stickyWriter keeps the first error of many writes, so that a report can be written in one go.
type stickyWriter struct {
	out io.Writer
	err error
}

func (w *stickyWriter) Write(p []byte) (int, error) {
	if w.err == nil {
		_, w.err = w.out.Write(p)
	}
	return len(p), nil
}

// clean makes a text of others fit for a terminal: no control or format characters, which could move
// the cursor or turn the direction of writing, except line ends and tabs as spaces.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// writeWrapped writes a text in lines of at most width columns, each behind indent. List items keep
// their indentation when they go on. A word longer than a line stays whole.
func writeWrapped(out io.Writer, indent, text string, width int) {
	for line := range strings.Lines(clean(text)) {
		line = strings.TrimRight(line, " \n")
		hang := ""
		if strings.HasPrefix(line, "- ") {
			hang = "  "
		}
		for _, part := range wrap(line, width-utf8.RuneCountInString(indent), hang) {
			fmt.Fprintln(out, strings.TrimRight(indent+part, " "))
		}
	}
}

func wrap(line string, width int, hang string) []string {
	words := strings.Fields(line)
	if len(words) == 0 {
		return []string{""}
	}
	var lines []string
	current := words[0]
	for _, word := range words[1:] {
		if utf8.RuneCountInString(current)+1+utf8.RuneCountInString(word) <= width {
			current += " " + word
			continue
		}
		lines = append(lines, current)
		current = hang + word
	}
	return append(lines, current)
}

// grouped writes a number with its thousands apart.
func grouped(n int) string {
	digits := strconv.Itoa(max(n, -n))
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	if n < 0 {
		return "-" + digits
	}
	return digits
}

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return grouped(n) + " " + thing + "s"
}

// clock writes a duration as minutes and seconds.
func clock(d time.Duration) string {
	seconds := int(d.Round(time.Second) / time.Second)
	return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
}

// lastRunes is the end of a text, in at most n characters.
func lastRunes(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return "…" + string(runes[len(runes)-n+1:])
}
