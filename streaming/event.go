// Package streaming carries one reply from the goroutine that writes it to the clients that read it: the
// events of the protocol, the relay between one writer and many readers, and the encodings as server-sent
// events (ours, and the AI SDK's). It knows nothing of HTTP handlers, models or Postgres.
package streaming

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
)

// The names of a stream's events. None is error, open, close or message: the usual React Native client uses
// those itself.
const (
	EventStarted   = "message.started"
	EventDelta     = "content.delta"
	EventPart      = "part.added"
	EventAwaiting  = "message.awaiting"
	EventCompleted = "completion"
	EventFailed    = "message.failed"
	EventCancelled = "message.cancelled"
)

// Started is the first event of every stream.
type Started struct {
	ChatID        uuid.UUID `json:"chat_id"`
	UserMessageID uuid.UUID `json:"user_message_id"`
	MessageID     uuid.UUID `json:"message_id" description:"The assistant's message, which is being written."`
	ModelVariant  string    `json:"model_variant" description:"The model variant that answers."`
	Resumed       bool      `json:"resumed" description:"Whether this reader did not start the reply."`
	Offset        int       `json:"offset" description:"Where this stream begins, in characters (Unicode code points) of the reply."`
	Parts         int       `json:"parts,omitempty" description:"Parts of the reply before this stream; absent for 0."`
}

// Delta is the next piece of a reply's text.
type Delta struct {
	MessageID uuid.UUID `json:"message_id"`
	Offset    int       `json:"offset" description:"Characters of the reply before this piece."`
	Delta     string    `json:"delta"`
}

// PartAdded is the next of a reply's parts, whole.
type PartAdded struct {
	MessageID uuid.UUID    `json:"message_id"`
	Index     int          `json:"index" description:"Parts of the reply before this one."`
	Offset    int          `json:"offset" description:"Characters of the reply before this part."`
	Part      *memory.Part `json:"part"`
}

// Usage is the tokens of a reply's model calls, as the model reported them.
type Usage struct {
	InputTokens  int  `json:"input_tokens"`
	CachedTokens int  `json:"cached_tokens" description:"Those of input_tokens that the provider had in its prompt cache."`
	OutputTokens int  `json:"output_tokens"`
	Estimated    bool `json:"estimated,omitempty" description:"Whether the model did not report them, so that they are our own count."`
}

// Completed ends a stream whose reply is complete and stored.
type Completed struct {
	MessageID    uuid.UUID `json:"message_id"`
	ChatID       uuid.UUID `json:"chat_id"`
	FinishReason string    `json:"finish_reason" enum:"stop,length,content_filter"`
	ModelVariant string    `json:"model_variant"`
	Usage        Usage     `json:"usage"`
	// ContentLength counts the characters (Unicode code points) of the whole reply.
	ContentLength int    `json:"content_length"`
	Parts         int    `json:"parts,omitempty" description:"Parts of the whole reply; absent for 0."`
	AnsweredBy    string `json:"answered_by,omitempty" description:"The fallback that answered in place of model_variant."`
	// Memory is the receipt: how much of the chat the model was shown, and in which form.
	Memory json.RawMessage `json:"memory" description:"The receipt; null for a reply that was stored without one."`
}

// Failed ends a stream whose reply failed. The text until then is stored.
type Failed struct {
	MessageID     uuid.UUID `json:"message_id"`
	Code          string    `json:"code"`
	Message       string    `json:"message"`
	Retryable     bool      `json:"retryable" description:"Whether sending the message again, as a new one, may succeed."`
	ContentLength int       `json:"content_length" description:"Characters (Unicode code points) that are stored. After a crash a reader may have a few more."`
	// RetryAfter is for the header of a response that is not a stream; 0 if it is unknown.
	RetryAfter time.Duration `json:"-"`
}

// Cancelled ends a stream that the user stopped. The text until then is stored.
type Cancelled struct {
	MessageID     uuid.UUID `json:"message_id"`
	ContentLength int       `json:"content_length" description:"Characters (Unicode code points) that were said."`
}

// Awaiting ends a stream whose reply goes on once calls of tools are answered. Text and parts until then are stored.
type Awaiting struct {
	MessageID     uuid.UUID `json:"message_id"`
	ChatID        uuid.UUID `json:"chat_id"`
	ContentLength int       `json:"content_length" description:"Characters (Unicode code points) of the reply so far."`
	// Open are the calls without an answer, in the order in which the model made them.
	Open      []OpenCall `json:"open" description:"The calls that have no answer yet."`
	ExpiresAt time.Time  `json:"expires_at" description:"When the calls end if they have no answer by then."`
}

// OpenCall is a call of a tool that waits for its answer.
type OpenCall struct {
	CallID string `json:"call_id"`
	Name   string `json:"name"`
	// Run is where the tool runs, and Approval whether the user has to approve that, as in the call's part.
	Run      string `json:"run" enum:"client,server" description:"Where the tool runs."`
	Approval bool   `json:"approval" description:"Whether the user has to approve the call."`
}

// Terminal is the last event of a stream: exactly one of its fields is set.
type Terminal struct {
	Completed *Completed
	Awaiting  *Awaiting
	Failed    *Failed
	Cancelled *Cancelled
}

// Name returns the event's name on the wire.
func (t Terminal) Name() string {
	name, _ := t.event()
	return name
}

func (t Terminal) event() (name string, payload any) {
	switch {
	case t.Completed != nil:
		return EventCompleted, t.Completed
	case t.Awaiting != nil:
		return EventAwaiting, t.Awaiting
	case t.Cancelled != nil:
		return EventCancelled, t.Cancelled
	default:
		return EventFailed, t.Failed
	}
}

// paddingSize is above every threshold known to us below which a client holds a body back: iOS gives the
// app nothing of a text body before about 512 bytes have come.
const paddingSize = 1024

// In a terminal each space is taken back, so that it shows one line and not the screen full of blanks.
var padding = []byte(":" + strings.Repeat(" \b", paddingSize/2) + "\n\n")

// eventWriter is what both encoders share. Each event is one Write from one buffer, which is used again.
type eventWriter struct {
	w   io.Writer
	buf []byte
}

// Padding writes the opening comment. It comes before the first event.
func (e *eventWriter) Padding() error {
	return e.write(padding)
}

// flush writes the buffer.
func (e *eventWriter) flush() error {
	return e.write(e.buf)
}

func (e *eventWriter) write(data []byte) error {
	if _, err := e.w.Write(data); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return nil
}

// Encoder writes the events of one reply as server-sent events: LF line ends, one data line of JSON per
// event, and an id that is a position in the reply: "<characters>" until its first part, then "<characters>.<parts>",
// and "end" when it has ended. The id is an event's last line: some clients use it as
// soon as they read it, and must not have the position without its text when the connection breaks within
// an event. An Encoder is used by one goroutine.
type Encoder struct {
	eventWriter
	messageID uuid.UUID
	// Both are constant for a stream, so they are formatted once.
	deltaStart []byte // of a delta event, up to its offset
	idStart    []byte // "\nid: <message id>:"
}

// NewEncoder returns an encoder for the events of the given assistant message.
func NewEncoder(w io.Writer, messageID uuid.UUID) *Encoder {
	return &Encoder{
		eventWriter: eventWriter{w: w},
		messageID:   messageID,
		deltaStart:  fmt.Appendf(nil, "event: %s\ndata: {\"message_id\":%q,\"offset\":", EventDelta, messageID),
		idStart:     fmt.Appendf(nil, "\nid: %s:", messageID),
	}
}

// Started writes the first event.
func (e *Encoder) Started(started Started) error {
	return e.event(EventStarted, started, appendPosition(nil, started.Offset, started.Parts))
}

// Chunk writes a piece of text, a part or the terminal event.
func (e *Encoder) Chunk(chunk Chunk) error {
	switch {
	case chunk.End != nil:
		return e.end(chunk)
	case chunk.Part != nil:
		added := PartAdded{MessageID: e.messageID, Index: chunk.Index, Offset: chunk.Part.At, Part: chunk.Part}
		return e.event(EventPart, added, appendPosition(nil, chunk.Offset, chunk.Parts))
	}
	return e.delta(chunk)
}

// delta is the hot path: no reflection, and no allocation once the buffer has grown.
func (e *Encoder) delta(chunk Chunk) error {
	buf := append(e.buf[:0], e.deltaStart...)
	buf = strconv.AppendInt(buf, int64(chunk.Offset), 10)
	buf = append(buf, `,"delta":`...)
	buf = appendJSONString(buf, chunk.Text)
	buf = append(buf, '}')
	buf = append(buf, e.idStart...)
	buf = appendPosition(buf, chunk.Offset+utf8.RuneCount(chunk.Text), chunk.Parts)
	e.buf = append(buf, "\n\n"...)
	return e.flush()
}

// end writes the terminal event. A reply that waits goes on, so its position is a place in it.
func (e *Encoder) end(chunk Chunk) error {
	position := []byte("end")
	if chunk.End.Awaiting != nil {
		position = appendPosition(nil, chunk.Offset, chunk.Parts)
	}
	name, payload := chunk.End.event()
	return e.event(name, payload, position)
}

func (e *Encoder) event(name string, payload any, position []byte) error {
	data, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	e.buf = fmt.Appendf(e.buf[:0], "event: %s\ndata: %s%s%s\n\n", name, data, e.idStart, position)
	return e.flush()
}

// appendPosition appends a position in a reply, which names parts only where there are some.
func appendPosition(buf []byte, chars, parts int) []byte {
	buf = strconv.AppendInt(buf, int64(chars), 10)
	if parts > 0 {
		buf = strconv.AppendInt(append(buf, '.'), int64(parts), 10)
	}
	return buf
}

// appendJSONString appends text as a JSON string (RFC 8259, section 7). Control characters are
// escaped, so the result never holds a line break. The text must be valid UTF-8, which a Relay ensures.
func appendJSONString(buf, text []byte) []byte {
	const hex = "0123456789abcdef"
	buf = append(buf, '"')
	start := 0
	for i, c := range text {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		buf = append(buf, text[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			buf = append(buf, '\\', c)
		case '\n':
			buf = append(buf, '\\', 'n')
		case '\t':
			buf = append(buf, '\\', 't')
		default:
			buf = append(buf, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	buf = append(buf, text[start:]...)
	return append(buf, '"')
}

// Plus returns the sum of the tokens of two calls.
func (u Usage) Plus(other Usage) Usage {
	return Usage{
		InputTokens: u.InputTokens + other.InputTokens, CachedTokens: u.CachedTokens + other.CachedTokens, OutputTokens: u.OutputTokens + other.OutputTokens,
		Estimated: u.Estimated || other.Estimated,
	}
}
