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
	"title":       {KindTitle, title},
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
	items  []*output
	text   string // of all messages
	pieces int    // of the text
	reason string // why the answer is incomplete, "" when it is complete
	usage  Usage
}

// take reads a request, of which the wire's own part is understood by understand, and answers it.
func (s *Server) take(w http.ResponseWriter, r *http.Request, request Request, understand func(*Request, object) *apiError) {
	request.At, request.Key = time.Now(), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	raw, ok := s.read(w, r, &request)
	if !ok {
		return
	}
	var body object
	_ = json.Unmarshal(raw, &body) // it was decoded before
	if name := s.unwelcome(body); name != "" {
		s.sendError(w, *unknown(name))
		return
	}
	refusal := understand(&request, body)
	if refusal != nil {
		s.journal.refused(r.Method + " " + r.URL.Path + ": " + refusal.Message)
		s.sendError(w, *refusal)
		return
	}
	request.Body, request.Input = raw, nil
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
	return receive(ctx, s, time.After(d))
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
	g := &generation{server: s, request: request, answer: answer, ctx: ctx, id: id}
	for n, item := range answerItems(request, answer) {
		g.items = append(g.items, s.newOutput(request, fmt.Sprintf("%s_%d", id, n), item))
	}
	g.plan()
	s.remember(g.items)
	if answer.Usage != nil {
		g.usage = *answer.Usage
	} else {
		g.usage = Usage{Input: memorytext.Tokens(request.heard()), Output: memorytext.Tokens(g.text + g.arguments())}
	}
	return g
}

// plan decides how much will be sent, and why it is incomplete.
func (g *generation) plan() {
	var pieces []string
	for _, item := range g.items {
		pieces = append(pieces, item.pieces...)
	}
	g.answer.FaultAfter = min(g.answer.FaultAfter, len(pieces))
	g.answer.GateAfter = min(g.answer.GateAfter, len(pieces))
	keep := len(pieces)
	switch g.answer.Fault {
	case FaultIncomplete:
		keep, g.reason = g.answer.FaultAfter, "max_output_tokens"
	case FaultContentFilter:
		keep, g.reason = g.answer.FaultAfter, "content_filter"
	default:
		limit := g.request.MaxOutputTokens
		if limit > 0 && memorytext.Tokens(strings.Join(pieces, "")) > limit {
			tooMany := sort.Search(len(pieces), func(n int) bool { return memorytext.Tokens(strings.Join(pieces[:n], "")) > limit })
			keep, g.reason = max(tooMany-1, 0), "max_output_tokens"
		}
	}
	g.cut(keep)
	g.pieces, g.text = keep, strings.Join(pieces[:keep], "")
}

// cut ends the answer with the piece after which the text is cut off. What comes before the next piece is whole.
func (g *generation) cut(keep int) {
	for n, item := range g.items {
		if len(item.pieces) > keep {
			item.pieces = item.pieces[:keep]
			item.text = strings.Join(item.pieces, "")
			g.items = g.items[:n+1]
			return
		}
		keep -= len(item.pieces)
	}
}

// arguments are those of all calls.
func (g *generation) arguments() string {
	var all strings.Builder
	for _, item := range g.items {
		if item.kind == kindCall {
			all.WriteString(item.name + item.text)
		}
	}
	return all.String()
}

// answerItems returns the items of an answer: those of the fault, the script or the built-in model.
func answerItems(r *Request, answer Answer) []Item {
	if text, found := textFaults[answer.Fault]; found {
		return []Item{Text{Text: text}}
	}
	switch {
	case answer.Items != nil:
		return answer.Items
	case answer.Text != "":
		return []Item{Text{Text: answer.Text}}
	}
	if r.Kind == KindReply {
		if items := act(r); items != nil {
			return items
		}
	}
	return []Item{Text{Text: r.purpose().answer(r)}}
}

// recordSent records that the first n bytes of the text were sent.
func (g *generation) recordSent(n int) {
	g.server.journal.update(func() { g.request.Sent = g.text[:n] })
}

// piece is what a stream sends at a time: a word with the space after it, or a part of a long run without spaces.
var piece = regexp.MustCompile(`^\s+|\S{1,32}\s*`)

// splitPieces cuts a text into pieces, which add up to it.
func splitPieces(text string) []string { return piece.FindAllString(text, -1) }

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
	if err := g.server.pause(g.ctx, g.answer.PieceDelay*time.Duration(g.pieces)); err != nil {
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
	if g.request.API == APIChat && status == statusFailed {
		g.server.sendError(w, serverError)
		return nil
	}
	answer := g.object
	if g.request.API == APIChat {
		answer = g.completion
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(mustJSON(answer(status))); err != nil {
		return errGone
	}
	return nil
}

// object is a part of an answer as JSON.
type object = map[string]any

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
