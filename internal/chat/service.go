// Package chat turns a message into a reply: it stores the message, builds the prompt, calls the model, streams the reply
// to its readers, and stores it. Replies can be resumed, also at another server, and cancelled.
//
// It declares the interfaces that it needs of Postgres ([Store]) and of the model ([Model]), and knows nothing of HTTP,
// SQL or River.
package chat

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"
)

// DefaultInstructions are the main model's instructions unless the operator configures others.
//
//go:embed instructions.md
var DefaultInstructions string

// ErrNothingToStream reports that no reply is running and the client has everything (HTTP 204).
var ErrNothingToStream = errors.New("nothing to stream")

// Variant is a model under the name by which clients choose it.
type Variant struct {
	Name  string
	Model string
	// Window is the model's context window in tokens. Defaults to memory.DefaultWindow.
	Window int
	// Fallback names the variant that answers when this one fails before it has said anything; "" for none.
	Fallback string
	// ReasoningSummary is whether summaries of the model's reasoning are asked for, which become parts of the reply.
	ReasoningSummary bool
	// Price of its tokens; the zero value for unknown.
	Price work.Price
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
	// ChatDefaults are the settings of new chats.
	ChatDefaults memory.ChatDefaults
	// Retrievers retrieve sections of the prompt for each message that needs them. May be empty.
	Retrievers []Retriever
	// RetrieveTimeout is how long a reply waits for them, once its message is stored, and up to four times as long while lookups are
	// slow. Later sections are left out. Defaults to 150 ms.
	RetrieveTimeout time.Duration
	// Tools are those of the server. Runner calls them.
	Tools  []ServerTool
	Runner Runner
	// Begun is called in the background when the first message of a chat is stored; nil for nothing.
	Begun func(ctx context.Context, user auth.Principal, chatID uuid.UUID) error
	// ReplyTimeout is the longest a reply may take.
	ReplyTimeout time.Duration
	// SaveTimeout bounds one try to store a message or a reply. Defaults to 5 s.
	SaveTimeout time.Duration
	// SavePatience is how long storing a reply is tried while Postgres is unavailable. Defaults to 1 min.
	SavePatience time.Duration
	// Lease is how long a generation counts as alive after its server renewed its lease, which it does three times in
	// that time. Defaults to 15 s.
	Lease time.Duration
}

// Service starts, follows and stops replies. Its methods are safe for concurrent use. Close ends it.
type Service struct {
	Config

	id        uuid.UUID // of the server, while it runs
	mu        sync.Mutex
	running   map[uuid.UUID]*generation // by the assistant message's id
	followers map[uuid.UUID]*follower   // of replies that other servers generate, by the same id
	orphans   map[uuid.UUID]time.Time   // by the same id: until when their leases last at most
	draining  bool

	starting   sync.WaitGroup      // messages that are neither refused nor in running yet
	following  sync.WaitGroup      // followers
	reads      *semaphore.Weighted // of followers
	background sync.WaitGroup      // the recorder, the leases, and lookups

	recorder   *recorder
	listening  atomic.Bool   // notifications come
	cancelHint chan struct{} // there may be new requests to cancel
	ownTokens  func() int    // of Instructions
	slowest    atomic.Int64  // nanoseconds that lookups and storing turns took lately; a turn forgets a 32nd

	lifetime    context.Context //nolint:containedctx // of followers, the recorder and the leases
	endLifetime context.CancelFunc
	grace       context.Context //nolint:containedctx // the time that a stopping server gives running replies
	endGrace    context.CancelFunc
}

// New returns a service, which runs until Close.
func New(config Config) *Service {
	config.SaveTimeout = cmp.Or(config.SaveTimeout, 5*time.Second)
	config.SavePatience = cmp.Or(config.SavePatience, time.Minute)
	config.RetrieveTimeout = cmp.Or(config.RetrieveTimeout, 150*time.Millisecond)
	config.Lease = cmp.Or(config.Lease, 15*time.Second)
	config.Variants = slices.Clone(config.Variants)
	for i := range config.Variants {
		config.Variants[i].Window = cmp.Or(config.Variants[i].Window, memory.DefaultWindow)
	}
	id := uuid.New()
	s := &Service{
		Config:     config,
		id:         id,
		running:    make(map[uuid.UUID]*generation),
		orphans:    make(map[uuid.UUID]time.Time),
		followers:  make(map[uuid.UUID]*follower),
		cancelHint: make(chan struct{}, 1),
		reads:      semaphore.NewWeighted(readsAtOnce),
		ownTokens:  sync.OnceValue(func() int { return text.Tokens(config.Instructions) }),
		recorder: &recorder{
			store: config.Store, server: id, logger: config.Logger, metrics: config.Metrics, interval: recordInterval, timeout: config.SaveTimeout,
			wake: make(chan struct{}, 1),
		},
	}
	s.lifetime, s.endLifetime = context.WithCancel(context.Background())
	s.grace, s.endGrace = context.WithCancel(context.Background())
	s.background.Go(func() { s.keepLeases(s.lifetime) })
	s.background.Go(func() { s.recorder.run(s.lifetime) })
	return s
}

// admit reports whether a message is accepted: not while the server stops. The caller then calls starting.Done when the
// message is refused or in running.
func (s *Service) admit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.starting.Add(1)
	return true
}

func (s *Service) find(messageID uuid.UUID) *generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[messageID]
}

// Close refuses new messages, lets running replies finish until ctx ends, and then stores the rest as interrupted. Their
// readers get a terminal event. Readers of replies that another server generates get none: they can continue there.
func (s *Service) Close(ctx context.Context) {
	running := s.drain()
	for _, g := range running {
		select {
		case <-g.done:
		case <-ctx.Done():
			s.endGrace()
			g.cancel(errShutdown)
		}
	}
	for _, g := range running {
		<-g.done
	}
	s.endGrace()
	s.mu.Lock()
	s.endLifetime() // under the lock, so that no follower starts after it
	s.mu.Unlock()
	s.following.Wait()
	s.background.Wait()
}

// drain refuses further messages and returns the generations of all earlier ones, also of those whose turn was still
// being stored.
func (s *Service) drain() []*generation {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.starting.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.running))
}

func (s *Service) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}
