package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	barWidth = 20
	// redrawEvery is often enough for the eye.
	redrawEvery = 60 * time.Millisecond
	// plainLines is about how many lines there are where nothing can be redrawn.
	plainLines = 12
)

// progress shows how far the run is: on a terminal two lines that are redrawn (the bar, and the end of the reply
// that streams), otherwise a line now and then. It is safe for concurrent use.
type progress struct {
	mu          sync.Mutex
	out         io.Writer
	interactive bool
	width       int
	total, done int
	began       time.Time
	drawn       time.Time
	// state describes the last turn, text is the end of the reply that streams.
	state, text string
	noted       map[string]bool
	shown       bool // the two lines are on the screen
}

func newProgress(out io.Writer, interactive bool, width, total int) *progress {
	return &progress{out: out, interactive: interactive, width: width, total: total, began: time.Now(), noted: map[string]bool{}}
}

// turnDone counts one more turn. history is the tokens of all messages so far.
func (p *progress) turnDone(turn Turn, history int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.text = ""
	p.state = fmt.Sprintf("brief v%d, memory %s of %s tokens", turn.Receipt.BriefVersion, grouped(turn.MemoryTokens()), grouped(history))
	if !turn.At.IsZero() {
		p.state = turn.At.Format(time.DateOnly) + ", " + p.state
	}
	if p.interactive {
		p.draw()
		return
	}
	if step := max(1, p.total/plainLines); p.done%step == 0 || p.done == p.total {
		fmt.Fprintf(p.out, "  %d of %d: %s\n", p.done, p.total, p.state)
	}
}

// showText shows the next text of a reply.
func (p *progress) showText(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.interactive {
		return
	}
	p.text = lastRunes(p.text+strings.ReplaceAll(clean(text), "\n", " "), p.width-4)
	if time.Since(p.drawn) >= redrawEvery {
		p.draw()
	}
}

// note prints a text above the bar, each text once.
func (p *progress) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noted[text] {
		return
	}
	p.noted[text] = true
	p.wipe()
	writeWrapped(p.out, "  ", text, p.width)
	if p.interactive {
		p.draw()
	}
}

// status replaces the state beside the bar.
func (p *progress) status(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.text = strings.ReplaceAll(clean(text), "\n", " "), ""
	if p.interactive {
		p.draw()
	}
}

// end removes the bar.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
}

// draw writes both lines and leaves the cursor at the beginning of the first.
func (p *progress) draw() {
	p.drawn, p.shown = time.Now(), true
	first := fit(fmt.Sprintf("%s %d/%d%s  %s", bar(p.done, p.total), p.done, p.total, p.left(), p.state), p.width-1)
	second := fit("  "+p.text, p.width-1)
	fmt.Fprintf(p.out, "\r\x1b[K%s\n\x1b[K\x1b[2m%s\x1b[0m\r\x1b[1A", first, second)
}

func (p *progress) wipe() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[J")
		p.shown = false
	}
}

// left estimates the remaining time; "" while there is too little to estimate from.
func (p *progress) left() string {
	if p.done < 3 || p.done == p.total {
		return ""
	}
	each := time.Since(p.began) / time.Duration(p.done)
	return ", " + clock(each*time.Duration(p.total-p.done)) + " left"
}

func bar(done, total int) string {
	full := min(barWidth, done*barWidth/max(total, 1))
	return "▕" + strings.Repeat("█", full) + strings.Repeat("░", barWidth-full) + "▏"
}

// fit cuts a line at width characters.
func fit(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}
