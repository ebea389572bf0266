package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/terminal"
)

const (
	width    = 80 // of the bar's lines, in columns
	barWidth = 20
	// redrawEvery is often enough for the eye.
	redrawEvery = 60 * time.Millisecond
	// plainLines is about how many lines there are where nothing can be redrawn.
	plainLines = 12
)

// progress shows how far the run is: on a terminal two lines that are redrawn (the bar, and the end of the reply
// that streams), otherwise a line now and then.
type progress struct {
	out         io.Writer
	interactive bool
	total, done int
	drawn       time.Time // zero when the two lines are not on the screen
	// state describes the last turn, text is the end of the reply that streams.
	state, text string
	cleaner     terminal.Cleaner
	noted       map[string]bool
}

func newProgress(out io.Writer, interactive bool, total int) *progress {
	return &progress{out: out, interactive: interactive, total: total, noted: map[string]bool{}}
}

// turnDone counts one more turn.
func (p *progress) turnDone(state string) {
	p.done++
	p.status(state)
	if step := max(1, p.total/plainLines); !p.interactive && (p.done%step == 0 || p.done == p.total) {
		fmt.Fprintf(p.out, "  %d of %d: %s\n", p.done, p.total, p.state)
	}
}

// showText shows the next text of a reply.
func (p *progress) showText(text string) {
	runes := []rune(p.text + strings.NewReplacer("\n", " ", "\t", " ").Replace(p.cleaner.Clean(text)))
	p.text = string(runes[max(0, len(runes)-width+4):])
	if time.Since(p.drawn) >= redrawEvery {
		p.draw()
	}
}

// note prints a text above the bar, each text once.
func (p *progress) note(text string) {
	if p.noted[text] {
		return
	}
	p.noted[text] = true
	p.end()
	fmt.Fprintf(p.out, "  %s\n", text)
	p.draw()
}

// status replaces the state beside the bar, and removes the reply.
func (p *progress) status(text string) {
	p.state, p.text = terminal.OneLine(text), ""
	p.draw()
}

// draw writes both lines and leaves the cursor at the beginning of the first.
func (p *progress) draw() {
	if !p.interactive {
		return
	}
	p.drawn = time.Now()
	full := barWidth * p.done / p.total
	first := fmt.Sprintf("▕%s%s▏ %d/%d  %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), p.done, p.total, p.state)
	fmt.Fprintf(p.out, "\r\x1b[K%s\n\x1b[K\x1b[2m  %s\x1b[0m\r\x1b[1A", terminal.Shorten(first, width-1), p.text)
}

// end removes the bar.
func (p *progress) end() {
	if !p.drawn.IsZero() {
		fmt.Fprint(p.out, "\r\x1b[J")
		p.drawn = time.Time{}
	}
}
