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

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/proof/stack"
	"github.com/arcoscribe/throughline/supabase"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// secret signs the access tokens of the benchmark's users. It protects nothing.
const secret = "the secret of a benchmark, which protects nothing at all"

// addresses of one database: as the server connects, and as the cluster's superuser.
type addresses struct{ server, admin string }

type cluster struct{ *localpg.Cluster }

func (c cluster) addresses() addresses {
	return addresses{server: c.DSN("postgres", "postgres"), admin: c.DSN(localpg.Superuser, "postgres")}
}

// startCluster makes an empty project in a temporary folder, as durable as in production.
func startCluster(ctx context.Context, size sizes) (cluster, error) {
	started, err := stack.StartCluster(ctx, map[string]string{
		"shared_buffers": size.sharedBuffers, "max_wal_size": "4GB", "max_connections": "200",
	})
	if err != nil {
		return cluster{}, err
	}
	c := cluster{started}
	if err := prepare(ctx, c.addresses()); err != nil {
		return cluster{}, errors.Join(err, c.Destroy())
	}
	return c, nil
}

func prepare(ctx context.Context, at addresses) error {
	if err := localpg.Bootstrap(ctx, at.admin, supabase.BootstrapSQL); err != nil {
		return err
	}
	_, err := supabase.Migrate(ctx, at.server, quiet())
	return err
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// environment is what all benchmarks share. Close it.
type environment struct {
	sizes
	at       addresses
	pool     *pgxpool.Pool // as the server's
	admin    *pgxpool.Pool // as the superuser: sets things up, is never measured
	verifier *auth.Verifier
	progress io.Writer
	profile  string // folder for profiles, "" for none
	owners   []owner
	used     atomic.Int64
}

// owner is a user, as a request names and as the server knows them.
type owner struct {
	principal auth.Principal
	token     string
}

// newEnvironment fills a migrated database and gives the benchmarks' environment.
func newEnvironment(ctx context.Context, at addresses, size sizes, progress io.Writer) (*environment, error) {
	e := &environment{sizes: size, at: at, progress: progress}
	var err error
	if e.verifier, err = auth.New(auth.Config{JWTSecret: []byte(secret)}); err != nil {
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
		token, err := auth.Mint([]byte(secret), numbered("user", n), "", tokenLife, time.Now())
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

// tokenLife is longer than any run.
const tokenLife = 24 * time.Hour

// conversation is a chat.
type conversation struct {
	id      uuid.UUID
	message uuid.UUID // its first
	owner
}

// conversation gives the chat of a number; see fill for the kinds.
func (e *environment) conversation(kind string, n int) conversation {
	return conversation{id: numbered(kind, n), message: numbered(kind+"-"+strconv.Itoa(n), 1), owner: e.owners[n%e.users]}
}

// next gives a chat of shortTurns turns that was not used yet, as long as there are any. It counts down:
// the first ones are only ever read.
func (e *environment) next() conversation {
	return e.conversation(shortChat, e.shortChats()-1-int(e.used.Add(1))%e.shortChats())
}

// some gives a number of chats of a kind, to be used in turn.
func (e *environment) some(kind string, count int) []conversation {
	all := make([]conversation, count)
	for i := range all {
		all[i] = e.conversation(kind, i)
	}
	return all
}

// describe says what this ran on.
func describe(ctx context.Context, e *environment) ([]string, error) {
	on, err := stack.Describe(ctx, e.pool)
	return append(on, fmt.Sprintf("%d messages in the table; everything on this machine, over 127.0.0.1", e.messages)), err
}
