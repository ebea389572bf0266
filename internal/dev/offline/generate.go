package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"sort"
	"strings"
	"time"

	memorytext "github.com/arcoscribe/throughline/internal/memory/text"
)

var (
	// errGone ends an answer whose caller hung up, errClosing one whose server is closing.
	errGone    = errors.New("the caller hung up")
	errClosing = errors.New("the offline model is closing")
)

// hostedModel is the model behind a hosted prompt that names none.
const hostedModel = "gpt-5.6-luna"

// purpose is what a request says in its metadata that it is for: a kind, and how it is answered.
type purpose struct {
	kind   Kind
	answer func(*Request) string
}

func asJSON(answer func(*Request) object) func(*Request) string {
	return func(r *Request) string { return string(mustJSON(answer(r))) }
}

var purposes = map[string]purpose{
	"reply":       {KindReply, reply},
	"fold":        {KindSummary, summarize},
	"rebuild":     {KindSummary, summarize},
	"topic":       {KindTopic, summarize},
	"rewrite":     {KindRewrite, rewrite},
	"extract":     {KindExtract, asJSON(extract)},
	"consolidate": {KindConsolidate, consolidate},
	"entities":    {KindEntities, asJSON(nameEntities)},
}

// purpose is what the request is for; a reply where it does not say.
func (r *Request) purpose() purpose {
	if found, ok := purposes[r.Metadata["purpose"]]; ok {
		return found
	}
	return purposes["reply"]
}

// generation is one answer in progress.
type generation struct {
	server  *Server
	request *Request // in the journal
	answer  Answer
	ctx     context.Context

	id     string
	item   string // the id of the output's only message
	pieces []string
	text   string // the pieces together
	reason string // why the answer is incomplete, "" when it is complete
	usage  Usage
}

// responses answers POST /v1/responses.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	request := Request{At: time.Now(), Store: true}
	raw, ok := s.read(w, r, &request)
	if !ok {
		return
	}
	request.Body, request.Text, request.Input = raw, inputText(request.Input), nil
	request.Kind, request.Current = request.purpose().kind, request.Text
	if request.Kind == KindReply {
		_, request.Current = parsePrompt(request.Text)
	}
	recorded := s.journal.add(request)
	err := s.generate(r.Context(), w, recorded)
	s.finish(recorded, err)
}

// finish records how a request ended.
func (s *Server) finish(r *Request, err error) {
	// While the server closes, it breaks its connections itself.
	hungUp := errors.Is(err, errGone) && s.closing.Err() == nil
	s.journal.update(func() { r.Ended, r.HungUp = true, hungUp })
	s.log.Debug("offline model answered", "kind", r.Kind, "status", r.Status,
		"text_bytes", len(r.Text), "sent_bytes", len(r.Sent), "hung_up", hungUp, "duration", time.Since(r.At))
}

// generate answers the request. The error is errGone, errClosing or nil.
func (s *Server) generate(ctx context.Context, w http.ResponseWriter, request *Request) error {
	answer := s.answerFor(*request)
	done, err := s.beforeHeaders(ctx, w, request, answer)
	if done || err != nil {
		return err
	}
	g := s.newGeneration(ctx, request, answer)
	s.journal.update(func() { request.Status = http.StatusOK })
	if request.Stream {
		return g.stream(w)
	}
	return g.whole(w)
}

// beforeHeaders plays latency and the faults in place of an answer. It reports whether that was the answer.
func (s *Server) beforeHeaders(ctx context.Context, w http.ResponseWriter, r *Request, answer Answer) (bool, error) {
	if err := s.pause(ctx, answer.Latency); err != nil {
		return true, err
	}
	if answer.Fault == FaultStall {
		return true, s.hang(ctx)
	}
	failure, ok := statusFaults[answer.Fault]
	if !ok {
		return false, nil
	}
	if answer.Fault == FaultPromptGone {
		failure.Message = fmt.Sprintf(failure.Message, cmp.Or(r.Prompt, &PromptRef{ID: "pmpt_gone"}).ID)
	}
	s.journal.update(func() { r.Status = failure.Status })
	if answer.RetryAfter != "" {
		w.Header().Set("Retry-After", answer.RetryAfter)
	}
	s.sendError(w, failure)
	return true, nil
}

// pause waits for d, or until the caller leaves (errGone) or the server closes (errClosing).
func (s *Server) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	return receive(ctx, s, timer.C)
}

// hang is a pause without end.
func (s *Server) hang(ctx context.Context) error { return receive[struct{}](ctx, s, nil) }

// receive is a pause until a signal.
func receive[T any](ctx context.Context, s *Server, signal <-chan T) error {
	select {
	case <-signal:
		return nil
	case <-s.closing.Done():
		return errClosing
	case <-ctx.Done():
		return errGone
	}
}

func (s *Server) newGeneration(ctx context.Context, request *Request, answer Answer) *generation {
	id := fmt.Sprintf("%s%08x", s.idPrefix, s.nextID.Add(1))
	g := &generation{server: s, request: request, answer: answer, ctx: ctx, id: "resp_" + id, item: "msg_" + id}
	g.planPieces()
	g.text = strings.Join(g.pieces, "")
	if answer.Usage != nil {
		g.usage = *answer.Usage
	} else {
		g.usage = Usage{Input: countTokens(request.Instructions + "\n" + request.Text), Output: countTokens(g.text)}
	}
	return g
}

// planPieces decides what will be sent, with the faults of the text in it, and why it is incomplete.
func (g *generation) planPieces() {
	text := answerText(g.request, g.answer)
	g.pieces = splitPieces(text)
	g.answer.FaultAfter = min(g.answer.FaultAfter, len(g.pieces))
	g.answer.GateAfter = min(g.answer.GateAfter, len(g.pieces))
	after := g.answer.FaultAfter
	switch g.answer.Fault {
	case FaultIncomplete:
		g.pieces, g.reason = g.pieces[:after], "max_output_tokens"
	case FaultContentFilter:
		g.pieces, g.reason = g.pieces[:after], "content_filter"
	default:
		limit := g.request.MaxOutputTokens
		if limit > 0 && countTokens(text) > limit {
			tooMany := sort.Search(len(g.pieces), func(n int) bool { return countTokens(strings.Join(g.pieces[:n], "")) > limit })
			g.pieces, g.reason = g.pieces[:max(tooMany-1, 0)], "max_output_tokens"
		}
	}
}

// answerText returns the text of an answer: that of the fault, the script or the built-in model.
func answerText(r *Request, answer Answer) string {
	if text, found := textFaults[answer.Fault]; found {
		return text
	}
	if answer.Text != "" {
		return answer.Text
	}
	return r.purpose().answer(r)
}

// recordSent records that the first n bytes of the text were sent.
func (g *generation) recordSent(n int) {
	g.server.journal.update(func() { g.request.Sent = g.text[:n] })
}

// countTokens counts o200k_base tokens.
func countTokens(text string) int { return memorytext.Tokens(text) }

// piece is what a stream sends at a time: a word with the space after it, or a part of a long run without spaces.
var piece = regexp.MustCompile(`^\s+|\S{1,32}\s*`)

// splitPieces cuts a text into pieces, which add up to it.
func splitPieces(text string) []string { return piece.FindAllString(text, -1) }

// The statuses of a response.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// object is a part of an answer as JSON.
type object map[string]any

// object is the whole response in one of its statuses.
func (g *generation) object(status string) object {
	r, u := g.request, g.usage
	o := object{
		"id": g.id, "object": "response", "created_at": r.At.Unix(), "status": status, "error": nil, "incomplete_details": nil,
		"model": cmp.Or(r.Model, hostedModel), "output": []any{}, "usage": nil, "metadata": r.Metadata, "store": r.Store,
		"parallel_tool_calls": true, "tool_choice": "auto", "tools": []any{},
	}
	switch status {
	case statusFailed:
		o["error"] = object{"code": "server_error", "message": "The model failed to generate a response."}
	case statusIncomplete, statusCompleted:
		if g.reason != "" {
			o["incomplete_details"] = object{"reason": g.reason}
		}
		o["output"], o["usage"] = []object{g.message(status)}, object{
			"input_tokens": u.Input, "input_tokens_details": object{"cached_tokens": u.Cached},
			"output_tokens": u.Output, "output_tokens_details": object{"reasoning_tokens": u.Reasoning},
			"total_tokens": u.Input + u.Output,
		}
	}
	return o
}

// message is the message of the output, without content while it is in progress.
func (g *generation) message(status string) object {
	content := []object{}
	if status != statusInProgress {
		content = append(content, part(g.text))
	}
	return object{"id": g.item, "type": "message", "status": status, "role": "assistant", "content": content}
}

func part(text string) object {
	return object{"type": "output_text", "annotations": []any{}, "logprobs": []any{}, "text": text}
}

// status is how the answer ends when nothing goes wrong.
func (g *generation) status() string {
	if g.reason != "" {
		return statusIncomplete
	}
	return statusCompleted
}
