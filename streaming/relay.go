package streaming

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/arcoscribe/throughline/internal/memory"
)

// ErrBroken reports that nothing fills the relay any more although the reply continues at another server.
var ErrBroken = errors.New("the stream was broken off")

// maxLag is how many pieces a reader may be behind and still get each one separately. A reader that is
// further behind gets all of them as one chunk.
const maxLag = 32

// Relay passes one reply from its writer to any number of readers. It holds the reply's text, the ends of its
// latest pieces, and its parts. A reader is a position in these, so one that falls behind gets a larger chunk
// next time: the writer never waits for a reader, and nothing is queued for one.
//
// The zero value is ready for use. One goroutine writes; any number read.
type Relay struct {
	mu      sync.Mutex
	text    []byte      // append-only: bytes that a reader has been handed never change
	pieces  int         // appended so far
	ends    [maxLag]int // byte offsets of the ends of the latest pieces: piece n ends at ends[n%maxLag]
	chars   int
	parts   []memory.Part // append-only, as text is
	before  []passage     // the text before each part
	opened  bool
	broken  bool
	end     *Terminal
	readers []*Reader
}

// passage is the text of a relay up to some place.
type passage struct{ bytes, pieces int }

// Place is a position in a reply: a number of characters, and of parts.
type Place struct {
	Chars int
	// Parts is below 0 when only the characters are known. Then the parts at that very place come after it.
	Parts int
}

// has reports whether a client at this place has the part with that index.
func (p Place) has(part *memory.Part, index int) bool {
	return part.At < p.Chars || part.At == p.Chars && index < p.Parts
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

// AddPart adds a part after the text so far, and returns it with its place.
func (r *Relay) AddPart(part memory.Part) memory.Part {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = true
	part.At = r.chars
	r.parts = append(r.parts, part)
	r.before = append(r.before, passage{bytes: len(r.text), pieces: r.pieces})
	r.wake()
	return part
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
// at another server. Readers get all that there is, then ErrBroken.
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

// Parts returns the parts so far. The relay owns them: the caller may keep them, but not change them.
func (r *Relay) Parts() []memory.Part {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.parts)
}

// Place returns the place in the reply so far that comes nearest to the one that a client names.
func (r *Relay) Place(at Place) Place {
	r.mu.Lock()
	defer r.mu.Unlock()
	chars := min(max(at.Chars, 0), r.chars)
	least, most := 0, 0
	for i := range r.parts {
		if r.parts[i].At < chars {
			least++
		}
		if r.parts[i].At <= chars {
			most++
		}
	}
	return Place{Chars: chars, Parts: min(max(at.Parts, least), most)}
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

// Read returns a reader of what comes after a place: the text after its characters and, in order with that, the parts
// that a client there does not have. A reader that starts past the end waits until the reply gets there, or ends. The
// caller closes it.
func (r *Relay) Read(at Place) *Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	reader := &Reader{relay: r, signal: make(chan struct{}, 1), start: at}
	r.readers = append(r.readers, reader)
	return reader
}

// Reader follows one relay. It is used by one goroutine.
type Reader struct {
	relay  *Relay
	signal chan struct{}
	start  Place // the client has everything up to there
	bytes  int   // read so far
	pieces int   // read so far
	chars  int   // read so far
	parts  int   // read so far
}

// Chunk is the next of a reply for a reader: text, or a part, or the terminal event after all of them.
type Chunk struct {
	// Offset counts the characters of the reply before the chunk.
	Offset int
	// Text belongs to the relay: the caller may keep it, but not change it.
	Text []byte
	// Part is nil for a text. It belongs to the relay, too.
	Part *memory.Part
	// Index is the part's among the parts of the reply.
	Index int
	// Parts counts the parts of the reply up to the end of the chunk.
	Parts int
	// Answer is of a call: its approval or else its result, if the relay has that already; nil for a call that is open.
	Answer *memory.Part
	// Step reports that the chunk is the first that follows results of tools.
	Step bool
	// More reports that there is more text already, or a part: who writes the chunks can write several at once.
	More bool
	// End is nil until everything else was returned.
	End *Terminal
}

// Next waits for the next chunk. Its error is the context's, or ErrBroken.
func (r *Reader) Next(ctx context.Context) (Chunk, error) {
	for {
		chunk, broken := r.unread()
		switch {
		case chunk.Text != nil:
			if r.pass(&chunk) {
				return chunk, nil
			}
		case chunk.Part != nil:
			if !r.start.has(chunk.Part, chunk.Index) {
				return chunk, nil
			}
		case chunk.End != nil:
			return chunk, nil
		case broken:
			return Chunk{}, ErrBroken
		default:
			if err := r.wait(ctx); err != nil {
				return Chunk{}, err
			}
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

// unread takes the next chunk from the relay: the text up to the next part, that part, or the terminal event after all
// of them. The chunk is empty when there is nothing yet, or never will be.
func (r *Reader) unread() (chunk Chunk, broken bool) {
	relay := r.relay
	relay.mu.Lock()
	defer relay.mu.Unlock()
	chunk.Offset = r.chars
	to, isPart := passage{bytes: len(relay.text), pieces: relay.pieces}, r.parts < len(relay.parts)
	if isPart {
		to = relay.before[r.parts]
	}
	switch {
	case r.pieces < to.pieces:
		chunk.Text = r.text(to)
	case isPart:
		chunk.Part, chunk.Index = &relay.parts[r.parts], r.parts
		r.parts++
		chunk.Answer = answerTo(chunk.Part, relay.parts[r.parts:])
	default:
		chunk.End, broken = relay.end, relay.broken
	}
	chunk.Parts = r.parts
	chunk.More = r.pieces < relay.pieces || r.parts < len(relay.parts)
	chunk.Step = beginsStep(&chunk, relay.parts)
	return chunk, broken
}

// text takes the next piece, or all pieces up to a place at once for a reader that is far behind or has something to
// pass over. The caller holds the relay's mu.
func (r *Reader) text(to passage) []byte {
	if r.chars >= r.start.Chars && r.relay.pieces-r.pieces <= maxLag {
		to = passage{bytes: r.relay.ends[r.pieces%maxLag], pieces: r.pieces + 1}
	}
	r.pieces = to.pieces
	return r.relay.text[r.bytes:to.bytes:to.bytes]
}

// pass moves the reader over a text, and reports whether any of it is left to return: the chunk loses the characters
// that the client has.
func (r *Reader) pass(chunk *Chunk) bool {
	r.bytes += len(chunk.Text)
	for r.chars < r.start.Chars && len(chunk.Text) > 0 {
		_, size := utf8.DecodeRune(chunk.Text)
		chunk.Text = chunk.Text[size:]
		r.chars++
		chunk.Step = false
	}
	chunk.Offset = r.chars
	r.chars += utf8.RuneCount(chunk.Text)
	return len(chunk.Text) > 0
}

// answerTo returns the first of the later parts that answers a call, nil where none does or the part is no call.
func answerTo(part *memory.Part, later []memory.Part) *memory.Part {
	if part.Type != memory.PartCall {
		return nil
	}
	i := slices.IndexFunc(later, func(other memory.Part) bool { return isAnswer(&other) && other.CallID == part.CallID })
	if i < 0 {
		return nil
	}
	return &later[i]
}

func isAnswer(part *memory.Part) bool {
	return part.Type == memory.PartApproval || part.Type == memory.PartResult
}

// beginsStep reports whether nothing stands between a chunk and the last results before it.
func beginsStep(chunk *Chunk, parts []memory.Part) bool {
	before := chunk.Parts
	if chunk.Part != nil {
		before = chunk.Index
	}
	if before == 0 || chunk.Part != nil && isAnswer(chunk.Part) {
		return false
	}
	last := &parts[before-1]
	return isAnswer(last) && last.At == chunk.Offset
}
