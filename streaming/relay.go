package streaming

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// ErrBroken tells a reader that nobody fills its relay any more, although the reply goes on elsewhere.
var ErrBroken = errors.New("the stream was broken off")

// catchUp is how many pieces a reader may be behind and still get each on its own. One that is
// further behind gets all of them as one.
const catchUp = 32

// Relay fans one reply out to any number of readers. It holds the reply's text and where its pieces
// end: a reader is a place in that text, so one that falls behind gets a larger piece next time. The
// writer never waits for a reader, and nothing is queued for one.
//
// The zero value is ready for use. One goroutine writes; any number read.
type Relay struct {
	mu      sync.Mutex
	text    []byte       // append-only: what a reader was handed never changes
	pieces  int          // appended so far
	ends    [catchUp]int // of the latest of them, in bytes: the end of piece n is at n % catchUp
	chars   int
	opened  bool
	broken  bool
	end     *Terminal
	readers []*Reader
}

// Open tells the readers that the model accepted the call, though it has said nothing yet.
func (r *Relay) Open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = true
	r.wake()
}

// Append adds the next piece of the reply.
func (r *Relay) Append(delta string) {
	if delta == "" {
		return
	}
	delta = strings.ToValidUTF8(delta, "\uFFFD")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = true
	r.text = append(r.text, delta...)
	r.ends[r.pieces%catchUp] = len(r.text)
	r.pieces++
	r.chars += utf8.RuneCountInString(delta)
	r.wake()
}

// End closes the relay with its terminal event. Only the first call counts.
func (r *Relay) End(terminal Terminal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil {
		return
	}
	r.end = &terminal
	r.wake()
}

// Break lets the readers go without a terminal event, because whoever fills the relay has to stop while
// the reply goes on. They get what text there is, then ErrBroken.
func (r *Relay) Break() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = true
	r.wake()
}

// After gives the text after so many bytes. It belongs to the relay: it may be kept, but not be changed.
func (r *Relay) After(at int) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := len(r.text)
	return r.text[at:to:to]
}

// Text gives what was said so far and its length in characters.
func (r *Relay) Text() (text string, chars int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.text), r.chars
}

// wake leaves a signal for each reader; one that has not taken the last signal needs no second.
func (r *Relay) wake() {
	for _, reader := range r.readers {
		select {
		case reader.signal <- struct{}{}:
		default:
		}
	}
}

// Read starts a reader after that many characters; a place past the end is the end. The caller closes
// the reader.
func (r *Relay) Read(after int) *Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	reader := &Reader{relay: r, signal: make(chan struct{}, 1), skip: max(after, 0)}
	r.readers = append(r.readers, reader)
	return reader
}

// Reader follows one relay. It is used by one goroutine.
type Reader struct {
	relay  *Relay
	signal chan struct{}
	at     int // bytes read so far
	piece  int // pieces read so far, the last one perhaps in part
	chars  int // characters read so far
	skip   int // characters of the beginning that the reader has already
}

// Chunk is what a reader gets next: text, or the terminal event after the last of the text.
type Chunk struct {
	// Offset counts the characters of the reply before Text.
	Offset int
	// Text belongs to the relay: it may be kept, but not be changed.
	Text []byte
	// End is nil until all of the text was handed out.
	End *Terminal
}

// Next waits for the next chunk. Its error is the context's, or ErrBroken.
func (r *Reader) Next(ctx context.Context) (Chunk, error) {
	for {
		if chunk, ok := r.take(); ok {
			return chunk, nil
		}
		if behind, broken := r.left(); behind {
			continue // all that was there was skipped
		} else if broken {
			return Chunk{}, ErrBroken
		}
		if err := r.wait(ctx); err != nil {
			return Chunk{}, err
		}
	}
}

// WaitOpen waits until the model accepted the call or the reply ended without that. Only then it
// returns the terminal event: what happens to an accepted call is for Next to tell.
func (r *Reader) WaitOpen(ctx context.Context) (*Terminal, error) {
	for {
		if opened, end := r.state(); opened || end != nil {
			return end, nil
		}
		if err := r.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// Close lets the relay forget the reader.
func (r *Reader) Close() {
	r.relay.mu.Lock()
	defer r.relay.mu.Unlock()
	r.relay.readers = slices.DeleteFunc(r.relay.readers, func(other *Reader) bool { return other == r })
}

func (r *Reader) wait(ctx context.Context) error {
	select {
	case <-r.signal:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// state tells whether the reply has begun, and how it ended if it never did.
func (r *Reader) state() (opened bool, end *Terminal) {
	r.relay.mu.Lock()
	defer r.relay.mu.Unlock()
	if r.relay.opened {
		return true, nil
	}
	return false, r.relay.end
}

// take hands out the next text that is there and not yet read, or the end.
func (r *Reader) take() (Chunk, bool) {
	text, end := r.unread()
	for r.skip > 0 && len(text) > 0 {
		_, size := utf8.DecodeRune(text)
		text = text[size:]
		r.at += size
		r.chars++
		r.skip--
	}
	if len(text) == 0 {
		return Chunk{Offset: r.chars, End: end}, end != nil
	}
	chunk := Chunk{Offset: r.chars, Text: text}
	r.at += len(text)
	r.chars += utf8.RuneCount(text)
	return chunk, true
}

// left tells whether there is something to take already, and whether more will come.
func (r *Reader) left() (behind, broken bool) {
	r.relay.mu.Lock()
	defer r.relay.mu.Unlock()
	return r.piece < r.relay.pieces || r.relay.end != nil, r.relay.broken
}

// unread gives the next piece of text after the reader's place, or everything when that is far behind
// or something is to be skipped. The end comes once there is no more text.
func (r *Reader) unread() ([]byte, *Terminal) {
	r.relay.mu.Lock()
	defer r.relay.mu.Unlock()
	behind := r.relay.pieces - r.piece
	if behind == 0 {
		return nil, r.relay.end
	}
	to := len(r.relay.text)
	if r.skip == 0 && behind <= catchUp {
		to = r.relay.ends[r.piece%catchUp]
		behind = 1
	}
	r.piece += behind
	return r.relay.text[r.at:to:to], nil
}
