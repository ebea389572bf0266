package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// environment is what all parts share: a filled database, its users, and the built program. Close it.
type environment struct {
	sizes
	database string        // as the server connects
	pool     *pgxpool.Pool // the same
	admin    *pgxpool.Pool // as the superuser: prepares, is never measured
	source   string        // folder of this module
	against  string        // folder of another checkout, "" for none
	folder   string        // of the program, and other files
	build    string        // the program
	progress io.Writer
	owners   []owner
	used     atomic.Int64 // chats
	asked    atomic.Int64 // questions
	talks    []talk       // of measureRecall; nil before it runs
}

// owner is a user, with an access token.
type owner struct {
	user  uuid.UUID
	token string
}

// newEnvironment builds the program of the module in a folder, for a migrated database.
func newEnvironment(ctx context.Context, server, admin, source string, size sizes, progress io.Writer) (e *environment, err error) {
	e = &environment{sizes: size, database: server, source: source, progress: progress}
	if e.folder, err = os.MkdirTemp("", "throughline-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if e.source, err = filepath.Abs(source); err != nil {
		return nil, err
	}
	e.build = filepath.Join(e.folder, "throughline")
	if err := kit.Build(ctx, e.source, e.build); err != nil {
		return nil, err
	}
	const most = 20
	if e.pool, _, err = postgres.Open(ctx, server, most); err != nil {
		return nil, err
	}
	if e.admin, err = pgxpool.New(ctx, admin); err != nil {
		return nil, err
	}
	return e, e.signIn()
}

func (e *environment) close() error {
	for _, pool := range []*pgxpool.Pool{e.pool, e.admin} {
		if pool != nil {
			pool.Close()
		}
	}
	return os.RemoveAll(e.folder)
}

func (e *environment) say(format string, args ...any) {
	fmt.Fprintf(e.progress, format+"\n", args...)
}

// signIn makes the users' access tokens.
func (e *environment) signIn() error {
	for n := range e.users {
		token, err := kit.Token(kit.ID("user", n))
		if err != nil {
			return err
		}
		e.owners = append(e.owners, owner{kit.ID("user", n), token})
	}
	return nil
}

// conversation is a chat.
type conversation struct {
	id uuid.UUID
	owner
}

// conversation returns the chat of a number; see fill for the kinds.
func (e *environment) conversation(kind string, n int) conversation {
	return conversation{id: kit.ID(kind, n), owner: e.owners[n%e.users]}
}

// unused returns a number of chats of shortTurns turns that were not used yet, as long as there are any.
func (e *environment) unused(count int) []conversation {
	all := make([]conversation, count)
	for i := range all {
		all[i] = e.conversation(shortChat, int(e.used.Add(1))%e.shortChats())
	}
	return all
}

// settle forgets the jobs that earlier parts left, and what they made due.
func (e *environment) settle(ctx context.Context) error {
	return kit.Exec(ctx, e.admin, "truncate river.river_job",
		"update public.conversation_briefs set extract_due_at = null, extracted_seq = seen.seq from (select id, last_seq as seq from public.chats) seen "+
			"where extract_due_at is not null and seen.id = chat_id")
}

// evenly runs work a number of times at once, started evenly over the ramp. The first failure ends the others.
func evenly(ctx context.Context, count int, ramp time.Duration, work func(ctx context.Context, i int) error) error {
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range count {
		group.Go(func() error {
			if err := kit.SleepUntil(ctx, began.Add(ramp*time.Duration(i)/time.Duration(count))); err != nil {
				return err
			}
			return work(ctx, i)
		})
	}
	return group.Wait()
}

// sizes are how much of everything a run measures.
type sizes struct {
	messages int // in the table before anything is measured, in chats of shortTurns turns
	users    int

	// stream, and those that stand beside it
	firstDeltas int // streams one after another
	stages      []stage

	// burst: replies of burstTokens that begin in the same moment on a server that has just started, and then in each second
	atOnce, perSecond, burstTokens int
	burst                          time.Duration

	// cost and memory: chats and turns of each, words of each reply, and the model's pause before each word
	costChats, costTurns, words int
	pause                       time.Duration
	turns                       int // of the chat that memory drives from its first to its last

	// cuts and stop: clients, tokens of each reply that is cut, and how long replies run on after the signal, of the
	// server's 15 s at most
	cutClients, cutTokens, stopClients int
	ramp, drain                        time.Duration

	// record: the streams, and how many are followed, each by one reader on another replica
	record   stage
	followed int

	// fold: chats that are due, and jobs whose way from insert to start is timed
	folds, pickups int

	// recall: turns of the chats that are searched, of which questions are sent in the first; chats beside them and turns of
	// each; questions of each kind, and how long the vector of one takes
	recallTurns            []int
	otherChats, otherTurns int
	questions              int
	embedding              time.Duration
}

// stage is many streams at once: opened evenly over ramp, then measured for steady.
type stage struct {
	streams      int
	ramp, steady time.Duration
}

const (
	shortTurns = 10
	// tokensPerSecond is the pace of each stream.
	tokensPerSecond = 50
)

var full = sizes{
	messages: 300_000, users: 1000,
	firstDeltas: 300,
	stages: []stage{
		{streams: 100, ramp: time.Second, steady: 3 * time.Second},
		{streams: 300, ramp: 1500 * time.Millisecond, steady: 3 * time.Second},
		{streams: 1000, ramp: 4 * time.Second, steady: 5 * time.Second},
	},
	atOnce: 300, perSecond: 100, burst: 8 * time.Second, burstTokens: 25,
	costChats: 12, costTurns: 36, words: 99, pause: 10 * time.Millisecond, turns: 500,
	cutClients: 200, cutTokens: 200, stopClients: 100, ramp: time.Second, drain: 15 * time.Second,
	record: stage{streams: 300, ramp: time.Second, steady: 3 * time.Second}, followed: 50,
	folds: 600, pickups: 100,
	recallTurns: []int{2000, 20_000}, otherChats: 20, otherTurns: 200, questions: 100, embedding: 15 * time.Millisecond,
}
