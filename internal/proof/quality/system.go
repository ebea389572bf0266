package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// stopWithin bounds the end of a process.
const stopWithin = 30 * time.Second

// system is the built program, a server and a worker, with its Postgres and its model. Close it.
type system struct {
	options
	progress io.Writer
	chance   *rand.Rand
	folder   string
	logFile  *os.File
	postgres *kit.Postgres
	admin    *pgxpool.Pool
	model    *model
	embedder *embedder.Embedder // nil without vectors of meaning
	vectors  string             // says which there are
	http     *http.Client
	running  []*kit.Process
	base     string // of the server
}

func newSystem(ctx context.Context, o options, progress io.Writer) (s *system, err error) {
	s = &system{
		options: o, progress: progress, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		chance: rand.New(rand.NewPCG(o.seed, 1)), //nolint:gosec // repeatable by its seed
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.folder, err = os.MkdirTemp("", "throughline-memories-"); err != nil {
		return s, err
	}
	if o.log != "" {
		if s.logFile, err = os.Create(o.log); err != nil {
			return s, err
		}
	}
	if err := kit.Build(ctx, o.source, s.program()); err != nil {
		return s, err
	}
	if s.model, err = startModel(); err != nil {
		return s, err
	}
	if err := s.startEmbedder(ctx); err != nil {
		return s, err
	}
	if s.postgres, err = kit.StartPostgres(ctx, map[string]string{"shared_buffers": "128MB", "max_connections": "200", "fsync": "off"}); err != nil {
		return s, err
	}
	s.admin, err = pgxpool.New(ctx, s.postgres.AdminDSN())
	return s, err
}

func (s *system) program() string { return filepath.Join(s.folder, "throughline") }

// startEmbedder starts the keyless embedder where it is installed, unless the run is a quick one.
func (s *system) startEmbedder(ctx context.Context) (err error) {
	s.vectors = "no vectors, words alone"
	if s.quick {
		return nil
	}
	s.embedder, err = embedder.Start(ctx, s.source, slog.New(slog.DiscardHandler))
	if errors.Is(err, embedder.ErrNotInstalled) {
		fmt.Fprintln(s.progress, "without vectors: the keyless embedder is not installed, see scripts/setup")
		return nil
	}
	s.vectors = "vectors of " + embedder.Model
	return err
}

// environment is the program's. Extractions run when they are asked for.
func (s *system) environment(change map[string]string) map[string]string {
	env := map[string]string{
		"DATABASE_URL": s.postgres.DSN(), "SUPABASE_JWT_SECRET": kit.Secret, "HTTP_ADDR": "127.0.0.1:0",
		"OPENAI_API_KEY": "offline", "OPENAI_BASE_URL": s.model.BaseURL(), "EMBEDDING_MODEL": "none", "TOPICS": "off",
		"RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0", "RECALL_DEADLINE": "3s",
		"LONG_TERM_MEMORY": "true", "MEMORY_EXTRACT_DELAY": "1h",
	}
	if s.embedder != nil {
		env["EMBEDDING_MODEL"], env["EMBEDDING_BASE_URL"] = embedder.Model, s.embedder.BaseURL()
	}
	maps.Copy(env, change)
	return env
}

// start starts a server and a worker, each of which works on jobs.
func (s *system) start(ctx context.Context, change map[string]string) error {
	var log io.Writer
	if s.logFile != nil {
		log = s.logFile
	}
	for _, args := range [][]string{{"serve"}, {"work"}} {
		p, err := kit.Start(ctx, kit.Command{Program: s.program(), Args: args, Env: s.environment(change), Log: log})
		if err != nil {
			return err
		}
		s.running = append(s.running, p)
	}
	s.base = "http://" + s.running[0].Address
	return nil
}

func (s *system) stop() error {
	var errs []error
	for _, p := range s.running {
		errs = append(errs, p.Terminate(stopWithin))
	}
	s.running = nil
	return errors.Join(errs...)
}

func (s *system) close() error {
	s.http.CloseIdleConnections()
	errs := []error{s.stop()}
	if s.admin != nil {
		s.admin.Close()
	}
	if s.embedder != nil {
		s.embedder.Close()
	}
	if s.model != nil {
		errs = append(errs, s.model.Close())
	}
	if s.postgres != nil {
		errs = append(errs, s.postgres.Destroy())
	}
	if s.logFile != nil {
		errs = append(errs, s.logFile.Close())
	}
	if s.folder != "" {
		errs = append(errs, os.RemoveAll(s.folder))
	}
	return errors.Join(errs...)
}

// rows returns what a query finds, each row as JSON.
func rows[T any](ctx context.Context, s *system, sql string, args ...any) ([]T, error) {
	found, _ := s.admin.Query(ctx, sql, args...) // CollectRows has the error
	return pgx.CollectRows(found, pgx.RowToStructByNameLax[T])
}

// number returns a query's only value.
func (s *system) number(ctx context.Context, sql string, args ...any) (n int, err error) {
	return n, s.admin.QueryRow(ctx, sql, args...).Scan(&n)
}

// patience is how long something may take that nothing is measured of.
const patience = time.Minute

// until waits until something holds.
func until(ctx context.Context, what string, holds func() (bool, error)) error {
	for began := time.Now(); ; {
		ok, err := holds()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		case ok:
			return nil
		case time.Since(began) > patience:
			return fmt.Errorf("in vain: %s", what)
		}
		if err := kit.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// settle waits until no job is at work or due.
func (s *system) settle(ctx context.Context) error {
	return until(ctx, "no job is due", func() (bool, error) {
		n, err := s.number(ctx, `select count(*) from river.river_job where kind not like 'sweep%'
			and (state in ('available', 'running') or state in ('retryable', 'scheduled') and scheduled_at < now() + interval '3 s')`)
		return n == 0, err
	})
}

// startJob enqueues a job without arguments, instead of waiting for its hour.
func (s *system) startJob(ctx context.Context, kind string) error {
	_, err := s.admin.Exec(ctx, `insert into river.river_job (args, kind, max_attempts, priority, queue, state) values ('{}', $1, 5, 1, 'maintenance', `+
		`'available')`, kind)
	return err
}
