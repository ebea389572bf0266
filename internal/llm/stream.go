package llm

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
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

	call, path := c.begin(s, request)
	retries := maxRetries
	if request.Once {
		retries = 0
	}
	response, err := c.send(ctx, path, call, retries) //nolint:bodyclose // Close closes it
	if err != nil {
		err = upstreamError(ctx, err)
		s.stop()
		return nil, err
	}
	s.listen(response.Body)
	return s, nil
}

// longestEvent is the longest event of a stream, in bytes.
const longestEvent = 8 << 20

func (s *stream) listen(body io.ReadCloser) {
	s.body, s.events = body, streaming.NewEventReader(body, longestEvent)
	s.events.Alive = s.isAlive
}

// begin returns the body of a reply's call, and where it is sent, and gives the stream the decoder of that wire.
func (c *Client) begin(s *stream, request chat.ModelRequest) (call body, path string) {
	if c.variant.Chat {
		s.decode = (&completions{stream: s}).decode
		return newCompletion(c.variant, request), "/chat/completions"
	}
	s.decode = (&responses{stream: s}).decode
	return newResponse(c.variant, request), "/responses"
}

// stream reads the model's events. What they mean depends on the wire.
type stream struct {
	ctx      context.Context //nolint:containedctx // the call's own, to learn why it ended
	cancel   context.CancelCauseFunc
	idle     time.Duration
	watchdog *time.Timer
	body     io.Closer
	events   *streaming.EventReader
	decode   func(kind, data []byte) // takes one event: into delta, result or err

	delta  string
	said   int // bytes of all deltas
	kept   int // bytes of items and sources
	result chat.ModelResult
	whole  bool // the model said why its reply ends; only the cost may follow
	ended  bool // nothing follows
	err    error
}

// isAlive is called when the model's server sent something.
func (s *stream) isAlive() { s.watchdog.Reset(s.idle) }

// Next waits for more text.
func (s *stream) Next() bool {
	for !s.ended && s.err == nil {
		s.delta = ""
		if !s.events.Next() {
			if s.ended = true; !s.whole {
				s.err = s.breakError()
			}
			return false
		}
		if len(s.events.Data) == 0 {
			continue // another sign of life
		}
		s.decode(s.events.Name, s.events.Data)
		if s.said += len(s.delta); s.said > maxReply || s.kept > maxItems {
			s.delta, s.err = "", fault.New(fault.UpstreamFailed, "The model's reply is longer than a reply may be.")
			return false
		}
		if s.delta != "" {
			return true
		}
	}
	return false
}

// itemSize is what an item or a source takes in memory beside its texts, in bytes.
const itemSize = 200

// keep adds an item to the result, unless it says nothing.
func (s *stream) keep(item chat.Item) {
	size := len(item.Text) + len(item.Name) + len(item.Arguments) + len(item.Encrypted)
	for _, part := range item.Summary {
		size += len(part) + itemSize
	}
	if size == 0 || item.Type == chat.ItemCall && item.Name == "" {
		return
	}
	s.kept += size + itemSize
	s.result.Items = append(s.result.Items, item)
}

// cite adds the page that an annotation names to the result, once.
func (s *stream) cite(annotation gjson.Result) {
	source := chat.Source{URL: storable(annotation.Get("url").String()), Title: storable(annotation.Get("title").String())}
	if source.URL == "" || slices.Contains(s.result.Sources, source) {
		return
	}
	s.kept += len(source.URL) + len(source.Title) + itemSize
	s.result.Sources = append(s.result.Sources, source)
}

// end takes the reason for which the model ended its reply. A reply that is not whole has no calls: the last may be cut.
func (s *stream) end(reason string) {
	isCall := func(item chat.Item) bool { return item.Type == chat.ItemCall }
	switch {
	case reason != "stop":
		s.result.Items = slices.DeleteFunc(s.result.Items, isCall)
	case slices.ContainsFunc(s.result.Items, isCall):
		reason = "tool_calls"
	}
	s.result.FinishReason, s.whole = reason, true
}

// usageOf reads a report of tokens. A wire has its own names for those that go in and come out.
func usageOf(usage gjson.Result, in, out string) streaming.Usage {
	return streaming.Usage{
		InputTokens:  tokenCount(usage.Get(in + "_tokens").Int()),
		CachedTokens: tokenCount(usage.Get(in + "_tokens_details.cached_tokens").Int()),
		OutputTokens: tokenCount(usage.Get(out + "_tokens").Int()),
	}
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
	if err := cmp.Or(s.events.Err(), s.ctx.Err()); err != nil {
		return upstreamError(s.ctx, err)
	}
	return endedEarly()
}

func endedEarly() error { return fault.New(fault.UpstreamFailed, "The model's reply ended too early.") }

// Delta returns the text that Next found.
func (s *stream) Delta() string { return s.delta }

// Err returns nil only after the model's own terminal event.
func (s *stream) Err() error { return s.err }

// Result returns what the model reported at its end; nothing of a reply that broke off.
func (s *stream) Result() chat.ModelResult {
	if s.err != nil {
		return chat.ModelResult{}
	}
	return s.result
}

// Close ends the call.
func (s *stream) Close() error {
	s.stop()
	return s.body.Close()
}

func (s *stream) stop() {
	s.watchdog.Stop()
	s.cancel(nil)
}
