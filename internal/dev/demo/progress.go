package demo

import (
	"fmt"
	"io"
	"strings"

	"github.com/arcoscribe/throughline/internal/terminal"
)

const (
	width    = 80 // of the progress bar's lines, in columns
	barWidth = 20
	// plainLines is about how many lines there are where nothing can be drawn anew.
	plainLines = 12
)

// progress is a bar over the end of the reply that streams, or a line now and then.
type progress struct {
	out         io.Writer
	interactive bool
	total, done int
	state, text string
	cleaner     terminal.Cleaner
}

// step counts a turn.
func (p *progress) step(state string) {
	p.done++
	p.state, p.text = terminal.OneLine(state), ""
	if every := max(1, p.total/plainLines); !p.interactive && (p.done%every == 0 || p.done == p.total) {
		fmt.Fprintf(p.out, "  %d of %d: %s\n", p.done, p.total, p.state)
	}
}

// show adds a piece of the reply.
func (p *progress) show(piece string) {
	if !p.interactive {
		return
	}
	runes := []rune(p.text + strings.NewReplacer("\n", " ", "\t", " ").Replace(p.cleaner.Clean(piece)))
	p.text = string(runes[max(0, len(runes)-width+4):])
	full := barWidth * p.done / max(1, p.total)
	bar := strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
	first := terminal.Shorten(fmt.Sprintf("▕%s▏ %d/%d  %s", bar, p.done, p.total, p.state), width-1)
	fmt.Fprintf(p.out, "\r\x1b[K%s\n\x1b[K\x1b[2m  %s\x1b[0m\r\x1b[1A", first, p.text)
}

// clear removes the bar.
func (p *progress) clear() {
	if p.interactive {
		fmt.Fprint(p.out, "\r\x1b[J")
	}
}
