package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// clean makes foreign text safe for a terminal. It removes control and format characters, which could move the cursor
// or reverse the direction of writing; line ends stay and tabs become spaces.
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

// writeWrapped writes a text in lines of at most width columns, each after indent. Continuation lines of list items
// are indented. A word longer than a line stays whole.
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

var english = message.NewPrinter(language.English)

// grouped formats a number with commas between the thousands.
func grouped(n int) string { return english.Sprint(n) }

// count formats a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return grouped(n) + " " + thing + "s"
}

// clock formats a duration as minutes and seconds.
func clock(d time.Duration) string {
	seconds := int(d.Round(time.Second) / time.Second)
	return fmt.Sprintf("%d:%02d", seconds/60, seconds%60)
}

// lastRunes returns the end of a text, at most n characters.
func lastRunes(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return "…" + string(runes[len(runes)-n+1:])
}
