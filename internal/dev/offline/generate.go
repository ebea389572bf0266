package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
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

// invalidBytes are sent in place of their replacement characters, which the text holds.
const (
	invalidBytes       = "\xff\xfe"
	invalidReplacement = "\uFFFD\uFFFD"
)

// generation is one answer in progress.
type generation struct {
	server  *Server
	request *Request // in the journal
	answer  Answer
	ctx     context.Context

	id      string
	created int64
	items   []*item
	pieces  []string
	text    string // the pieces together
	reason  string // why the answer is incomplete, "" when it is complete
	usage   Usage
}

// item is one message of the output.
type item struct {
	id       string
	place    []byte // names it in an event
	part     []byte // names its part in an event
	from, to int    // which pieces are its text
	text     string
}

// responses answers POST /v1/responses.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	request := Request{At: time.Now(), Store: true}
	raw, ok := s.read(w, r, &request)
	if !ok {
		return
	}
	request.Body, request.Text, request.Input = raw, inputText(request.Input), nil
	request.Kind, request.Current = kindOf(&request), request.Text
	if request.Kind == KindReply {
		request.Current = parsePrompt(request.Text).current
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
		return true, s.wait(ctx, nil)
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
	s.sendError(w, &failure)
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

// wait is pause until the gate is closed; a nil gate never is.
func (s *Server) wait(ctx context.Context, gate <-chan struct{}) error { return receive(ctx, s, gate) }

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
	number := s.nextID.Add(1)
	g := &generation{
		server:  s,
		request: request,
		answer:  answer,
		ctx:     ctx,
		id:      fmt.Sprintf("resp_%s%08x", s.idPrefix, number),
		created: request.At.Unix(),
	}
	g.pieces, g.reason = planPieces(request, answer)
	g.text = strings.Join(g.pieces, "")
	g.answer.FaultAfter = min(max(answer.FaultAfter, 0), len(g.pieces))
	g.items = g.planItems(fmt.Sprintf("msg_%s%08x", s.idPrefix, number))
	g.answer.GateAfter = min(answer.GateAfter, len(g.pieces))
	g.usage = g.countUsage()
	return g
}

// planItems returns the messages of the output: one, or the two of FaultTwoItems.
func (g *generation) planItems(id string) []*item {
	ends := []int{len(g.pieces)}
	if after := g.answer.FaultAfter; g.answer.Fault == FaultTwoItems && 0 < after && after < len(g.pieces) {
		ends = []int{after, len(g.pieces)}
	}
	items := make([]*item, len(ends))
	from := 0
	for n, to := range ends {
		items[n] = newItem(fmt.Sprintf("%s%02d", id, n), n)
		items[n].from, items[n].to, items[n].text = from, to, strings.Join(g.pieces[from:to], "")
		from = to
	}
	return items
}

func newItem(id string, number int) *item {
	return &item{
		id:    id,
		place: fmt.Appendf(nil, `,"output_index":%d`, number),
		part:  fmt.Appendf(nil, `,"item_id":"%s","output_index":%d,"content_index":0`, id, number),
	}
}

// planPieces returns what will be sent, with the faults of the text in it, and why it is incomplete.
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

// answerText returns the text of an answer: that of the fault, the script or the built-in model.
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
	switch {
	case r.Kind == KindExtract:
		return asJSON(extract(r))
	case r.Kind == KindConsolidate:
		return asJSON(consolidate(r))
	case r.Kind == KindEntities:
		return asJSON(nameEntities(r))
	case strings.HasPrefix(r.TextOptions.Format.Type, "json_"):
		return "{}" // of a form of which this model knows nothing
	case r.Kind == KindSummary, r.Kind == KindTopic:
		return summarize(r)
	case r.Kind == KindRewrite:
		return rewrite(r)
	}
	return reply(r)
}

// recordSent records that the first n bytes of the text were sent.
func (g *generation) recordSent(n int) {
	g.server.journal.update(func() { g.request.Sent = g.text[:n] })
}

// countUsage returns the script's usage, or else counts.
func (g *generation) countUsage() Usage {
	if g.answer.Usage != nil {
		return *g.answer.Usage
	}
	return Usage{Input: countTokens(g.request.Instructions + "\n" + g.request.Text), Output: countTokens(g.text)}
}

// countTokens counts o200k_base tokens.
func countTokens(text string) int { return memorytext.Tokens(text) }

// piece is what a stream sends at a time: a word with the space after it, or a part of a long run without spaces.
var piece = regexp.MustCompile(`^\s+|\S{1,32}\s*`)

// splitPieces cuts a text into pieces, which add up to it.
func splitPieces(text string) []string { return piece.FindAllString(text, -1) }

// limitPieces keeps as many pieces as fit the limit in tokens, and reports whether it dropped any.
func limitPieces(pieces []string, limit int) ([]string, bool) {
	fits := func(n int) bool { return countTokens(strings.Join(pieces[:n], "")) <= limit }
	if limit <= 0 || fits(len(pieces)) {
		return pieces, false
	}
	tooMany := sort.Search(len(pieces), func(n int) bool { return !fits(n) })
	return pieces[:max(tooMany-1, 0)], true
}
