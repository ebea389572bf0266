package httpapi

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
)

// memoryStore keeps turns in memory, for tests of the handlers alone. It has no briefs, no folds and
// no leases; what Postgres really does is tested where Postgres is.
type memoryStore struct {
	chat.Store // what no test here calls

	mu    sync.Mutex
	chats map[uuid.UUID]uuid.UUID // chat -> owner
	turns []*storedTurn           // oldest first
	saved chan chat.FinishedReply // each reply that was saved, for tests that wait for it
	fails error                   // returned by StartTurn when it is set
}

type storedTurn struct {
	owner uuid.UUID
	chat.NewTurn
	reply chat.StoredReply
}

var _ chat.Store = (*memoryStore)(nil)

func newMemoryStore() *memoryStore {
	return &memoryStore{chats: map[uuid.UUID]uuid.UUID{}, saved: make(chan chat.FinishedReply, 10_000)}
}

func (m *memoryStore) StartTurn(_ context.Context, user auth.Principal, turn chat.NewTurn) (chat.StartedTurn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails != nil {
		return chat.StartedTurn{}, m.fails
	}
	earlier := m.latest(func(t *storedTurn) bool {
		return turn.ClientMessageID != uuid.Nil && t.owner == user.UserID && t.ClientMessageID == turn.ClientMessageID
	})
	if earlier != nil {
		return chat.StartedTurn{Earlier: &chat.EarlierTurn{
			ChatID: earlier.ChatID, UserMessageID: earlier.UserMessageID, Content: earlier.Content, MessageID: earlier.MessageID,
		}}, nil
	}
	if turn.NewChat {
		m.chats[turn.ChatID] = user.UserID
	}
	if m.chats[turn.ChatID] != user.UserID {
		return chat.StartedTurn{}, nil
	}
	last := m.latest(func(t *storedTurn) bool { return t.ChatID == turn.ChatID })
	if last != nil && last.reply.Status == memory.StatusStreaming {
		return chat.StartedTurn{Running: last.MessageID}, nil
	}
	m.turns = append(m.turns, &storedTurn{owner: user.UserID, NewTurn: turn, reply: chat.StoredReply{
		ChatID: turn.ChatID, UserMessageID: turn.UserMessageID, MessageID: turn.MessageID,
		Status: memory.StatusStreaming, Metadata: chat.ReplyMetadata{ModelVariant: turn.Variant},
	}})
	return chat.StartedTurn{Started: true}, nil
}

func (m *memoryStore) FindReplaced(_ context.Context, user auth.Principal, id, _ uuid.UUID) (chat.Replaced, *chat.EarlierTurn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	turn := m.latest(func(t *storedTurn) bool {
		return t.owner == user.UserID && (t.UserMessageID == id || t.MessageID == id)
	})
	if turn == nil {
		return chat.Replaced{}, nil, nil
	}
	found := chat.Replaced{ID: id, ChatID: turn.ChatID, Role: memory.RoleUser, UserMessageID: turn.UserMessageID, Content: turn.Content}
	if id == turn.MessageID {
		found.Role = memory.RoleAssistant
	}
	return found, nil, nil
}

// latest is the latest turn of which something holds; nil for none.
func (m *memoryStore) latest(holds func(*storedTurn) bool) *storedTurn {
	for _, turn := range slices.Backward(m.turns) {
		if holds(turn) {
			return turn
		}
	}
	return nil
}

func (m *memoryStore) SaveReply(_ context.Context, _ auth.Principal, reply chat.FinishedReply) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	turn := m.latest(func(t *storedTurn) bool { return t.MessageID == reply.MessageID })
	if turn == nil {
		return false, nil
	}
	turn.reply.Status, turn.reply.Content, turn.reply.Metadata = reply.Status, reply.Content, reply.Metadata
	m.saved <- reply
	return true, nil
}

func (m *memoryStore) FindReply(_ context.Context, user auth.Principal, chatID, messageID uuid.UUID, _ int) (chat.StoredReply, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	owner, ok := m.chats[chatID]
	if !ok || owner != user.UserID {
		return chat.StoredReply{}, false, fault.NoChat()
	}
	turn := m.latest(func(t *storedTurn) bool {
		return t.ChatID == chatID && (messageID == uuid.Nil || t.MessageID == messageID)
	})
	if turn == nil {
		return chat.StoredReply{}, false, nil
	}
	return turn.reply, true, nil
}

func (m *memoryStore) ReadChat(context.Context, auth.Principal, uuid.UUID) (chat.StoredChat, error) {
	return chat.StoredChat{}, fault.NoChat()
}

func (m *memoryStore) RequestCancel(context.Context, auth.Principal, uuid.UUID) error { return nil }

func (m *memoryStore) RecordDeltas(context.Context, []chat.Delta, []uuid.UUID) error {
	return nil
}

func (m *memoryStore) CancelRequested(context.Context, []uuid.UUID) ([]uuid.UUID, error) {
	return nil, nil
}

func (m *memoryStore) RenewLease(context.Context, uuid.UUID, []uuid.UUID, time.Duration) error {
	return nil
}

func (m *memoryStore) Abandon(context.Context, []uuid.UUID) error { return nil }

func (m *memoryStore) InterruptAbandoned(context.Context) (int, error) { return 0, nil }

// addEmptyChat makes a chat without any message.
func (m *memoryStore) addEmptyChat(owner uuid.UUID) uuid.UUID {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := uuid.New()
	m.chats[id] = owner
	return id
}

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
