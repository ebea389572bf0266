// Package chat is the life of a turn: a message comes in, the model is asked with what the memory
// holds, the reply streams to whoever reads, and is stored. It declares the interfaces it needs of
// Postgres and of the model; it knows nothing of HTTP, SQL or River.
package chat

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	// Window is the model's context window in tokens. Defaults to memory.DefaultWindow.
	Window int
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
	// Retrievers look up sections of the prompt for each message. May be empty.
	Retrievers []Retriever
	// RetrieveTimeout is how long a reply waits for them at most, counted from the message's arrival: what is
	// found later is left out. Defaults to 150 ms.
	RetrieveTimeout time.Duration
	// ReplyTimeout is the longest a reply may take.
	ReplyTimeout time.Duration
	// SaveTimeout bounds one try to store a message or a reply. Defaults to 5 s.
	SaveTimeout time.Duration
	// SavePatience is how long storing a reply is tried while Postgres is away. Defaults to 1 min.
	SavePatience time.Duration
	// RecordInterval is the pause between two recordings of what running replies say: the most that a
	// crash can lose. Defaults to 100 ms.
	RecordInterval time.Duration
	// Lease is how long a generation counts as alive after its server was last heard of. It is renewed
	// three times as often. Defaults to 15 s.
	Lease time.Duration
}

// Service starts, follows and stops replies. Its methods are safe for concurrent use. Close ends it.
type Service struct {
	Config

	mu        sync.Mutex
	running   map[uuid.UUID]*generation // by the assistant message's id
	followers map[uuid.UUID]*follower   // of replies that run elsewhere, likewise
	draining  bool
	starting  sync.WaitGroup // of messages that are not yet refused nor in running
	following sync.WaitGroup // of followers
	keeping   sync.WaitGroup // of what keeps leases and records

	recorder  *recorder
	listening atomic.Bool   // notifications come
	stops     chan struct{} // somebody asked for a cancellation

	life  context.Context    //nolint:containedctx // the service's own: what keeps leases, records and follows ends with it
	end   context.CancelFunc // of life
	hurry context.Context    //nolint:containedctx // ends when a stopping server has waited long enough
	hasty context.CancelFunc // of hurry
}

// New makes a service and starts renewing its leases.
func New(config Config) *Service {
	config.SaveTimeout = cmp.Or(config.SaveTimeout, 5*time.Second)
	config.SavePatience = cmp.Or(config.SavePatience, time.Minute)
	config.RecordInterval = cmp.Or(config.RecordInterval, 100*time.Millisecond)
	config.RetrieveTimeout = cmp.Or(config.RetrieveTimeout, 150*time.Millisecond)
	config.Lease = cmp.Or(config.Lease, 15*time.Second)
	config.Variants = slices.Clone(config.Variants)
	for i := range config.Variants {
		config.Variants[i].Window = cmp.Or(config.Variants[i].Window, memory.DefaultWindow)
	}
	s := &Service{
		Config:    config,
		running:   make(map[uuid.UUID]*generation),
		followers: make(map[uuid.UUID]*follower),
		stops:     make(chan struct{}, 1),
		recorder: &recorder{
			store: config.Store, logger: config.Logger, metrics: config.Metrics, interval: config.RecordInterval, timeout: config.SaveTimeout,
			wake: make(chan struct{}, 1),
		},
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.hurry, s.hasty = context.WithCancel(context.Background())
	s.keeping.Go(func() { s.keepLeases(s.life) })
	s.keeping.Go(func() { s.recorder.run(s.life) })
	return s
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

func (s *Service) find(messageID uuid.UUID) *generation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[messageID]
}
