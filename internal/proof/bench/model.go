package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// The last words of a request are parameters: the number of tokens, the least size of the first one in bytes, and
// the name under which the model stores its reply, which then has characters of several bytes.
const (
	marker      = "tokens="
	firstMarker = "first="
	nameMarker  = "name="
)

// replyPath is where the model returns the reply of a name.
const replyPath = "/said/"

// pacedModel implements the part of the Responses API that a stream needs. Each token is the time at which it was
// sent, so that its reader knows how long it took. It uses little CPU, because it shares the machine with what is
// measured: one goroutine sends for all streams, some each millisecond.
type pacedModel struct {
	slots   [slots]slot
	next    int // the slot whose turn is next; guarded by turning
	mu      sync.Mutex
	replies sync.Map // *paced by name
}

const (
	tick  = time.Millisecond
	slots = int(time.Second / tokensPerSecond / tick)
)

type slot struct {
	mu      sync.Mutex
	streams []*paced
}

// paced is one stream. Its handler waits for done; meanwhile the slot that holds it writes.
type paced struct {
	w     http.ResponseWriter
	flush func() error
	sent  int
	left  int
	tail  string // of each token, after the time
	buf   []byte
	done  chan struct{}

	mu   sync.Mutex
	kept []byte // the reply so far, of a stream with a name; nil without one
}

func newPacedModel(ctx context.Context) *pacedModel {
	m := &pacedModel{}
	go m.turn(ctx)
	return m
}

func (m *pacedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name, found := strings.CutPrefix(r.URL.Path, replyPath); found {
		m.tell(w, name)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	asked := question(body)
	p := &paced{w: w, flush: http.NewResponseController(w).Flush, left: wanted(asked), tail: " ", done: make(chan struct{})}
	if name := after(asked, nameMarker); name != "" {
		p.tail = " é👋 "
		p.kept = make([]byte, 0, 1<<10)
		m.replies.Store(name, p)
	}
	if p.send(numberOf(after(asked, firstMarker))) {
		return
	}
	m.add(p)
	<-p.done
}

// question returns the last question of a prompt: what is before it is history.
func question(body []byte) []byte {
	at := max(bytes.LastIndex(body, []byte(marker)), 0)
	return body[max(bytes.LastIndex(body[:at], []byte("Say ")), 0):]
}

// tell writes the reply of a name.
func (m *pacedModel) tell(w http.ResponseWriter, name string) {
	found, ok := m.replies.Load(name)
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	p := found.(*paced) //nolint:forcetypeassert // nothing else is kept
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = w.Write(p.kept) //nolint:gosec // no browser reads it
}

// wanted returns how many tokens a body asks for.
func wanted(body []byte) int { return max(numberOf(after(body, marker)), 1) }

// numberOf returns 0 for what is no number.
func numberOf(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		return 0
	}
	return n
}

// after returns the word after the last marker, "" without one.
func after(body []byte, marker string) string {
	at := bytes.LastIndex(body, []byte(marker))
	if at < 0 {
		return ""
	}
	word := body[at+len(marker):]
	if end := bytes.IndexFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' }); end >= 0 {
		word = word[:end]
	}
	return string(word)
}

// add puts a stream into the slot that was just served, which comes again after a whole turn.
func (m *pacedModel) add(p *paced) {
	m.mu.Lock()
	at := &m.slots[(m.next+slots-1)%slots]
	m.mu.Unlock()
	at.mu.Lock()
	defer at.mu.Unlock()
	at.streams = append(at.streams, p)
}

// turn serves one slot each tick. When it is late it goes on at once, but catches up at most one turn: a machine
// that cannot keep the pace shows a lower pace, not bursts.
func (m *pacedModel) turn(ctx context.Context) {
	due := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		due = due.Add(tick)
		late := time.Since(due)
		if late < 0 {
			time.Sleep(-late)
		}
		if late > tick*time.Duration(slots) {
			due = time.Now()
		}
		m.mu.Lock()
		m.next = n % slots
		m.mu.Unlock()
		m.slots[n%slots].serve()
	}
}

func (s *slot) serve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.streams[:0]
	for _, p := range s.streams {
		if p.send(0) {
			close(p.done)
			continue
		}
		kept = append(kept, p)
	}
	clear(s.streams[len(kept):])
	s.streams = kept
}

// send sends the next token, of at least size bytes, and the end after the last one. It reports whether the stream is over.
func (p *paced) send(size int) (over bool) {
	b := append(p.buf[:0], "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":"...)
	b = strconv.AppendInt(b, int64(p.sent+4), 10)
	b = append(b, `,"item_id":"msg_0123456789abcdef","output_index":0,"content_index":0,"delta":"`...)
	from := len(b)
	b = strconv.AppendInt(b, time.Now().UnixMicro(), stampBase)
	b = append(b, p.tail...)
	for len(b)-from < size {
		b = append(b, 'x')
	}
	p.keep(b[from:])
	b = append(b, "\",\"logprobs\":[]}\n\n"...)
	p.sent++
	p.left--
	if p.left <= 0 {
		b = append(b, completedEvent...)
	}
	p.buf = b
	_, err := p.w.Write(b)
	if err == nil {
		err = p.flush()
	}
	return err != nil || p.left <= 0
}

func (p *paced) keep(token []byte) {
	if p.kept == nil {
		return
	}
	p.mu.Lock()
	p.kept = append(p.kept, token...)
	p.mu.Unlock()
}

// stampBase is the base of the numbers that tokens are: microseconds since 1970, in ten characters.
const (
	stampBase   = 36
	stampLength = 10
)
