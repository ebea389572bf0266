package offline

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	// errGone ends an answer whose caller hung up, errClosing one whose server closes.
	errGone    = errors.New("the caller hung up")
	errClosing = errors.New("the offline model is closing")
)

// hostedModel is the model behind a hosted prompt that names none.
const hostedModel = "gpt-5.6-luna"

// invalidBytes are sent in place of their replacement characters, which the text holds.
const (
	invalidBytes       = "\xff\xfe"
	invalidReplacement = "\uFFFD\uFFFD"
)

// generation is one answer while it is given.
type generation struct {
	server  *Server
	entry   *entry
	request Request
	answer  Answer
	ctx     context.Context

	id, itemID string
	created    int64
	pieces     []string
	text       string // the pieces together
	reason     string // why the answer is incomplete, "" when it is complete
	usage      Usage
}

// responses answers POST /v1/responses.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	raw, refusal := readBody(r)
	if refusal != nil {
		s.refuse(w, r, raw, refusal)
		return
	}
	request, refusal := decodeResponses(raw, s.options.Models)
	if refusal != nil {
		s.refuse(w, r, raw, refusal)
		return
	}
	e := s.journal.add(request)
	err := s.generate(r.Context(), w, e, request)
	s.finish(e, err)
}

// finish records how a request ended.
func (s *Server) finish(e *entry, err error) {
	// While the server closes, its connections break: that is nobody hanging up.
	hungUp := errors.Is(err, errGone) && !s.closed()
	s.journal.update(e, func(e *entry) { e.request.Ended, e.request.HungUp = true, hungUp })
	s.log.Debug("offline model answered", "kind", e.request.Kind, "status", e.request.Status,
		"text_bytes", len(e.request.Text), "sent_bytes", e.sent.Load(), "hung_up", hungUp, "duration", time.Since(e.request.At))
}

// generate decides and gives the answer. The error is errGone, errClosing or nil.
func (s *Server) generate(ctx context.Context, w http.ResponseWriter, e *entry, request Request) error {
	answer := s.answerFor(request)
	done, err := s.beforeHeaders(ctx, w, e, answer, request.Prompt)
	if done || err != nil {
		return err
	}
	g := s.newGeneration(ctx, e, request, answer)
	s.journal.update(e, func(e *entry) { e.request.Status, e.text = http.StatusOK, g.text })
	if request.Stream {
		return g.stream(w)
	}
	return g.whole(w)
}

// beforeHeaders plays latency and the faults in place of an answer; true when that was all.
func (s *Server) beforeHeaders(ctx context.Context, w http.ResponseWriter, e *entry, answer Answer, prompt *PromptRef) (bool, error) {
	if err := s.pause(ctx, answer.Latency); err != nil {
		return true, err
	}
	if answer.Fault == FaultStall {
		return true, s.hold(ctx, nil)
	}
	failure := statusFault(answer.Fault, prompt)
	if failure == nil {
		return false, nil
	}
	s.journal.update(e, func(e *entry) { e.request.Status = failure.Status })
	if answer.RetryAfter != "" {
		w.Header().Set("Retry-After", answer.RetryAfter)
	}
	s.sendError(w, failure)
	return true, nil
}

// pause waits, but no longer than the caller stays and the server is open.
func (s *Server) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	return waitFor(ctx, s, timer.C)
}

// hold waits until the gate is closed; a nil gate never is.
func (s *Server) hold(ctx context.Context, gate <-chan struct{}) error { return waitFor(ctx, s, gate) }

func waitFor[T any](ctx context.Context, s *Server, signal <-chan T) error {
	select {
	case <-signal:
		return nil
	case <-s.closing:
		return errClosing
	case <-ctx.Done():
		return errGone
	}
}

func (s *Server) newGeneration(ctx context.Context, e *entry, request Request, answer Answer) *generation {
	number := s.nextID.Add(1)
	answer.FaultAfter = max(answer.FaultAfter, 0)
	g := &generation{
		server:  s,
		entry:   e,
		request: request,
		answer:  answer,
		ctx:     ctx,
		id:      fmt.Sprintf("resp_%s%08x", s.idPrefix, number),
		itemID:  fmt.Sprintf("msg_%s%08x", s.idPrefix, number),
		created: request.At.Unix(),
	}
	g.pieces, g.reason = planPieces(&request, answer)
	g.text = strings.Join(g.pieces, "")
	g.usage = g.countUsage()
	return g
}

// planPieces is what will be sent, with the faults of the text in it, and why it is incomplete.
func planPieces(r *Request, answer Answer) ([]string, string) {
	pieces := splitPieces(answerText(r, answer))
	after := min(max(answer.FaultAfter, 0), len(pieces))
	switch answer.Fault {
	case FaultIncomplete:
		return pieces[:after], "max_output_tokens"
	case FaultContentFilter:
		return pieces[:after], "content_filter"
	case FaultLongLine:
		return slices.Insert(pieces, after, strings.Repeat("long ", (1<<20)/5+1)), ""
	case FaultInvalidUTF8:
		return slices.Insert(pieces, after, invalidReplacement), ""
	}
	pieces, cut := limitPieces(pieces, r.MaxOutputTokens)
	if cut {
		return pieces, "max_output_tokens"
	}
	return pieces, ""
}

// answerText is the text of an answer: a fault's, the script's or the built-in model's.
func answerText(r *Request, answer Answer) string {
	switch answer.Fault {
	case FaultEmpty:
		return ""
	case FaultNone:
		return "NONE"
	case FaultRefusal:
		return "I'm sorry, but I can't help with that request."
	case FaultLoop:
		return strings.TrimSpace(strings.Repeat("The user asked about the plan and the assistant explained the plan again. ", 40))
	case FaultOverCap:
		return diary(3 * capOf(r))
	}
	if answer.Text != "" {
		return answer.Text
	}
	if r.Kind == KindSummary {
		return summarize(r)
	}
	return reply(r)
}

// countUsage is the script's usage, or a true count.
func (g *generation) countUsage() Usage {
	if g.answer.Usage != nil {
		return *g.answer.Usage
	}
	r := g.request
	prompt := r.Instructions + "\n" + r.Text
	return Usage{
		Input:  countTokens(prompt),
		Cached: g.server.cache.cachedTokens(cacheKey(&r), prompt),
		Output: countTokens(g.text),
	}
}

// cacheKey is "" without a prompt_cache_key; models do not share a cache.
func cacheKey(r *Request) string {
	if r.PromptCacheKey == "" {
		return ""
	}
	return strconv.Quote(r.Model) + r.PromptCacheKey
}
