package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/proof/stack"
)

// secret signs the access tokens of the load's users. It protects nothing.
const secret = "the secret of a load test, which protects nothing at all"

// How many of each process there are.
const (
	replicas = 2
	workers  = 2
)

// stopWithin bounds the end of a process.
const stopWithin = time.Minute

// system is everything that runs, each part a process of its own. Close it.
type system struct {
	postgres *stack.Postgres
	admin    *pgxpool.Pool // ours, as the superuser
	model    *modelProcess
	parts    []part // replicas, then workers
	dir      string // of the program, its temporary files and its logs
	logs     []*log
}

// part is one replica or worker.
type part struct {
	name string
	*stack.Process
}

// startSystem builds the program and starts it. progress hears of each step.
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
	if err := stack.Build(ctx, p.source, program); err != nil {
		return s, err
	}
	s.postgres, err = stack.StartPostgres(ctx, map[string]string{
		"shared_buffers": "256MB", "max_wal_size": "2GB", "max_connections": "250", "track_io_timing": "on",
	})
	if err != nil {
		return s, err
	}
	if s.admin, err = pgxpool.New(ctx, s.postgres.AdminDSN()); err != nil {
		return s, err
	}
	if s.model, err = startModel(ctx); err != nil {
		return s, err
	}
	return s, s.startParts(ctx, program, p)
}

func (s *system) startParts(ctx context.Context, program string, p plan) error {
	temporary := filepath.Join(s.dir, "tmp")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		return err
	}
	dsn := s.postgres.DSN()
	separator := "?"
	if strings.Contains(dsn, "?") {
		separator = "&"
	}
	env := map[string]string{
		"DATABASE_URL": fmt.Sprintf("%s%spool_max_conn_idle_time=%s&pool_health_check_period=%s", dsn, separator, p.idle, p.idle/5), "HTTP_ADDR": "127.0.0.1:0", "METRICS_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": secret,
		"OPENAI_API_KEY": "offline", "OPENAI_BASE_URL": s.model.base, "TMPDIR": temporary,
	}
	maps.Copy(env, p.env)
	for n := range replicas + workers {
		name, args := fmt.Sprintf("replica %d", n+1), []string{"serve", "--no-workers"}
		if n >= replicas {
			name, args = fmt.Sprintf("worker %d", n-replicas+1), []string{"work"}
		}
		file, err := os.Create(filepath.Join(p.out, strings.ReplaceAll(name, " ", "-")+".log"))
		if err != nil {
			return err
		}
		said := &log{kept: file}
		s.logs = append(s.logs, said)
		process, err := stack.Start(ctx, stack.Command{Program: program, Args: args, Env: env, Log: said})
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

// temporaryFiles counts what the program left in its folder for temporary files.
func (s *system) temporaryFiles() (int, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "tmp"))
	return len(entries), err
}

// logged counts the errors in all logs.
func (s *system) logged() (errors int64) {
	for _, l := range s.logs {
		errors += l.errors.Load()
	}
	return errors
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
		errs = append(errs, log.Close())
	}
	if s.model != nil {
		errs = append(errs, s.model.stop())
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

// modelProcess is the model at work. It ends with us, because its stdin does.
type modelProcess struct {
	command *exec.Cmd
	stdin   io.Closer
	base    string // URL
}

func startModel(ctx context.Context) (*modelProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, self, roleModel) //nolint:gosec // this very program
	command.Stderr, command.WaitDelay = os.Stderr, stopWithin
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	m := &modelProcess{command: command, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the model did not start: %w", err), m.stop())
	}
	m.base = strings.TrimSpace(line)
	return m, nil
}

func (m *modelProcess) pid() int { return m.command.Process.Pid }

func (m *modelProcess) stop() error {
	_ = m.stdin.Close() // it may be gone already
	kill := time.AfterFunc(stopWithin, func() { _ = m.command.Process.Kill() })
	defer kill.Stop()
	return m.command.Wait()
}
