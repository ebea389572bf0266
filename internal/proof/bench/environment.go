package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// addresses of one database: as the server connects, and as the cluster's superuser.
type addresses struct{ server, admin string }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// environment is what all benchmarks share. Close it.
type environment struct {
	sizes
	at       addresses
	pool     *pgxpool.Pool // as the server's
	admin    *pgxpool.Pool // as the superuser: prepares, is never measured
	verifier *auth.Verifier
	progress io.Writer
	profile  string // folder for profiles, "" for none
	source   string // folder of this module
	against  string // folder of another checkout, "" for none
	owners   []owner
	used     atomic.Int64
	talks    *talks // of measureRecall; nil before it runs
}

// owner is a user.
type owner struct {
	principal auth.Principal
	token     string
}

// newEnvironment fills a migrated database.
func newEnvironment(ctx context.Context, at addresses, size sizes, progress io.Writer) (*environment, error) {
	e := &environment{sizes: size, at: at, progress: progress, source: "."}
	var err error
	if e.verifier, err = auth.New(auth.Config{JWTSecret: []byte(kit.Secret)}); err != nil {
		return nil, err
	}
	const most = 40
	if e.pool, _, err = postgres.Open(ctx, at.server, most); err != nil {
		return nil, err
	}
	if e.admin, err = pgxpool.New(ctx, at.admin); err != nil {
		e.pool.Close()
		return nil, err
	}
	began := time.Now()
	if err := errors.Join(e.signIn(ctx), e.fill(ctx)); err != nil {
		e.close()
		return nil, fmt.Errorf("fill: %w", err)
	}
	e.say("filled: %d messages in %.1f s", size.messages, time.Since(began).Seconds())
	return e, nil
}

func (e *environment) close() {
	e.pool.Close()
	e.admin.Close()
}

func (e *environment) say(format string, args ...any) {
	fmt.Fprintf(e.progress, format+"\n", args...)
}

// signIn makes the users' access tokens.
func (e *environment) signIn(ctx context.Context) error {
	e.owners = make([]owner, e.users)
	for n := range e.owners {
		token, err := kit.Token(kit.ID("user", n))
		if err != nil {
			return err
		}
		principal, err := e.verifier.Verify(ctx, "Bearer "+token)
		if err != nil {
			return err
		}
		e.owners[n] = owner{principal, token}
	}
	return nil
}

// conversation is a chat.
type conversation struct {
	id      uuid.UUID
	message uuid.UUID // its first
	owner
}

// conversation returns the chat of a number; see fill for the kinds.
func (e *environment) conversation(kind string, n int) conversation {
	return conversation{id: kit.ID(kind, n), message: kit.ID(kind+"-"+strconv.Itoa(n), 1), owner: e.owners[n%e.users]}
}

// next returns a chat of shortTurns turns that was not used yet, as long as there are any. It counts down: the
// first ones are only read.
func (e *environment) next() conversation {
	return e.conversation(shortChat, e.shortChats()-1-int(e.used.Add(1))%e.shortChats())
}

// unused returns a number of chats, each from next.
func (e *environment) unused(count int) []conversation {
	all := make([]conversation, count)
	for i := range all {
		all[i] = e.next()
	}
	return all
}

// describe returns lines about what this ran on.
func describe(ctx context.Context, e *environment) ([]string, error) {
	on, err := kit.Describe(ctx, e.pool)
	return append(on, fmt.Sprintf("%d messages in the table; everything on this machine, over 127.0.0.1", e.messages)), err
}

// sizes are how much of everything a run measures.
type sizes struct {
	// messages in the table before anything is measured; a part of them belongs to longChats chats of longTurns
	// turns each and to one that was never folded, the rest to chats of shortTurns turns.
	messages, longChats, longTurns int
	users                          int
	sharedBuffers                  string

	samples   int           // repetitions of what is timed one by one
	window    time.Duration // of what is counted per second
	microTime time.Duration // of each loop without I/O

	folds   int // chats that are due to be folded
	pickups int // jobs whose way from insert to start is timed
	turns   int // of the chat that is driven from its first to its last

	firstDeltas int // streams one after another
	stages      []stage
	cost        costing
	burst       bursting
	cuts        cutting
	slow        slowness
	stop        stopping
	record      recording
	remember    remembering
	recall      recalling
	known       knowing
	wandering   wandering
}

// withFill returns sizes with the database of other ones.
func (s sizes) withFill(of sizes) sizes {
	s.messages, s.longChats, s.longTurns, s.users, s.sharedBuffers, s.folds = of.messages, of.longChats, of.longTurns, of.users, of.sharedBuffers, of.folds
	return s
}

// stage is many streams at once: opened evenly over ramp, then measured for steady.
type stage struct {
	streams      int
	ramp, steady time.Duration
}

const (
	shortTurns = 10
	// clients is the concurrency of everything that is counted per second.
	clients = 8
	// tokensPerSecond is the pace of each stream.
	tokensPerSecond = 50
)

var (
	full = sizes{
		messages: 1_000_000, longChats: 5, longTurns: 10_000, users: 1000, sharedBuffers: "512MB",
		samples: 2000, window: 3 * time.Second, microTime: 150 * time.Millisecond,
		folds: 3000, pickups: 200, turns: 500,
		firstDeltas: 300,
		stages: []stage{
			{streams: 100, ramp: time.Second, steady: 3 * time.Second},
			{streams: 300, ramp: 1500 * time.Millisecond, steady: 3 * time.Second},
			{streams: 1000, ramp: 4 * time.Second, steady: 5 * time.Second},
		},
		cost:     costing{chats: 100, blocks: 7, words: 99, pause: 20 * time.Millisecond, ramp: 2 * time.Second},
		burst:    bursting{atOnce: 300, perSec: 100, steady: 8 * time.Second, tokens: 25},
		cuts:     cutting{clients: 200, tokens: 200, ramp: time.Second},
		slow:     slowness{readers: 50, tokens: 300, others: stage{streams: 200, ramp: time.Second, steady: 4 * time.Second}},
		stop:     stopping{clients: 100, ramp: time.Second, drain: 15 * time.Second},
		record:   recording{followed: 50, stage: stage{streams: 300, ramp: time.Second, steady: 2 * time.Second}, intervals: []int{25, 50, 100, 250}},
		remember: remembering{summaryTime: 300 * time.Millisecond, embeddingTime: 30 * time.Millisecond},
		recall: recalling{
			turns: []int{200, 2000, 20_000}, others: 50, otherTurns: 200, asked: 10, askedTurns: 2000,
			samples: 150, firstDeltas: 100, commits: 100, embedding: 5 * time.Millisecond,
		},
		known:     knowing{memories: []int{100, 1000, 5000}, samples: 150, firstDeltas: 100, embedding: 5 * time.Millisecond},
		wandering: wandering{turns: 400, stay: 5, summary: 300 * time.Millisecond},
	}
	quick = sizes{
		messages: 20_000, longChats: 1, longTurns: 1000, users: 50, sharedBuffers: "128MB",
		samples: 200, window: 500 * time.Millisecond, microTime: 50 * time.Millisecond,
		folds: 200, pickups: 20, turns: 200,
		firstDeltas: 30,
		stages:      []stage{{streams: 20, ramp: 500 * time.Millisecond, steady: time.Second}},
		cost:        costing{chats: 20, blocks: 3, words: 99, pause: 10 * time.Millisecond, ramp: 500 * time.Millisecond},
		burst:       bursting{atOnce: 50, perSec: 50, steady: time.Second, tokens: 10},
		cuts:        cutting{clients: 40, tokens: 60, ramp: 500 * time.Millisecond},
		slow:        slowness{readers: 5, tokens: 150, others: stage{streams: 20, ramp: 500 * time.Millisecond, steady: time.Second}},
		stop:        stopping{clients: 20, ramp: 500 * time.Millisecond, drain: 2 * time.Second},
		record:      recording{followed: 5, stage: stage{streams: 20, ramp: 500 * time.Millisecond, steady: time.Second}, intervals: []int{100}},
		remember:    remembering{turns: 60, summaryTime: 20 * time.Millisecond, embeddingTime: 2 * time.Millisecond},
		recall: recalling{
			turns: []int{200, 1000}, others: 5, otherTurns: 50, asked: 2, askedTurns: 200,
			samples: 50, firstDeltas: 20, commits: 50, embedding: 5 * time.Millisecond,
		},
		known:     knowing{memories: []int{50, 200, 500}, samples: 50, firstDeltas: 20, embedding: 5 * time.Millisecond},
		wandering: wandering{turns: 160, stay: 5, summary: 20 * time.Millisecond},
	}
)
