package offline

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
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
		g.usage = Usage{Input: memorytext.Tokens(request.Instructions + "\n" + request.Text), Output: memorytext.Tokens(g.text)}
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
		if limit > 0 && memorytext.Tokens(text) > limit {
			tooMany := sort.Search(len(g.pieces), func(n int) bool { return memorytext.Tokens(strings.Join(g.pieces[:n], "")) > limit })
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

// whole answers without a stream, in the time that the stream would have taken.
func (g *generation) whole(w http.ResponseWriter) error {
	if g.answer.Gate != nil {
		if err := receive(g.ctx, g.server, g.answer.Gate); err != nil {
			return err
		}
	}
	if err := g.server.pause(g.ctx, g.answer.PieceDelay*time.Duration(len(g.pieces))); err != nil {
		return err
	}
	status := g.status()
	switch g.answer.Fault {
	case FaultHang:
		return g.server.hang(g.ctx)
	case FaultCut, FaultEndEarly:
		reset(w)
		return nil
	case FaultFailed, FaultErrorEvent:
		status = statusFailed
	default:
		g.recordSent(len(g.text))
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(mustJSON(g.object(status))); err != nil {
		return errGone
	}
	return nil
}

// mustJSON encodes an answer's own structures, so it cannot fail.
func mustJSON(value any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// reset breaks the connection: the caller sees a reset, not a clean end.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // not HTTP/1.1: the server's own way to break off
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the close would be a clean one; should it fail, the body is still cut
	}
	_ = conn.Close()
}

// stream answers with the event sequence of the Responses API.
func (g *generation) stream(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	out := &eventWriter{generation: g, w: w, control: http.NewResponseController(w)}
	out.emit("response.created", object{"response": g.object(statusInProgress)})
	out.emit("response.in_progress", object{"response": g.object(statusInProgress)})
	out.emit("response.output_item.added", object{"output_index": 0, "item": g.message(statusInProgress)})
	out.emit("response.content_part.added", g.ofPart(object{"part": part("")}))
	out.flush()
	ended, err := out.sendText()
	if !ended && err == nil {
		out.emit("response.output_text.done", g.ofPart(object{"text": g.text, "logprobs": []any{}}))
		out.emit("response.content_part.done", g.ofPart(object{"part": part(g.text)}))
		out.emit("response.output_item.done", object{"output_index": 0, "item": g.message(g.status())})
		out.emit("response."+g.status(), object{"response": g.object(g.status())})
		out.flush()
	}
	if err == nil && out.err != nil {
		return errGone // a failed write has no other cause
	}
	return err
}

// eventWriter writes server-sent events. It keeps the first error and writes nothing after it.
type eventWriter struct {
	*generation
	w       http.ResponseWriter
	control *http.ResponseController
	number  int
	err     error
}

// sendText sends the pieces, with the gate and the fault between them. It reports whether a fault ended the stream.
func (o *eventWriter) sendText() (ended bool, err error) {
	due := time.Now() // for the next piece: a slow write does not delay the pieces after it
	sent := 0
	for n := range len(o.pieces) + 1 {
		if o.answer.Gate != nil && n == o.answer.GateAfter {
			if err := receive(o.ctx, o.server, o.answer.Gate); err != nil {
				return false, err
			}
		}
		if n == o.answer.FaultAfter {
			if ended, err := o.fail(); ended || err != nil {
				return ended, err
			}
		}
		if n == len(o.pieces) {
			break
		}
		due = due.Add(o.answer.PieceDelay)
		if err := o.server.pause(o.ctx, time.Until(due)); err != nil {
			return false, err
		}
		o.emit("response.output_text.delta", o.ofPart(object{"delta": o.pieces[n], "logprobs": []any{}}))
		if o.flush(); o.err != nil {
			return false, errGone
		}
		sent += len(o.pieces[n])
		o.recordSent(sent)
	}
	return false, nil
}

// fail plays a fault inside a stream. It reports whether the stream is over.
func (o *eventWriter) fail() (ended bool, err error) {
	switch o.answer.Fault {
	case FaultHang:
		return true, o.server.hang(o.ctx)
	case FaultCut:
		reset(o.w)
	case FaultEndEarly:
	case FaultFailed:
		o.emit("response.failed", object{"response": o.object(statusFailed)})
	case FaultErrorEvent:
		o.emit("error", object{"code": "server_error", "message": "The server had an error while processing your request.", "param": nil})
	default:
		return false, nil
	}
	return true, nil
}

// ofPart says that an event's fields are of the message's only part.
func (g *generation) ofPart(fields object) object {
	fields["item_id"], fields["output_index"], fields["content_index"] = g.item, 0, 0
	return fields
}

// emit writes one event with its type and number.
func (o *eventWriter) emit(kind string, fields object) {
	fields["type"], fields["sequence_number"] = kind, o.number
	o.number++
	if o.err == nil {
		_, o.err = fmt.Fprintf(o.w, "event: %s\ndata: %s\n\n", kind, mustJSON(fields))
	}
}

func (o *eventWriter) flush() {
	if o.err == nil {
		o.err = o.control.Flush()
	}
}
