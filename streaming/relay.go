package streaming

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// ErrBroken reports that nothing fills the relay any more although the reply continues at another server.
var ErrBroken = errors.New("the stream was broken off")

// maxLag is how many pieces a reader may be behind and still get each one separately. A reader that is
// further behind gets all of them as one chunk.
const maxLag = 32

// Relay passes one reply from its writer to any number of readers. It holds the reply's text and the ends
// of its latest pieces. A reader is a position in that text, so one that falls behind gets a larger chunk
// next time: the writer never waits for a reader, and nothing is queued for one.
//
// The zero value is ready for use. One goroutine writes; any number read.
type Relay struct {
	mu      sync.Mutex
	text    []byte      // append-only: bytes that a reader has been handed never change
	pieces  int         // appended so far
	ends    [maxLag]int // byte offsets of the ends of the latest pieces: piece n ends at ends[n%maxLag]
	chars   int
	opened  bool
	broken  bool
	end     *Terminal
	readers []*Reader
}

// Open records that the model accepted the call, before there is any text.
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
	r.ends[r.pieces%maxLag] = len(r.text)
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

// Break ends the relay without a terminal event, for a writer that has to stop while the reply continues
// at another server. Readers get the text that there is, then ErrBroken.
func (r *Relay) Break() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = true
	r.wake()
}

// After returns the text after that many bytes. The relay owns it: the caller may keep it, but not change it.
func (r *Relay) After(offset int) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text[offset:len(r.text):len(r.text)]
}

// Text returns the text so far and its length in characters.
func (r *Relay) Text() (text string, chars int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return string(r.text), r.chars
}

// wake leaves a signal for each reader. One that has not taken the last signal needs no second.
// The caller holds mu.
func (r *Relay) wake() {
	for _, reader := range r.readers {
		select {
		case reader.signal <- struct{}{}:
		default:
		}
	}
}

// Read returns a reader of the text after that many characters; below 0 counts as 0. A reader that starts past
// the end waits until the text gets there, or the reply ends. The caller closes it.
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
	bytes  int // read so far
	pieces int // read so far, the last one perhaps in part
	chars  int // read so far
	skip   int // characters still to pass over, because the client has them
}

// Chunk is the next part for a reader: text, or the terminal event after all of the text.
type Chunk struct {
	// Offset counts the characters of the reply before Text.
	Offset int
	// Text belongs to the relay: the caller may keep it, but not change it.
	Text []byte
	// More reports that there is more text already: who writes the chunks can write several at once.
	More bool
	// End is nil until all of the text was returned.
	End *Terminal
}

// Next waits for the next chunk. Its error is the context's, or ErrBroken.
func (r *Reader) Next(ctx context.Context) (Chunk, error) {
	for {
		text, more, end, broken := r.unread()
		text, skipped := r.pass(text)
		switch {
		case len(text) > 0:
			chunk := Chunk{Offset: r.chars, Text: text, More: more}
			r.bytes += len(text)
			r.chars += utf8.RuneCount(text)
			return chunk, nil
		case skipped:
			continue // there may be more
		case end != nil:
			return Chunk{Offset: r.chars, End: end}, nil
		case broken:
			return Chunk{}, ErrBroken
		}
		if err := r.wait(ctx); err != nil {
			return Chunk{}, err
		}
	}
}

// WaitOpen waits until the model accepted the call or the reply ended without that. Only in the second case
// it returns the terminal event; the end of an accepted call is left to Next.
func (r *Reader) WaitOpen(ctx context.Context) (*Terminal, error) {
	for {
		if opened, end := r.state(); opened {
			return nil, nil
		} else if end != nil {
			return end, nil
		}
		if err := r.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// Close removes the reader from the relay.
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

func (r *Reader) state() (opened bool, end *Terminal) {
	r.relay.mu.Lock()
	defer r.relay.mu.Unlock()
	return r.relay.opened, r.relay.end
}

// unread returns the next piece of text, or all pieces at once for a reader that is far behind or has
// something to skip, and whether there are more. Only when there is no text does it return how the relay ended.
func (r *Reader) unread() (text []byte, more bool, end *Terminal, broken bool) {
	r.relay.mu.Lock()
	defer r.relay.mu.Unlock()
	lag := r.relay.pieces - r.pieces
	if lag == 0 {
		return nil, false, r.relay.end, r.relay.broken
	}
	to := len(r.relay.text)
	if r.skip == 0 && lag <= maxLag {
		to = r.relay.ends[r.pieces%maxLag]
		lag = 1
	}
	r.pieces += lag
	return r.relay.text[r.bytes:to:to], r.pieces < r.relay.pieces, nil, false
}

// pass drops the characters that are still to be skipped from the beginning of text.
func (r *Reader) pass(text []byte) (rest []byte, skipped bool) {
	for r.skip > 0 && len(text) > 0 {
		_, size := utf8.DecodeRune(text)
		text = text[size:]
		r.bytes += size
		r.chars++
		r.skip--
		skipped = true
	}
	return text, skipped
}
