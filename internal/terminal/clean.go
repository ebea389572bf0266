package terminal

import (
	"io"
	"os"
	"strings"
)

// Cleaner makes foreign text safe for a terminal: it removes control characters except line feeds and tabs, and whole
// escape sequences (ECMA-48). A text may come in pieces that cut a sequence anywhere.
type Cleaner int

const (
	inText     Cleaner = iota
	inEscape           // after ESC
	inSequence         // after CSI, up to its final character
	inString           // after OSC, DCS and the like, up to their terminator
)

// The controls that begin and end sequences: as one character, or as ESC and its second form.
const (
	esc = '\x1b'
	bel = '\a'
)

// Clean returns the printable text of the next piece.
func (c *Cleaner) Clean(piece string) string {
	return strings.Map(c.take, piece)
}

// Clean is Cleaner.Clean for a whole text.
func Clean(text string) string {
	var cleaner Cleaner
	return cleaner.Clean(text)
}

// OneLine is Clean with all white space as single spaces.
func OneLine(text string) string {
	return strings.Join(strings.Fields(Clean(text)), " ")
}

// take returns the character, or -1 to drop it.
func (c *Cleaner) take(r rune) rune {
	switch r {
	case '\n':
		*c = inText // a line end ends every sequence, so that a broken one does not hide the rest
		return r
	case esc:
		*c = inEscape // also within a string: ESC \ ends it, another begins a new sequence
		return -1
	}
	switch *c {
	case inEscape:
		*c = afterEscape(r)
		return -1
	case inSequence:
		if r < ' ' || r >= '@' {
			*c = inText
		}
		return -1
	case inString:
		if r == bel || r == '\u009c' {
			*c = inText
		}
		return -1
	}
	return c.text(r)
}

// text takes a character outside of sequences.
func (c *Cleaner) text(r rune) rune {
	switch {
	case r == '\u009b':
		*c = inSequence
	case r == '\u0090' || r == '\u0098' || r >= '\u009d' && r <= '\u009f':
		*c = inString
	case r == '\t' || !isControl(r):
		return r
	}
	return -1
}

// isControl reports whether r is in C0, DEL or C1, or changes the direction of writing.
func isControl(r rune) bool {
	return r < ' ' || r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

func afterEscape(r rune) Cleaner {
	switch r {
	case '[':
		return inSequence
	case ']', 'P', 'X', '^', '_':
		return inString
	}
	if r >= ' ' && r <= '/' {
		return inEscape // the sequence goes on
	}
	return inText
}

// IsTerminal reports whether out is a terminal, not a file or a pipe.
func IsTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
