package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

const (
	users          = 8
	devicesPerUser = 2
)

// harness is a running system, with the clients that use it and the means to break it. Close it.
type harness struct {
	options
	progress io.Writer
	chance   *rand.Rand
	folder   string // logs and the program
	postgres *kit.Postgres
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
	if err = kit.Build(ctx, o.source, program); err != nil {
		return h, err
	}
	if h.model, err = startModel(ctx); err != nil {
		return h, err
	}
	if h.postgres, err = kit.StartPostgres(ctx, map[string]string{"shared_buffers": "64MB", "max_connections": "200"}); err != nil {
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
		"DATABASE_URL": h.postgres.DSN(), "SUPABASE_JWT_SECRET": kit.Secret,
		"OPENAI_API_KEY": "offline", "OPENAI_BASE_URL": h.model.BaseURL(), "LONG_TERM_MEMORY": "true",
		"EMBEDDING_MODEL": "crash", "EMBEDDING_BASE_URL": h.model.embedder + "/v1",
		"RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0",
		// Small, so that every chat folds again and again; the cap is large, because the brief lists every message.
		"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": number("threshold"), "MEMORY_K_RAW_TURNS": number("tail"),
		"MEMORY_BRIDGE_TOKEN_BUDGET": number("bridge"), "MEMORY_MIN_TAIL_TURNS": number("least"),
		"MEMORY_SUMMARY_TOKEN_CAP": "4000", "MEMORY_PROMPT_TOKEN_BUDGET": number("prompt"),
		// A pause in a chat makes an extraction due as well as six turns do.
		"MEMORY_EXTRACT_DELAY": "1s",
		// A chat has topics from its first turn on. They are packed after a few turns, and fade within seconds.
		"TOPICS": "on", "TOPIC_MAX": "2", "TOPIC_HALF_LIFE": "1s", "TOPIC_HALF_LIFE_MAX": "4s",
		"TOPIC_MAX_MESSAGES": number("topic_most"), "TOPIC_KEEP_MESSAGES": "2",
	}
}

// settle creates the users and their devices.
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
		user, token, err := kit.NewUser(ctx, conn)
		if err != nil {
			return err
		}
		for device := range devicesPerUser {
			h.talkers = append(h.talkers, &talker{
				client: client{kit.Client{HTTP: h.http, Token: token}, h.record}, user: user,
				chance: source(h.seed, 1+n*devicesPerUser+device), servers: h.crew.servers, isRead: h.model.isRead, decides: h.model.isDeciding,
			})
		}
	}
	return nil
}

// source returns one of a seed's sequences. Each talker has its own, so that its choices do not depend on the others' pace.
func source(seed uint64, sequence int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(sequence))) //nolint:gosec // repeatable by its seed
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
