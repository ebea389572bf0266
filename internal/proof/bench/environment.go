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
	program  string
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
	e.program = filepath.Join(e.folder, "throughline")
	if err := kit.Build(ctx, e.source, e.program); err != nil {
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

// percentiles are those of most rows.
var percentiles = []struct {
	name string
	q    float64
}{{"p50", .5}, {"p99", .99}}

// sizes are how much of everything a run measures.
type sizes struct {
	messages int // in the table before anything is measured, in chats of shortTurns turns
	users    int
	folds    int // chats that are due to be folded
	pickups  int // jobs whose way from insert to start is timed
	turns    int // of the chat that is driven from its first to its last

	firstDeltas int // streams one after another
	stages      []stage
	cost        costing
	burst       bursting
	cuts        cutting
	stop        stopping
	record      recording
	recall      recalling
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
	messages: 300_000, users: 1000, folds: 600, pickups: 100, turns: 500,
	firstDeltas: 300,
	stages: []stage{
		{streams: 100, ramp: time.Second, steady: 3 * time.Second},
		{streams: 300, ramp: 1500 * time.Millisecond, steady: 3 * time.Second},
		{streams: 1000, ramp: 4 * time.Second, steady: 5 * time.Second},
	},
	cost:   costing{chats: 12, turns: 36, words: 99, pause: 10 * time.Millisecond},
	burst:  bursting{atOnce: 300, perSec: 100, steady: 8 * time.Second, tokens: 25},
	cuts:   cutting{clients: 200, tokens: 200, ramp: time.Second},
	stop:   stopping{clients: 100, ramp: time.Second, drain: 15 * time.Second},
	record: recording{followed: 50, stage: stage{streams: 300, ramp: time.Second, steady: 3 * time.Second}},
	recall: recalling{turns: []int{2000, 20_000}, others: 20, otherTurns: 200, samples: 150, firstDeltas: 100, embedding: 15 * time.Millisecond},
}
