package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/proof/stack"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	users          = 8
	devicesPerUser = 2
	// secret signs the users' access tokens. It protects nothing.
	secret = "the secret of a crash harness, which protects nothing"
	// tokenLife is longer than any run.
	tokenLife = 24 * time.Hour
)

// harness is a running system and those who use and break it. Close it.
type harness struct {
	options
	progress io.Writer
	chance   *rand.Rand
	folder   string // logs and the program
	postgres *stack.Postgres
	model    *model
	crew     *crew
	record   *record
	talkers  []*talker
	http     *http.Client
	checks   []check
	figures  figures
}

// newHarness builds the program and starts everything.
func newHarness(ctx context.Context, o options, progress io.Writer) (h *harness, err error) {
	h = &harness{options: o, progress: progress, chance: source(o.seed, 0), record: newRecord(), http: &http.Client{Transport: &http.Transport{}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close(false))
		}
	}()
	if h.checks, err = parseChecks(checksSQL); err != nil {
		return h, err
	}
	if h.folder, err = os.MkdirTemp("", "throughline-crash-"); err != nil {
		return h, err
	}
	program := filepath.Join(h.folder, "throughline")
	var flags []string
	if o.race {
		flags = []string{"-race"}
	}
	if err = stack.Build(ctx, o.source, program, flags...); err != nil {
		return h, err
	}
	if h.model, err = startModel(); err != nil {
		return h, err
	}
	if h.postgres, err = stack.StartPostgres(ctx, map[string]string{"shared_buffers": "64MB", "max_connections": "200"}); err != nil {
		return h, err
	}
	if h.crew, err = newCrew(program, h.folder, h.environment()); err != nil {
		return h, err
	}
	return h, errors.Join(h.settle(ctx), h.crew.start(ctx))
}

func (h *harness) environment() map[string]string {
	number := func(name string) string { return strconv.Itoa(limits[name].(int)) }
	return map[string]string{
		"DATABASE_URL": h.postgres.DSN(), "SUPABASE_JWT_SECRET": secret,
		"OPENAI_API_KEY": "offline", "OPENAI_BASE_URL": h.model.BaseURL(),
		"RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0",
		// Small, so that every chat folds again and again; the cap is large, because the brief lists every message.
		"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": number("threshold"), "MEMORY_K_RAW_TURNS": number("tail"),
		"MEMORY_BRIDGE_TOKEN_BUDGET": number("bridge"), "MEMORY_MIN_TAIL_TURNS": number("least"),
		"MEMORY_SUMMARY_TOKEN_CAP": "4000", "MEMORY_PROMPT_TOKEN_BUDGET": "8000",
	}
}

// settle makes the users and their devices.
func (h *harness) settle(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, h.postgres.AdminDSN())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, placesTable); err != nil {
		return err
	}
	for n := range users {
		user := uuid.New()
		if _, err := conn.Exec(ctx, `insert into auth.users (id, aud, role, email, created_at, updated_at)
			values ($1, 'authenticated', 'authenticated', $2, now(), now())`, user, user.String()+"@example.com"); err != nil {
			return fmt.Errorf("make a user: %w", err)
		}
		token, err := auth.Mint([]byte(secret), user, "", tokenLife, time.Now())
		if err != nil {
			return err
		}
		for device := range devicesPerUser {
			h.talkers = append(h.talkers, &talker{
				client: client{http: h.http, record: h.record, token: token}, user: user,
				chance: source(h.seed, 1+n*devicesPerUser+device), servers: h.crew.servers,
			})
		}
	}
	return nil
}

// source gives one of the sequences of a seed, so that who does what does not depend on the others' pace.
func source(seed uint64, sequence int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(sequence))) //nolint:gosec // chance that can be had again
}

// close ends everything. With keep, the logs and the stopped database stay where they are.
func (h *harness) close(keep bool) error {
	h.http.CloseIdleConnections()
	var errs []error
	if h.crew != nil {
		errs = append(errs, h.crew.close())
	}
	if h.model != nil {
		errs = append(errs, h.model.Close())
	}
	if h.postgres != nil && keep {
		errs = append(errs, h.postgres.Stop())
	} else if h.postgres != nil {
		errs = append(errs, h.postgres.Destroy())
	}
	if h.folder != "" && !keep {
		errs = append(errs, os.RemoveAll(h.folder))
	}
	return errors.Join(errs...)
}
