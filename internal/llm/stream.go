package llm

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/tidwall/gjson"
)

// errIdle is the cause of a call's end when IdleTimeout has passed.
var errIdle = errors.New("the model was silent for too long")

// Stream asks for a reply and returns once the model accepted the call. Until then the call is repeated where that makes
// sense; afterwards nothing is.
func (c *Client) Stream(ctx context.Context, request chat.ModelRequest) (chat.ModelStream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &stream{idle: c.settings.IdleTimeout, cancel: cancel, ctx: ctx}
	s.watchdog = time.AfterFunc(s.idle, func() { cancel(errIdle) })

	params := newParams(work.PurposeReply, request.Input, request.Instructions, request.ChatID, request.UserID)
	params.Model, params.Stream = request.Model, true
	response, err := c.send(ctx, params) //nolint:bodyclose // Close closes it
	if err != nil {
		err = upstreamError(ctx, err)
		s.stop()
		return nil, err
	}
	s.events = newEventReader(response.Body, s.isAlive)
	return s, nil
}

// stream reads the model's events. It decodes only the few kinds that matter, straight from the bytes.
type stream struct {
	ctx      context.Context //nolint:containedctx // the call's own, to learn why it ended
	cancel   context.CancelCauseFunc
	idle     time.Duration
	watchdog *time.Timer
	events   *eventReader

	delta  string
	said   int // bytes of all deltas
	output output
	result chat.ModelResult
	ended  bool
	err    error
}

// isAlive is called when the model's server sent something.
func (s *stream) isAlive() { s.watchdog.Reset(s.idle) }

// Next waits for more text.
func (s *stream) Next() bool {
	for !s.ended && s.err == nil {
		if !s.events.next() {
			s.err = s.breakError()
			return false
		}
		s.delta = ""
		s.handle(s.events.kind, s.events.data)
		if s.said += len(s.delta); s.said > maxReply {
			s.delta, s.err = "", fault.New(fault.UpstreamFailed, "The model's reply is longer than a reply may be.")
			return false
		}
		if s.delta != "" {
			return true
		}
	}
	return false
}

// handle decodes one event into delta, result or err.
func (s *stream) handle(kind, data []byte) {
	if len(kind) == 0 {
		kind = []byte(gjson.GetBytes(data, "type").String())
	}
	switch string(kind) {
	case "response.output_text.delta", "response.refusal.delta":
		s.say(data, "delta", s.output.piece)
	case "response.output_text.done":
		s.say(data, "text", s.output.whole)
	case "response.refusal.done":
		s.say(data, "refusal", s.output.whole)
	case "response.output_item.added", "response.content_part.added", "response.content_part.done", "response.output_item.done":
		s.take(string(kind), data)
	case "response.completed":
		s.finish(data, "stop")
	case "response.incomplete":
		s.finish(data, incompleteReason(data))
	case "response.failed":
		s.err = reportedError(gjson.GetBytes(data, "response.error.code").String())
	case "error":
		// Some servers put the error one level deeper.
		s.err = reportedError(cmp.Or(gjson.GetBytes(data, "code").String(), gjson.GetBytes(data, "error.code").String()))
	}
}

// say takes the text in a field of an event.
func (s *stream) say(data []byte, field string, take func(place, string) string) {
	if s.isValid(data) {
		s.delta = take(placeOf(data), storable(gjson.GetBytes(data, field).String()))
	}
}

func placeOf(data []byte) place {
	number := func(field string) int { return int(min(max(0, gjson.GetBytes(data, field).Int()), maxPlace)) }
	return place{item: number("output_index"), content: number("content_index")}
}

// take decodes the beginning or the end of a part or an item.
func (s *stream) take(kind string, data []byte) {
	if !s.isValid(data) {
		return
	}
	part, item := gjson.GetBytes(data, "part"), gjson.GetBytes(data, "item")
	switch {
	case kind == "response.output_item.added" && item.Get("type").String() == "message",
		kind == "response.content_part.added" && textField(part) != "":
		s.output.announce()
	case kind == "response.content_part.done":
		s.delta = s.output.whole(placeOf(data), partText(part))
	case kind == "response.output_item.done":
		s.delta = s.output.item(placeOf(data).item, item)
	}
}

// finish ends the reply with what its terminal event reports.
func (s *stream) finish(data []byte, reason string) {
	if !s.isValid(data) {
		return
	}
	response := gjson.GetBytes(data, "response")
	s.delta = s.output.items(response.Get("output"))
	s.ended = true
	s.result = chat.ModelResult{
		Model: storable(response.Get("model").String()), ResponseID: storable(response.Get("id").String()), FinishReason: reason,
		Usage: usageOf(response),
	}
}

func usageOf(response gjson.Result) streaming.Usage {
	usage := response.Get("usage")
	return streaming.Usage{
		InputTokens:  tokenCount(usage.Get("input_tokens").Int()),
		CachedTokens: tokenCount(usage.Get("input_tokens_details.cached_tokens").Int()),
		OutputTokens: tokenCount(usage.Get("output_tokens").Int()),
	}
}

func incompleteReason(data []byte) string {
	if gjson.GetBytes(data, "response.incomplete_details.reason").String() == "content_filter" {
		return "content_filter"
	}
	return "length"
}

// isValid fails the reply if an event is not JSON, in which gjson would still find fields.
func (s *stream) isValid(data []byte) bool {
	if gjson.ValidBytes(data) {
		return true
	}
	s.err = fault.New(fault.UpstreamFailed, "The model sent something that cannot be read.")
	return false
}

func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// maxTokens is above the tokens of any call, and sums of it fit an integer of Postgres.
const maxTokens = 100_000_000

// tokenCount limits a number that a server reports to the possible. A negative one would panic in a counter.
func tokenCount(tokens int64) int {
	return int(min(max(0, tokens), maxTokens))
}

// breakError returns why the events ended without a terminal event. That is a failure also if the server closed
// the connection in good order.
func (s *stream) breakError() error {
	if err := cmp.Or(s.events.err(), s.ctx.Err()); err != nil {
		return upstreamError(s.ctx, err)
	}
	return fault.New(fault.UpstreamFailed, "The model's reply ended too early.")
}

// Delta returns the text that Next found.
func (s *stream) Delta() string { return s.delta }

// Err returns nil only after the model's own terminal event.
func (s *stream) Err() error { return s.err }

// Result returns what the model reported at its end.
func (s *stream) Result() chat.ModelResult { return s.result }

// Close ends the call.
func (s *stream) Close() error {
	s.stop()
	return s.events.body.Close()
}

func (s *stream) stop() {
	s.watchdog.Stop()
	s.cancel(nil)
}
