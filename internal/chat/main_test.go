package chat

import (
	"context"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/arcoscribe/throughline/streaming"
)

func TestMain(m *testing.M) {
	text.Tokens("the tokenizer is built once") // and not on some test's synthetic clock
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

var ada = auth.Principal{UserID: uuid.MustParse("8f14e45f-ceea-467f-a0e6-1b2c3d4e5f60")}

// testService is a service with a fake store and a fake model. internal/postgres tests the real store.
type testService struct {
	*Service
	store *fakeStore
	model *fakeModel
	logs  *testkit.Log
}

// newTestService returns a service that is closed with the test. What runs then is interrupted.
func newTestService(t *testing.T, change ...func(*Config)) *testService {
	svc := &testService{store: newFakeStore(), model: &fakeModel{answer: answering("Fine.")}, logs: &testkit.Log{}}
	config := Config{
		Store: svc.store, Model: svc.model, Metrics: metrics.New(),
		Logger:       svc.logs.Logger(),
		Variants:     []Variant{{Name: "arco", Model: "gpt-small"}, {Name: "arco-pro", Model: "gpt-large"}},
		Instructions: "Be kind.", Limits: memory.DefaultLimits(), ReplyTimeout: 10 * time.Minute,
	}
	for _, f := range change {
		f(&config)
	}
	svc.Service = New(config)
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		svc.Close(now)
	})
	return svc
}

// inService plays with a service on a synthetic clock.
func inService(t *testing.T, play func(*testing.T, *testService), change ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		play(t, newTestService(t, change...))
	})
}

// scripted makes the model answer with a reply that the test emits.
func (svc *testService) scripted() *scriptedReply {
	script := newScriptedReply()
	svc.model.setAnswer(script.stream)
	return script
}

// send sends a message that must be accepted. The reply is closed with the test.
func (svc *testService) send(t *testing.T, message Message) *Reply {
	reply, err := svc.Send(t.Context(), ada, message)
	require.NoError(t, err, "send")
	t.Cleanup(reply.Close)
	return reply
}

// readToEnd reads a reply to its end.
func readToEnd(t *testing.T, reply *Reply) (text string, end streaming.Terminal) {
	for {
		chunk, err := reply.Next(t.Context())
		require.NoErrorf(t, err, "after %q", text)
		if chunk.End != nil {
			return text, *chunk.End
		}
		text += string(chunk.Text)
	}
}

// failureCode returns the code of a message.failed, "" for another end.
func failureCode(end streaming.Terminal) fault.Code {
	if end.Failed == nil {
		return ""
	}
	return fault.Code(end.Failed.Code)
}

func wantFault(t *testing.T, err error, want fault.Code) {
	assert.Truef(t, fault.CodeOf(err) == want, "got %v, want %s", err, want)
}

// value returns the value of a counter or a gauge.
func value(t *testing.T, metric any) float64 {
	return testkit.Measured(t, metric)
}

// fakeStore keeps replies in memory. A test sets the functions to fail or delay the methods.
type fakeStore struct {
	Store // what no test calls

	mu      sync.Mutex
	turns   []NewTurn
	replies []StoredReply // oldest first
	saved   []FinishedReply
	renewed [][]uuid.UUID // servers, each with its replies
	// abandoned are the replies whose leases were ended, call by call.
	abandoned [][]uuid.UUID
	stop      []uuid.UUID // set by RequestCancel, returned by CancelRequested
	deltas    []Delta
	ended     []uuid.UUID
	states    map[uuid.UUID]State // of replies with tools
	charged   []work.Spent        // with steps

	stored  StoredChat // returned by ReadChat
	readErr error

	record func(ctx context.Context) error

	replaced Replaced // returned by FindReplaced, with the turn
	earlier  *EarlierTurn

	start func(ctx context.Context, turn NewTurn) (StartedTurn, error)
	save  func(ctx context.Context, reply FinishedReply) (bool, error)
	find  func(ctx context.Context) error
	renew func(ctx context.Context) error
}

var _ Store = (*fakeStore)(nil)

func newFakeStore() *fakeStore {
	return &fakeStore{states: map[uuid.UUID]State{}}
}

func (f *fakeStore) StartTurn(ctx context.Context, _ auth.Principal, turn NewTurn) (StartedTurn, error) {
	started := StartedTurn{Started: true}
	if f.start != nil {
		var err error
		if started, err = f.start(ctx, turn); err != nil || !started.Started {
			return started, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turns = append(f.turns, turn)
	f.replies = append(f.replies, StoredReply{
		ChatID: turn.ChatID, UserMessageID: turn.UserMessageID, MessageID: turn.MessageID,
		Status: memory.StatusStreaming, Metadata: ReplyMetadata{ModelVariant: turn.Variant}, Server: turn.Server,
	})
	return started, nil
}

func (f *fakeStore) FindReplaced(context.Context, auth.Principal, uuid.UUID, uuid.UUID) (Replaced, *EarlierTurn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.replaced, f.earlier, f.readErr
}

func (f *fakeStore) SaveReply(ctx context.Context, _ auth.Principal, reply FinishedReply) (bool, error) {
	if f.save != nil {
		if saved, err := f.save(ctx, reply); err != nil || !saved {
			return saved, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saved = append(f.saved, reply)
	for i := range f.replies {
		if f.replies[i].MessageID == reply.MessageID {
			f.replies[i].Status, f.replies[i].Content, f.replies[i].Metadata = reply.Status, reply.Content, reply.Metadata
			f.replies[i].Parts = reply.Parts
		}
	}
	return true, nil
}

func (f *fakeStore) FindReply(ctx context.Context, _ auth.Principal, chatID, messageID uuid.UUID, from int) (StoredReply, bool, error) {
	f.mu.Lock()
	find := f.find
	f.mu.Unlock()
	if find != nil {
		if err := find(ctx); err != nil {
			return StoredReply{}, false, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	exists := false
	for _, reply := range slices.Backward(f.replies) {
		if reply.ChatID != chatID {
			continue
		}
		if exists = true; messageID == uuid.Nil || reply.MessageID == messageID {
			if reply.Status == memory.StatusStreaming {
				reply.Content = string([]rune(reply.Content)[min(from, utf8.RuneCountInString(reply.Content)):])
			}
			return reply, true, nil
		}
	}
	if !exists {
		return StoredReply{}, false, fault.New(fault.ChatNotFound, "There is no such chat.")
	}
	return StoredReply{}, false, nil
}

func (f *fakeStore) ReadChat(context.Context, auth.Principal, uuid.UUID) (StoredChat, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stored, f.readErr
}

func (f *fakeStore) RequestCancel(_ context.Context, _ auth.Principal, messageID uuid.UUID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop = append(f.stop, messageID)
	return nil
}

func (f *fakeStore) RecordDeltas(ctx context.Context, deltas []Delta, ended []uuid.UUID) error {
	if f.record != nil {
		if err := f.record(ctx); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deltas = append(f.deltas, deltas...)
	f.ended = append(f.ended, ended...)
	return nil
}

func (f *fakeStore) CancelRequested(context.Context, []uuid.UUID) ([]uuid.UUID, error) {
	return copied(&f.mu, &f.stop), nil
}

func (f *fakeStore) Abandon(_ context.Context, ids []uuid.UUID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.abandoned = append(f.abandoned, ids)
	return nil
}

func (f *fakeStore) RenewLease(ctx context.Context, server uuid.UUID, running []uuid.UUID, _ time.Duration) error {
	f.mu.Lock()
	f.renewed = append(f.renewed, append([]uuid.UUID{server}, running...))
	f.mu.Unlock()
	if f.renew != nil {
		return f.renew(ctx)
	}
	return nil
}

func (f *fakeStore) InterruptAbandoned(context.Context) (int, error) { return 0, nil }

// setFind sets find while the service may call it.
func (f *fakeStore) setFind(find func(context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.find = find
}

// put stores or replaces a reply, as another server would.
func (f *fakeStore) put(reply StoredReply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replies = slices.DeleteFunc(f.replies, func(known StoredReply) bool { return known.MessageID == reply.MessageID })
	f.replies = append(f.replies, reply)
}

// remove deletes a reply.
func (f *fakeStore) remove(messageID uuid.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replies = slices.DeleteFunc(f.replies, func(known StoredReply) bool { return known.MessageID == messageID })
}

func (f *fakeStore) savedReplies() []FinishedReply { return copied(&f.mu, &f.saved) }
func (f *fakeStore) renewals() int                 { return len(copied(&f.mu, &f.renewed)) }
func (f *fakeStore) abandonments() [][]uuid.UUID   { return copied(&f.mu, &f.abandoned) }

// copied is what a list has now.
func copied[T any](mu *sync.Mutex, list *[]T) []T {
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(*list)
}

// fakeModel answers as a test sets it.
type fakeModel struct {
	answer   func(ctx context.Context) (ModelStream, error)
	mu       sync.Mutex
	received []ModelRequest
}

func (m *fakeModel) Stream(ctx context.Context, request ModelRequest) (ModelStream, error) {
	m.mu.Lock()
	m.received = append(m.received, request)
	answer := m.answer
	m.mu.Unlock()
	return answer(ctx)
}

// setAnswer sets how later calls are answered.
func (m *fakeModel) setAnswer(answer func(context.Context) (ModelStream, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = answer
}

func (m *fakeModel) requests() []ModelRequest { return copied(&m.mu, &m.received) }

// answering answers with these pieces and ends the reply.
func answering(pieces ...string) func(context.Context) (ModelStream, error) {
	return func(ctx context.Context) (ModelStream, error) {
		s := newScriptedReply()
		for _, piece := range pieces {
			s.emit(piece)
		}
		s.finish()
		return s.stream(ctx)
	}
}

// refusing refuses every call.
func refusing(err error) func(context.Context) (ModelStream, error) {
	return func(context.Context) (ModelStream, error) { return nil, err }
}

// scriptedReply is a reply that a test emits step by step.
type scriptedReply struct {
	steps  chan step
	result *ModelResult // nil for the usual one
}

type step struct {
	text string
	last bool
	err  error
}

func newScriptedReply() *scriptedReply { return &scriptedReply{steps: make(chan step, 1000)} }

func (s *scriptedReply) emit(text string) { s.steps <- step{text: text} }
func (s *scriptedReply) finish()          { s.steps <- step{last: true} }
func (s *scriptedReply) fail(cause error) { s.steps <- step{last: true, err: cause} }

// stream is what a fakeModel answers with.
func (s *scriptedReply) stream(ctx context.Context) (ModelStream, error) {
	return &scriptedStream{ctx: ctx, steps: s.steps, result: s.result}, nil
}

type scriptedStream struct {
	ctx    context.Context //nolint:containedctx // as an HTTP stream holds its request's
	steps  <-chan step
	delta  string
	err    error
	result *ModelResult
}

func (s *scriptedStream) Next() bool {
	select {
	case next := <-s.steps:
		s.delta, s.err = next.text, next.err
		return !next.last
	case <-s.ctx.Done():
		s.err = fault.Wrap(fault.UpstreamFailed, "The call of the model was ended.", context.Cause(s.ctx))
		return false
	}
}

func (s *scriptedStream) Delta() string { return s.delta }
func (s *scriptedStream) Err() error    { return s.err }
func (s *scriptedStream) Close() error  { return nil }

func (s *scriptedStream) Result() ModelResult {
	if s.result != nil {
		return *s.result
	}
	return ModelResult{Model: "gpt-exact-1", ResponseID: "resp_1", FinishReason: "length",
		Usage: streaming.Usage{InputTokens: 9, CachedTokens: 4, OutputTokens: 3}}
}
