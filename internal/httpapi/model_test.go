package httpapi

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/streaming"
)

// scriptedModel answers as a test says.
type scriptedModel struct {
	answer func(ctx context.Context, request chat.ModelRequest) (chat.ModelStream, error)
	calls  atomic.Int32
}

func (m *scriptedModel) Stream(ctx context.Context, request chat.ModelRequest) (chat.ModelStream, error) {
	m.calls.Add(1)
	return m.answer(ctx, request)
}

// says is a model that says the same pieces each time.
func says(pieces ...string) *scriptedModel {
	return &scriptedModel{answer: func(ctx context.Context, _ chat.ModelRequest) (chat.ModelStream, error) {
		steps := make(chan step, len(pieces)+1)
		for _, piece := range pieces {
			steps <- step{text: piece}
		}
		steps <- step{last: true}
		return &scriptedStream{ctx: ctx, steps: steps}, nil
	}}
}

// refuses is a model that accepts no call.
func refuses(err error) *scriptedModel {
	return &scriptedModel{answer: func(context.Context, chat.ModelRequest) (chat.ModelStream, error) { return nil, err }}
}

type step struct {
	text string
	last bool
	err  error
}

// conductor is a model whose only reply is made step by step by the test.
type conductor struct {
	*scriptedModel
	accepted chan struct{}
	steps    chan step
}

func newConductor() *conductor {
	c := &conductor{accepted: make(chan struct{}), steps: make(chan step, 100)}
	c.scriptedModel = &scriptedModel{answer: func(ctx context.Context, _ chat.ModelRequest) (chat.ModelStream, error) {
		select {
		case <-c.accepted:
			return &scriptedStream{ctx: ctx, steps: c.steps}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	return c
}

func (c *conductor) accept()          { close(c.accepted) }
func (c *conductor) say(text string)  { c.steps <- step{text: text} }
func (c *conductor) finish()          { c.steps <- step{last: true} }
func (c *conductor) fail(cause error) { c.steps <- step{last: true, err: cause} }

type scriptedStream struct {
	ctx   context.Context //nolint:containedctx // as an HTTP stream holds its request's
	steps <-chan step
	delta string
	err   error
}

func (s *scriptedStream) Next() bool {
	select {
	case next := <-s.steps:
		s.delta, s.err = next.text, next.err
		return !next.last
	case <-s.ctx.Done():
		s.err = s.ctx.Err()
		return false
	}
}

func (s *scriptedStream) Delta() string { return s.delta }
func (s *scriptedStream) Err() error    { return s.err }
func (s *scriptedStream) Close() error  { return nil }

func (s *scriptedStream) Result() chat.ModelResult {
	return chat.ModelResult{Model: "test-1", ResponseID: "resp_1", FinishReason: "stop", Usage: streaming.Usage{InputTokens: 9, CachedTokens: 4, OutputTokens: 3}}
}

var (
	errUpstream   = fault.Wrap(fault.UpstreamFailed, "The model refused.", errors.New("status 500"))
	errOverloaded = fault.New(fault.UpstreamOverloaded, "The model has no room.")
	errTimeout    = fault.New(fault.UpstreamTimeout, "The model did not answer in time.")
)
