package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// How many of each process there are.
const (
	replicas = 2
	workers  = 2
)

// stopWithin bounds the end of a process.
const stopWithin = time.Minute

// system is everything that runs, each part a process of its own. Close it.
type system struct {
	postgres *kit.Postgres
	admin    *pgxpool.Pool // ours, as the superuser
	model    *kit.Helper
	parts    []part // replicas, then workers
	dir      string // of the program, its temporary files and its logs
	logs     []*processLog
}

// part is one replica or worker.
type part struct {
	name string
	*kit.Process
}

// startSystem builds the program and starts it. progress is told each step.
func startSystem(ctx context.Context, p plan, progress io.Writer) (s *system, err error) {
	s = &system{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
			s = nil
		}
	}()
	if s.dir, err = os.MkdirTemp("", "throughline-load-"); err != nil {
		return s, err
	}
	fmt.Fprintln(progress, "building the program, starting Postgres and the model")
	program := filepath.Join(s.dir, "throughline")
	if err := kit.Build(ctx, p.source, program); err != nil {
		return s, err
	}
	s.postgres, err = kit.StartPostgres(ctx, map[string]string{
		"shared_buffers": "256MB", "max_wal_size": "2GB", "max_connections": "250", "track_io_timing": "on",
	})
	if err != nil {
		return s, err
	}
	if s.admin, err = pgxpool.New(ctx, s.postgres.AdminDSN()); err != nil {
		return s, err
	}
	if s.model, err = kit.StartRole(ctx, roleModel); err != nil {
		return s, err
	}
	return s, s.startParts(ctx, program, p)
}

func (s *system) startParts(ctx context.Context, program string, p plan) error {
	if err := os.Mkdir(s.temporary(), 0o700); err != nil {
		return err
	}
	dsn, err := url.Parse(s.postgres.DSN())
	if err != nil {
		return err
	}
	query := dsn.Query()
	query.Set("pool_max_conn_idle_time", p.idle.String())
	query.Set("pool_health_check_period", (p.idle / 5).String())
	dsn.RawQuery = query.Encode()
	env := map[string]string{
		"DATABASE_URL": dsn.String(), "HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": kit.Secret,
		"OPENAI_API_KEY": "offline", "OPENAI_BASE_URL": s.model.Address, "EMBEDDING_MODEL": "none",
		"TOPICS": "off", "LONG_TERM_MEMORY": "false", "TMPDIR": s.temporary(),
	}
	maps.Copy(env, p.env)
	for n := range replicas + workers {
		name, args := partName(n), []string{"serve", "--no-workers"}
		if n >= replicas {
			args = []string{"work"}
		}
		file, err := os.Create(filepath.Join(p.out, strings.ReplaceAll(name, " ", "-")+".log"))
		if err != nil {
			return err
		}
		log := &processLog{kept: file}
		s.logs = append(s.logs, log)
		process, err := kit.Start(ctx, kit.Command{Program: program, Args: args, Env: env, Log: log})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.parts = append(s.parts, part{name, process})
	}
	return nil
}

// addresses of the replicas.
func (s *system) addresses() (all []string) {
	for _, p := range s.parts[:replicas] {
		all = append(all, "http://"+p.Address)
	}
	return all
}

// temporary is the program's folder for temporary files.
func (s *system) temporary() string { return filepath.Join(s.dir, "tmp") }

// partName returns the name of the n-th replica or worker.
func partName(n int) string {
	if n < replicas {
		return fmt.Sprintf("replica %d", n+1)
	}
	return fmt.Sprintf("worker %d", n-replicas+1)
}

// logged counts the errors in all logs, and returns one of them.
func (s *system) logged() (errors int64, first string) {
	for _, l := range s.logs {
		errors += l.errors.Load()
		if line := l.first.Load(); line != nil && first == "" {
			first = *line
		}
	}
	return errors, first
}

// stop ends replicas and workers as an operator does. It may be called more than once.
func (s *system) stop() error {
	var errs []error
	for _, p := range s.parts {
		if err := p.Terminate(stopWithin); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	s.parts = nil
	return errors.Join(errs...)
}

func (s *system) close() error {
	errs := []error{s.stop()}
	for _, log := range s.logs {
		errs = append(errs, log.kept.Close())
	}
	if s.model != nil {
		errs = append(errs, s.model.Stop())
	}
	if s.admin != nil {
		s.admin.Close()
	}
	if s.postgres != nil {
		errs = append(errs, s.postgres.Destroy())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}

// processLog keeps the warnings and errors of a process, and counts the errors. All lines would be gigabytes.
type processLog struct {
	kept   io.WriteCloser
	errors atomic.Int64
	first  atomic.Pointer[string] // of the errors
}

// Write takes one line at a time.
func (l *processLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(`"level":"INFO"`)) {
		return len(line), nil
	}
	if bytes.Contains(line, []byte(`"level":"ERROR"`)) || !bytes.HasPrefix(line, []byte("{")) {
		l.errors.Add(1) // what is no JSON is a crash
		first := string(bytes.TrimSpace(line))
		l.first.CompareAndSwap(nil, &first)
	}
	return l.kept.Write(line)
}
