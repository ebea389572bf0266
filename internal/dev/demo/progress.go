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

// progress shows how far the playing is: two lines that redraw themselves on a terminal (how far, and
// what is being said), otherwise a line now and then. It is safe for concurrent use.
type progress struct {
	mu          sync.Mutex
	out         io.Writer
	interactive bool
	width       int
	total, done int
	began       time.Time
	drawn       time.Time
	// state is what the last turn showed, speech the end of what is being said.
	state, speech string
	noted         map[string]bool
	open          bool // the two lines are on the screen
}

func newProgress(out io.Writer, interactive bool, width, total int) *progress {
	return &progress{out: out, interactive: interactive, width: width, total: total, began: time.Now(), noted: map[string]bool{}}
}

// played counts one more turn. history is what all messages so far add up to.
func (p *progress) played(at time.Time, turn Turn, history int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.speech = ""
	p.state = fmt.Sprintf("brief v%d, memory %s of %s tokens", turn.Receipt.BriefVersion, grouped(turn.MemoryTokens()), grouped(history))
	if !at.IsZero() {
		p.state = at.Format(time.DateOnly) + ", " + p.state
	}
	if p.interactive {
		p.draw()
		return
	}
	if step := max(1, p.total/plainLines); p.done%step == 0 || p.done == p.total {
		p.line(fmt.Sprintf("%d of %d: %s", p.done, p.total, p.state))
	}
}

// says shows the next words of a reply.
func (p *progress) says(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.interactive {
		return
	}
	p.speech = lastRunes(p.speech+strings.ReplaceAll(clean(text), "\n", " "), p.width-4)
	if time.Since(p.drawn) >= redrawEvery {
		p.draw()
	}
}

// note tells something once, above the bar.
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

// settling tells that the folds are waited for, asking that the question at the end is asked.
func (p *progress) settling() { p.status("waiting for folds") }

func (p *progress) asking(question string) { p.status("asking: " + question) }

func (p *progress) status(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.speech = strings.ReplaceAll(clean(text), "\n", " "), ""
	if p.interactive {
		p.draw()
	}
}

// end takes the bar away.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
}

func (p *progress) line(text string) {
	fmt.Fprintln(p.out, "  "+text) // a bar that cannot be shown is no failure: the report tells it
}

// draw writes both lines and leaves the cursor at the beginning of the first.
func (p *progress) draw() {
	p.drawn, p.open = time.Now(), true
	first := fit(fmt.Sprintf("%s %d/%d%s  %s", bar(p.done, p.total), p.done, p.total, p.left(), p.state), p.width-1)
	second := fit("  "+p.speech, p.width-1)
	fmt.Fprintf(p.out, "\r\x1b[K%s\n\x1b[K\x1b[2m%s\x1b[0m\r\x1b[1A", first, second)
}

func (p *progress) wipe() {
	if p.open {
		fmt.Fprint(p.out, "\r\x1b[J")
		p.open = false
	}
}

// left estimates the time that is left; "" before there is anything to go by.
func (p *progress) left() string {
	if p.done < 3 || p.done == p.total {
		return ""
	}
	each := time.Since(p.began) / time.Duration(p.done)
	return ", " + clock(each*time.Duration(p.total-p.done)) + " left"
}

func bar(done, total int) string {
	full := 0
	if total > 0 {
		full = min(barWidth, done*barWidth/total)
	}
	return "▕" + strings.Repeat("█", full) + strings.Repeat("░", barWidth-full) + "▏"
}

// fit cuts a line at width characters.
func fit(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width-1]) + "…"
}
