package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// marker stands in a request before the number of tokens that it asks for.
const marker = "tokens="

// pacedModel speaks the least of the Responses API that a stream needs. Each token is the time at
// which it was sent, so that whoever reads it knows how long it was on its way. It is as cheap as can
// be, because it shares the machine with what is measured: one goroutine sends for all streams, some
// each millisecond.
type pacedModel struct {
	slots [slots]slot
	next  int // the slot whose turn is next; guarded by turning
	mu    sync.Mutex
}

const (
	tick  = time.Millisecond
	slots = int(time.Second / tokensPerSecond / tick)
)

type slot struct {
	mu      sync.Mutex
	streams []*paced
}

// paced is one stream. Its handler waits for done, and whoever holds it in the meantime writes.
type paced struct {
	w     http.ResponseWriter
	flush func() error
	sent  int
	left  int
	buf   []byte
	done  chan struct{}
}

func newPacedModel(ctx context.Context) *pacedModel {
	m := &pacedModel{}
	go m.turn(ctx)
	return m
}

func (m *pacedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	p := &paced{w: w, flush: http.NewResponseController(w).Flush, left: wanted(body), done: make(chan struct{})}
	if p.send() {
		return
	}
	m.add(p)
	<-p.done
}

// wanted reads the number after the last marker: earlier ones are history.
func wanted(body []byte) int {
	at := bytes.LastIndex(body, []byte(marker))
	count := 0
	for at >= 0 && at+len(marker) < len(body) {
		digit := body[at+len(marker)]
		if digit < '0' || digit > '9' {
			break
		}
		count = count*10 + int(digit-'0')
		at++
	}
	return max(count, 1)
}

// add gives a stream its place in the rotation: the one that was just served, a whole turn away.
func (m *pacedModel) add(p *paced) {
	m.mu.Lock()
	at := &m.slots[(m.next+slots-1)%slots]
	m.mu.Unlock()
	at.mu.Lock()
	defer at.mu.Unlock()
	at.streams = append(at.streams, p)
}

// turn serves one slot each tick. When it is late it goes on at once, but not for more than a turn:
// a machine that cannot keep the pace shows as a slower one, not as a burst.
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
		if p.send() {
			close(p.done)
			continue
		}
		kept = append(kept, p)
	}
	clear(s.streams[len(kept):])
	s.streams = kept
}

// send sends the next token, and the end after the last one. It tells whether the stream is over.
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

// stampBase is the base of the numbers that tokens are: microseconds since 1970, in ten characters.
const stampBase = 36
