package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// pacedModel implements the part of the Responses API that a stream needs. Each token is the time at which it was
// sent, so that its reader knows how long it took. It uses little CPU, because it shares the machine with what is
// measured: one goroutine sends for all streams, some each millisecond. What is no stream, such as the work for memory,
// goes to the offline model, and all is when it is to do everything.
type pacedModel struct {
	rest http.Handler
	all  bool

	mu     sync.Mutex // guards the streams
	slots  [slots][]*paced
	served int // the slot that was served last
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
	buf   []byte
	done  chan struct{}
}

func newPacedModel(ctx context.Context, rest http.Handler, all bool) *pacedModel {
	m := &pacedModel{rest: rest, all: all}
	go m.turn(ctx)
	return m
}

func (m *pacedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if m.all || !bytes.Contains(body, []byte(`"stream":true`)) {
		r.Body = io.NopCloser(bytes.NewReader(body))
		m.rest.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	p := &paced{w: w, flush: http.NewResponseController(w).Flush, left: wished(body), done: make(chan struct{})}
	if p.send() {
		return
	}
	m.mu.Lock()
	m.slots[m.served] = append(m.slots[m.served], p) // comes again after a whole turn
	m.mu.Unlock()
	<-p.done
}

var wish = regexp.MustCompile(`Say tokens=(\d+)`)

// wished returns how many tokens the last question of a prompt asks for: what is before it is history. Without a wish it is
// one.
func wished(body []byte) int {
	found := wish.FindSubmatch(body[max(bytes.LastIndex(body, []byte("Say tokens=")), 0):])
	if found == nil {
		return 1
	}
	tokens, _ := strconv.Atoi(string(found[1])) // of digits
	return max(tokens, 1)
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
		over := p.send()
		if over {
			close(p.done)
		}
		return over
	})
}

// send sends the next token, and the end after the last one. It reports whether the stream is over.
func (p *paced) send() (over bool) {
	b := append(p.buf[:0], "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":"...)
	b = strconv.AppendInt(b, int64(p.sent+4), 10)
	b = append(b, `,"item_id":"msg_0123456789abcdef","output_index":0,"content_index":0,"delta":"`...)
	b = strconv.AppendInt(b, time.Now().UnixMicro(), stampBase)
	b = append(b, " \",\"logprobs\":[]}\n\n"...)
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

// stampBase is the base of the numbers that tokens are: microseconds since 1970.
const stampBase = 36

// completedEvent is the least that ends a reply.
const completedEvent = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_bench\",\"model\":\"bench\"," +
	"\"usage\":{\"input_tokens\":1000,\"input_tokens_details\":{\"cached_tokens\":900},\"output_tokens\":100}}}\n\n"
