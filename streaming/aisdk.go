package streaming

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
)

// The text of a reply is one part of its UI message; uiPart is that part's id.
const uiPart = "text"

const (
	uiTextStart  = `data: {"type":"text-start","id":"` + uiPart + `"}` + "\n\n"
	uiDeltaStart = `data: {"type":"text-delta","id":"` + uiPart + `","delta":`
	uiTextEnd    = `data: {"type":"text-end","id":"` + uiPart + `"}` + "\n\n"
	uiDone       = "data: [DONE]\n\n"
)

// UIEncoder writes the events of one reply as a UI message stream, version 1, which Vercel's AI SDK reads
// (https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol#ui-message-stream-protocol).
// An event is one data line of JSON, without a name or an id.
//
// The fields of our own events that the protocol does not have go into the message's metadata, under the same
// names: all of [Started] with start, of [Completed] with finish, and of [Failed] or [Cancelled] in a
// message-metadata just before error or abort. "status" beside it is the stored message's.
//
// Like [Encoder] it makes one Write per call, and is used by one goroutine.
type UIEncoder struct {
	eventWriter
	textStarted bool
}

// NewUIEncoder returns an encoder for the events of one reply.
func NewUIEncoder(w io.Writer) *UIEncoder {
	return &UIEncoder{eventWriter: eventWriter{w: w}}
}

// Started writes the first event. The text part starts with the first text, so that an empty reply has no
// empty part.
func (e *UIEncoder) Started(started Started) error {
	e.buf = e.buf[:0]
	if err := e.add(uiStart(started)); err != nil {
		return err
	}
	return e.flush()
}

// Chunk writes a piece of text, or the protocol's events for the terminal one. The protocol has no
// positions within the text, so a chunk's offset is not written.
func (e *UIEncoder) Chunk(chunk Chunk) error {
	if chunk.End != nil {
		return e.end(chunk.End)
	}
	return e.delta(chunk.Text)
}

// delta is the hot path: no reflection, and no allocation once the buffer has grown.
func (e *UIEncoder) delta(text []byte) error {
	buf := e.buf[:0]
	if !e.textStarted {
		e.textStarted = true
		buf = append(buf, uiTextStart...)
	}
	buf = append(buf, uiDeltaStart...)
	buf = appendJSONString(buf, text)
	e.buf = append(buf, "}\n\n"...)
	return e.flush()
}

func (e *UIEncoder) end(end *Terminal) error {
	e.buf = e.buf[:0]
	if e.textStarted {
		e.buf = append(e.buf, uiTextEnd...)
	}
	for _, event := range uiEnding(end) {
		if err := e.add(event); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, uiDone...)
	return e.flush()
}

// add appends an event to the buffer.
func (e *UIEncoder) add(event uiEvent) error {
	data, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("encode %s: %w", event.Type, err)
	}
	e.buf = fmt.Appendf(e.buf, "data: %s\n\n", data)
	return nil
}

// uiEvent is an event of a UI message stream, other than its text.
type uiEvent struct {
	Type         string     `json:"type"`
	MessageID    *uuid.UUID `json:"messageId,omitempty"`
	FinishReason string     `json:"finishReason,omitempty"`
	ErrorText    *string    `json:"errorText,omitempty"`
	Metadata     any        `json:"messageMetadata,omitempty"`
}

// The metadata of a UI message. Clients merge that of the ending into that of the start. Status is
// "streaming" until the ending replaces it with the stored message's status: a message that still has
// "streaming" after its stream was cut off on the way.
type (
	uiStarted struct {
		Status string `json:"status"`
		Started
	}
	uiCompleted struct {
		Status string `json:"status"`
		*Completed
	}
	uiFailed struct {
		Status string `json:"status"`
		*Failed
	}
	uiCancelled struct {
		Status string `json:"status"`
		*Cancelled
	}
)

func uiStart(started Started) uiEvent {
	return uiEvent{Type: "start", MessageID: &started.MessageID, Metadata: uiStarted{"streaming", started}}
}

// uiEnding returns the protocol's events for a terminal one. Clients ignore everything after an error event,
// which itself has room for a sentence only, so the metadata comes first.
func uiEnding(end *Terminal) []uiEvent {
	const metadata = "message-metadata"
	switch {
	case end.Completed != nil:
		reason := uiFinishReason(end.Completed.FinishReason)
		return []uiEvent{{Type: "finish", FinishReason: reason, Metadata: uiCompleted{"complete", end.Completed}}}
	case end.Cancelled != nil:
		return []uiEvent{
			{Type: metadata, Metadata: uiCancelled{"cancelled", end.Cancelled}},
			{Type: "abort"},
		}
	default:
		return []uiEvent{
			{Type: metadata, Metadata: uiFailed{uiFailedStatus(end.Failed), end.Failed}},
			{Type: "error", ErrorText: &end.Failed.Message},
		}
	}
}

// uiFinishReason spells a finish reason as the protocol does. Clients refuse any other word.
func uiFinishReason(reason string) string {
	switch reason {
	case "stop", "length", "content_filter":
		return strings.ReplaceAll(reason, "_", "-")
	}
	return "other"
}

func uiFailedStatus(failed *Failed) string {
	if failed.Code == string(fault.Interrupted) {
		return "interrupted"
	}
	return "failed"
}
