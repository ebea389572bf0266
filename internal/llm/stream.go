package llm

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/tidwall/gjson"
)

// errIdle ends a call whose model was silent for too long.
var errIdle = errors.New("the model was silent for too long")

// Stream asks for a reply and returns once the model accepted the call. Until then openai-go tries
// again where that makes sense; afterwards nothing is repeated.
func (c *Client) Stream(ctx context.Context, ask chat.ModelRequest) (chat.ModelStream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &stream{idle: c.idle, cancel: cancel, ctx: ctx}
	s.watchdog = time.AfterFunc(c.idle, func() { cancel(errIdle) })

	params := request(ask.Input, ask.ChatID, ask.UserID)
	params.Model = ask.Model
	if ask.Instructions != "" {
		params.Instructions = param.NewOpt(ask.Instructions)
	}
	var response *http.Response
	_, err := c.api.New(ctx, params, option.WithResponseBodyInto(&response),
		option.WithJSONSet("stream", true), option.WithHeader("Accept", "text/event-stream"))
	if err != nil {
		err = upstream(ctx, err)
		s.stop()
		return nil, err
	}
	s.events = newEvents(response.Body)
	return s, nil
}

// stream reads the model's events. Of the dozens of kinds it looks at the few that matter, straight in
// the bytes: the library's own union of all of them costs more than the rest of a delta's way.
type stream struct {
	ctx      context.Context //nolint:containedctx // the call's own, to learn why it ended
	cancel   context.CancelCauseFunc
	idle     time.Duration
	watchdog *time.Timer
	events   *events

	delta  string
	result chat.ModelResult
	ended  bool
	err    error
}

// Next waits for more text.
func (s *stream) Next() bool {
	for !s.ended && s.err == nil {
		if !s.events.next() {
			s.err = s.broken()
			return false
		}
		s.watchdog.Reset(s.idle)
		if s.take(s.events.kind, s.events.data) {
			return true
		}
	}
	return false
}

// take looks at one event and tells whether it brought text.
func (s *stream) take(kind, data []byte) bool {
	if len(kind) == 0 {
		kind = []byte(gjson.GetBytes(data, "type").String())
	}
	switch string(kind) {
	case "response.output_text.delta", "response.refusal.delta":
		if !s.readable(data) {
			return false
		}
		s.delta = clean(gjson.GetBytes(data, "delta").String())
		return s.delta != ""
	case "response.completed":
		if s.readable(data) {
			s.finish(gjson.GetBytes(data, "response"), "stop")
		}
	case "response.incomplete":
		if s.readable(data) {
			response := gjson.GetBytes(data, "response")
			s.finish(response, incompleteReason(response))
		}
	case "response.failed":
		s.err = refusal(gjson.GetBytes(data, "response.error.code").String())
	case "error":
		// Some servers put the error one level deeper.
		s.err = refusal(cmp.Or(gjson.GetBytes(data, "code").String(), gjson.GetBytes(data, "error.code").String()))
	}
	return false
}

// readable ends the reply with a failure when an event is no JSON: gjson itself would find something
// in it all the same.
func (s *stream) readable(data []byte) bool {
	if gjson.ValidBytes(data) {
		return true
	}
	s.err = fault.New(fault.UpstreamFailed, "The model sent something that cannot be read.")
	return false
}

// clean replaces what Postgres cannot store.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

func (s *stream) finish(response gjson.Result, reason string) {
	usage := response.Get("usage")
	s.ended = true
	s.result = chat.ModelResult{
		Model: clean(response.Get("model").String()), ResponseID: clean(response.Get("id").String()), FinishReason: reason,
		Usage: streaming.Usage{
			InputTokens:  count(usage.Get("input_tokens").Int()),
			CachedTokens: count(usage.Get("input_tokens_details.cached_tokens").Int()),
			OutputTokens: count(usage.Get("output_tokens").Int()),
		},
	}
}

// mostTokens is above any call's, and sums of it fit a column of 32 bits.
const mostTokens = 100_000_000

// count keeps a number of tokens that a server reports to what can be one: a counter of the metrics that is
// told to go down ends the process.
func count(tokens int64) int {
	return int(min(max(0, tokens), mostTokens))
}

func incompleteReason(response gjson.Result) string {
	if response.Get("incomplete_details.reason").String() == "content_filter" {
		return "content_filter"
	}
	return "length"
}

// broken says why the events ended without the model's own terminal event. That is a failure also
// when the connection was closed in good order.
func (s *stream) broken() error {
	if s.events.err != nil {
		return upstream(s.ctx, s.events.err)
	}
	if s.ctx.Err() != nil {
		return upstream(s.ctx, s.ctx.Err())
	}
	return fault.New(fault.UpstreamFailed, "The model's reply ended too early.")
}

// Delta is the text that the last Next brought.
func (s *stream) Delta() string { return s.delta }

// Err is nil only after the model's own terminal event.
func (s *stream) Err() error { return s.err }

// Result is what the model reported at its end.
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
