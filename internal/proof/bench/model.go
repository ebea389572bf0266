package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// replyPath is where the model returns the reply of a name.
const replyPath = "/said/"

// pacedModel implements the part of the Responses API that a stream needs. Each token is the time at which it was
// sent, so that its reader knows how long it took. It uses little CPU, because it shares the machine with what is
// measured: one goroutine sends for all streams, some each millisecond.
type pacedModel struct {
	mu      sync.Mutex // guards the streams
	slots   [slots][]*paced
	served  int      // the slot that was served last
	replies sync.Map // *paced by name
}

const (
	tick  = time.Millisecond
	slots = int(time.Second / tokensPerSecond / tick)
)

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
	asked := readWish(body)
	p := &paced{w: w, flush: http.NewResponseController(w).Flush, left: max(asked.tokens, 1), tail: " ", done: make(chan struct{})}
	if asked.name != "" {
		p.tail = " é👋 "
		p.kept = make([]byte, 0, 1<<10)
		m.replies.Store(asked.name, p)
	}
	if p.send(asked.first) {
		return
	}
	m.mu.Lock()
	m.slots[m.served] = append(m.slots[m.served], p) // comes again after a whole turn
	m.mu.Unlock()
	<-p.done
}

// wish is what a request's last words ask for: the number of tokens, the least size of the first one in bytes, and
// the name under which the model stores its reply, which then has characters of several bytes.
type wish struct {
	name          string
	first, tokens int
}

var wishes = regexp.MustCompile(`Say (?:name=([\w-]+) )?(?:first=(\d+) )?tokens=(\d+)`)

// readWish reads the last question of a prompt: what is before it is history.
func readWish(body []byte) wish {
	at := max(bytes.LastIndex(body, []byte("tokens=")), 0)
	found := wishes.FindSubmatch(body[max(bytes.LastIndex(body[:at], []byte("Say ")), 0):])
	if found == nil {
		return wish{}
	}
	first, _ := strconv.Atoi(string(found[2])) // of digits, or none
	tokens, _ := strconv.Atoi(string(found[3]))
	return wish{string(found[1]), first, tokens}
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
		m.serve(n % slots)
	}
}

func (m *pacedModel) serve(slot int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.served = slot
	m.slots[slot] = slices.DeleteFunc(m.slots[slot], func(p *paced) bool {
		over := p.send(0)
		if over {
			close(p.done)
		}
		return over
	})
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
	if p.kept != nil {
		p.mu.Lock()
		p.kept = append(p.kept, b[from:]...)
		p.mu.Unlock()
	}
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

// stampBase is the base of the numbers that tokens are: microseconds since 1970, in ten characters.
const (
	stampBase   = 36
	stampLength = 10
)
