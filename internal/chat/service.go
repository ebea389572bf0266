// Package chat is the life of a turn: a message comes in, the model is asked with what the memory
// holds, the reply streams to whoever reads, and is stored. It declares the interfaces it needs of
// Postgres and of the model; it knows nothing of HTTP, SQL or River.
package chat

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/google/uuid"
)

// DefaultInstructions are the main model's system instructions when the operator gives none.
//
//go:embed instructions.md
var DefaultInstructions string

// ErrNothingToStream tells that nothing is running and nothing is missing (HTTP 204).
var ErrNothingToStream = errors.New("nothing to stream")

// Variant is a name that clients choose by, and the model behind it.
type Variant struct {
	Name  string
	Model string
}

// Config of a Service. All fields are required except where noted.
type Config struct {
	Store   Store
	Model   Model
	Logger  *slog.Logger
	Metrics *metrics.Metrics
	// Variants that clients may choose; the first is the default.
	Variants []Variant
	// Instructions of the main model.
	Instructions string
	Limits       memory.Limits
	// ReplyTimeout is the longest a reply may take.
	ReplyTimeout time.Duration
	// SaveTimeout bounds the storing of a message or a reply. Defaults to 5 s.
	SaveTimeout time.Duration
	// Lease is how long a generation counts as alive after its server was last heard of. It is renewed
	// three times as often. Defaults to 15 s.
	Lease time.Duration
}

// Service starts, follows and stops replies. Its methods are safe for concurrent use. Close ends it.
type Service struct {
	Config
	models map[string]string

	mu       sync.Mutex
	running  map[uuid.UUID]*generation // by the assistant message's id
	draining bool
	starting sync.WaitGroup // of messages that are not yet refused nor in running

	life    context.Context    //nolint:containedctx // the service's own: what keeps leases and follows other servers ends with it
	stop    context.CancelFunc // of life
	stopped chan struct{}      // the lease keeper has
}

// New makes a service and starts renewing its leases.
func New(config Config) *Service {
	if config.SaveTimeout == 0 {
		config.SaveTimeout = 5 * time.Second
	}
	if config.Lease == 0 {
		config.Lease = 15 * time.Second
	}
	s := &Service{
		Config:  config,
		models:  make(map[string]string, len(config.Variants)),
		running: make(map[uuid.UUID]*generation),
		stopped: make(chan struct{}),
	}
	for _, variant := range config.Variants {
		s.models[variant.Name] = variant.Model
	}
	s.life, s.stop = context.WithCancel(context.Background())
	go s.keepLeases(s.life)
	return s
}

// Send takes a user's message and gives the reply to read, which goes on being generated whether
// somebody reads it or not. The same ClientMessageID again joins or replays the reply it started.
func (s *Service) Send(ctx context.Context, user auth.Principal, message Message) (*Reply, error) {
	arrived := time.Now()
	if err := message.normalize(); err != nil {
		return nil, err
	}
	if message.Variant == "" {
		message.Variant = s.Variants[0].Name
	}
	model, known := s.models[message.Variant]
	if !known {
		return nil, &fault.Error{Code: fault.UnknownModelVariant, Message: "There is no such model variant.",
			Details: map[string]any{"model_variants": s.variantNames()}}
	}
	if !s.enter() {
		return nil, shuttingDown()
	}
	defer s.starting.Done()
	turn := s.newTurn(message)
	started, err := s.startTurn(ctx, user, turn)
	if err != nil {
		return nil, err
	}
	switch {
	case started.Earlier != nil:
		return s.repeat(ctx, user, message, *started.Earlier)
	case started.Running != uuid.Nil:
		return nil, &fault.Error{Code: fault.GenerationInProgress, Message: "A reply is being generated for this chat.",
			Details: map[string]any{"message_id": started.Running}}
	case !started.Started:
		return nil, chatNotFound()
	}
	g := s.newGeneration(ctx, user, turn, started, message)
	g.model, g.arrived = model, arrived
	return s.launch(ctx, g)
}

// startTurn does not end with the request: a phone that loses its network at this moment must not leave
// a turn behind that is stored and that nobody generates.
func (s *Service) startTurn(ctx context.Context, user auth.Principal, turn NewTurn) (StartedTurn, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.SaveTimeout)
	defer cancel()
	return s.Store.StartTurn(ctx, user, turn)
}

func (s *Service) newTurn(message Message) NewTurn {
	turn := NewTurn{
		ChatID:          message.ChatID,
		NewChat:         message.ChatID == uuid.Nil,
		UserMessageID:   newID(),
		Content:         message.Content,
		ContentTokens:   memory.Tokens(message.Content),
		Metadata:        message.Metadata,
		ClientMessageID: message.ClientMessageID,
		MessageID:       newID(),
		Variant:         message.Variant,
		Lease:           s.Lease,
	}
	if turn.NewChat {
		turn.ChatID = newID()
		turn.Title = Title(message.Content)
	}
	return turn
}

// repeat answers a message that was sent before: with the reply it started then.
func (s *Service) repeat(ctx context.Context, user auth.Principal, message Message, earlier EarlierTurn) (*Reply, error) {
	sameChat := message.ChatID == uuid.Nil || message.ChatID == earlier.ChatID
	if earlier.Content != message.Content || !sameChat {
		return nil, fault.New(fault.IdempotencyMismatch, "This client_message_id was used for another message.")
	}
	if earlier.MessageID == uuid.Nil { // which would name the chat's latest reply below
		return nil, fault.New(fault.MessageNotFound, "The reply to this message is gone.")
	}
	cursor := Cursor{MessageID: earlier.MessageID}
	if message.Resume != nil && message.Resume.MessageID == earlier.MessageID {
		cursor = *message.Resume
	}
	return s.follow(ctx, user, earlier.ChatID, cursor)
}

// Resume gives a reply of a chat from a place on. Without a cursor it follows what is running.
func (s *Service) Resume(ctx context.Context, user auth.Principal, chatID uuid.UUID, cursor *Cursor) (*Reply, error) {
	if cursor != nil {
		return s.follow(ctx, user, chatID, *cursor)
	}
	stored, ok, err := s.Store.FindReply(ctx, user, chatID, uuid.Nil)
	if err != nil {
		return nil, err
	}
	if !ok || stored.Status != memory.StatusStreaming {
		return nil, ErrNothingToStream
	}
	return s.open(user, stored, 0), nil
}

func (s *Service) follow(ctx context.Context, user auth.Principal, chatID uuid.UUID, cursor Cursor) (*Reply, error) {
	stored, ok, err := s.Store.FindReply(ctx, user, chatID, cursor.MessageID)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fault.New(fault.MessageNotFound, "This chat has no such reply.")
	}
	if cursor.End {
		return nil, ErrNothingToStream
	}
	return s.open(user, stored, cursor.After), nil
}

// Cancel stops the reply that a chat is busy with, wherever it is generated, and tells which reply
// that was and in what state it is. A chat without any reply is fault.MessageNotFound.
func (s *Service) Cancel(ctx context.Context, user auth.Principal, chatID uuid.UUID) (StoredReply, error) {
	stored, ok, err := s.Store.FindReply(ctx, user, chatID, uuid.Nil)
	if err != nil {
		return StoredReply{}, err
	}
	if !ok {
		return StoredReply{}, fault.New(fault.MessageNotFound, "This chat has no reply to stop.")
	}
	if stored.Status != memory.StatusStreaming {
		return stored, nil
	}
	if g := s.find(stored.MessageID); g != nil {
		return stored, s.cancelHere(ctx, g, &stored)
	}
	return stored, s.Store.RequestCancel(ctx, user, stored.MessageID)
}

// cancelHere stops a generation of this process and waits until it is stored.
func (s *Service) cancelHere(ctx context.Context, g *generation, stored *StoredReply) error {
	g.cancel(errCancelled)
	select {
	case <-g.done:
		stored.Status = g.status
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close refuses new messages, lets running replies finish until ctx ends, then stores the rest as
// interrupted. Every reader gets its terminal event; those of a reply that another server generates
// are told to come again.
func (s *Service) Close(ctx context.Context) {
	running := s.drain()
	for _, g := range running {
		select {
		case <-g.done:
		case <-ctx.Done():
			g.cancel(errShutdown)
		}
	}
	for _, g := range running {
		<-g.done
	}
	s.stop()
	<-s.stopped
}

// drain lets no message in any more and gives the generations of all that came before, also of those
// whose turn was still being stored.
func (s *Service) drain() []*generation {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.starting.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.running))
}

func (s *Service) find(messageID uuid.UUID) *generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[messageID]
}

// enter lets a message in unless the server is stopping. The caller says when it has left.
func (s *Service) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.starting.Add(1)
	return true
}

func (s *Service) variantNames() []string {
	names := make([]string, len(s.Variants))
	for i, variant := range s.Variants {
		names[i] = variant.Name
	}
	return names
}

// newID makes a UUIDv7, so that rows made together lie together in the index.
func newID() uuid.UUID {
	return uuid.Must(uuid.NewV7())
}

func chatNotFound() error {
	return fault.New(fault.ChatNotFound, "There is no such chat.")
}

func shuttingDown() *fault.Error {
	return &fault.Error{Code: fault.ShuttingDown, Message: "The server is restarting. Try again in a moment.", RetryAfter: 2 * time.Second}
}
