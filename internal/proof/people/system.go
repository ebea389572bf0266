// Package people is people who talk through the built program, and the system that they use. The commands that break and
// load the program, and the ones that look at its memories, are people plus checks:
//
//	system, err := people.Start(ctx, people.Plan{Source: ".", Commands: []string{"serve", "work"}, Script: talk.Answer}, progress)
//	defer system.Close(false)
//	err = system.Run(ctx)                                         // the processes, as often as they were killed
//	person, err := system.NewPerson(ctx, record, habits, seed)    // Live talks as the habits say; Call sends one request
//
// A System is a durable Postgres, the processes of the program, a strict Model with a script, and vectors. A Talk is what
// all say, by the number of the message, and so what the database must hold; a Record is what they sent and heard, which
// checks.sql compares the database with; Gauges are what they count and time.
package people

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/dev/embedder"
	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// Plan is what a system is made of.
type Plan struct {
	Source   string            // folder of the module
	Build    []string          // more of the environment in which it is built
	Logs     string            // folder of the processes' logs; "" for one that goes with the system
	Commands []string          // the processes: serve, serve --no-workers, work
	Settings map[string]string // of the program, beside what it cannot run without
	Postgres map[string]string // of the cluster
	Script   Script            // of the model; nil for the model's own answers
	Subjects *Subjects         // makes the vectors; nil for the keyless embedder
	NoVector bool              // there are none
	Tools    bool              // the servers have tools
	// Idle is how long the program's connections to Postgres stay open without work; 0 for its default of half an hour,
	// with which connections that leak cannot be told from the others.
	Idle time.Duration
	// Warnings keeps only warnings and errors of the logs: for runs of hours.
	Warnings bool
}

// System is all that runs. Close it.
type System struct {
	Postgres *kit.Postgres
	Admin    *pgxpool.Pool // as the superuser
	Model    *Model
	Parts    []*Part           // in the order of the commands
	Settings map[string]string // the ones that Run starts with
	HTTP     *http.Client
	Kills    int
	Tools    *Tools // nil for none

	// Embedder is the keyless one; nil where another one makes the vectors, or none.
	Embedder *embedder.Embedder

	plan   Plan
	folder string

	mu      sync.Mutex
	servers []string
}

// Part is a process of the program. One goroutine uses it at a time.
type Part struct {
	*kit.Process // nil while it does not run
	Name         string
	args         []string
	settings     map[string]string // beside the system's
	log          *processLog
	address      string // where it listened last
}

// Set changes a setting of the process, for its next start.
func (p *Part) Set(name, value string) {
	p.settings = map[string]string{name: value}
}

// Serves reports whether it is a server.
func (p *Part) Serves() bool { return p.args[0] == "serve" }

// URL is the address of a server.
func (p *Part) URL() string { return "http://" + p.address }

// Start builds the program and starts everything but its processes.
func Start(ctx context.Context, plan Plan, progress io.Writer) (s *System, err error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 4096, 4096 // one for each person at most times
	s = &System{plan: plan, HTTP: &http.Client{Transport: transport}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(false))
		}
	}()
	defer kit.Catch(&err)
	s.folder = kit.Must(os.MkdirTemp("", "throughline-people-"))
	kit.Check(os.Mkdir(s.temporary(), 0o700))
	fmt.Fprintln(progress, "building the program, starting Postgres and the models")
	kit.Check(kit.Build(ctx, plan.Source, s.program(), plan.Build...))
	s.Model = kit.Must(StartModel(plan.Script, plan.Subjects))
	s.Postgres = kit.Must(kit.StartPostgres(ctx, plan.Postgres, s.program()))
	s.Admin = kit.Must(pgxpool.New(ctx, s.Postgres.AdminDSN()))
	kit.Must(s.Admin.Exec(ctx, unlimited))
	s.set(ctx)
	for _, command := range plan.Commands {
		s.describe(command, nil)
	}
	return s, nil
}

// unlimited is the app's plan for these people: in an hour they say more than the default allows a user in a day.
const unlimited = `
create or replace function throughline.allow_turn(user_id uuid, purpose text, model_variant text)
  returns table (verdict text, reason text, resets_at timestamptz, variant text)
language sql stable security invoker as $$ select 'allow', null, null::timestamptz, null $$`

func (s *System) set(ctx context.Context) {
	idle := ""
	if s.plan.Idle > 0 {
		idle = fmt.Sprintf("&pool_max_conn_idle_time=%s&pool_health_check_period=%s", s.plan.Idle, s.plan.Idle/5)
	}
	s.Settings = map[string]string{
		"DATABASE_URL": s.Postgres.ServerDSN() + idle, "DATABASE_DIRECT_URL": s.Postgres.DSN() + idle,
		"SUPABASE_JWT_SECRET": kit.Secret, "TMPDIR": s.temporary(),
		"OPENAI_API_KEY": "offline", "OPENAI_BASE_URL": s.Model.BaseURL(),
	}
	switch {
	case s.plan.NoVector:
		s.Settings["EMBEDDING_MODEL"] = "none"
	case s.plan.Subjects != nil:
		s.Settings["EMBEDDING_MODEL"] = s.plan.Subjects.Model()
	default:
		s.Embedder = kit.Must(embedder.Start(ctx, s.plan.Source, slog.New(slog.DiscardHandler)))
		s.Settings["EMBEDDING_MODEL"], s.Settings["EMBEDDING_BASE_URL"] = embedder.Model, s.Embedder.BaseURL()
	}
	if s.plan.Tools {
		s.Settings["TOOLS_FILE"] = filepath.Join(s.folder, "tools.json")
		s.Tools = kit.Must(startTools(s.Settings["TOOLS_FILE"]))
	}
	maps.Copy(s.Settings, s.plan.Settings)
}

// describe names a process, server 1, server 2, worker 1, and opens its log.
func (s *System) describe(command string, settings map[string]string) *Part {
	p := &Part{args: strings.Fields(command), settings: settings}
	kind, number := map[bool]string{true: "server", false: "worker"}[p.Serves()], 1
	for _, other := range s.Parts {
		if other.Serves() == p.Serves() {
			number++
		}
	}
	p.Name = fmt.Sprintf("%s %d", kind, number)
	file := kit.Must(os.Create(filepath.Join(s.Logs(), strings.ReplaceAll(p.Name, " ", "-")+".log")))
	p.log = &processLog{kept: file, warnings: s.plan.Warnings}
	s.Parts = append(s.Parts, p)
	return p
}

// Add starts one more process, with settings beside those of the system.
func (s *System) Add(ctx context.Context, command string, settings map[string]string) (p *Part, err error) {
	defer kit.Catch(&err)
	p = s.describe(command, settings)
	return p, s.start(ctx, p)
}

func (s *System) program() string   { return filepath.Join(s.folder, "throughline") }
func (s *System) temporary() string { return filepath.Join(s.folder, "tmp") }

// Logs is the folder of the processes' logs.
func (s *System) Logs() string {
	if s.plan.Logs != "" {
		return s.plan.Logs
	}
	return s.folder
}

// TemporaryFiles counts what the program has left in its folder for temporary files.
func (s *System) TemporaryFiles() (int, error) {
	files, err := os.ReadDir(s.temporary())
	return len(files), err
}

// Run starts those processes that do not run, all at once.
func (s *System) Run(ctx context.Context) error {
	var all errgroup.Group
	for _, p := range s.Parts {
		if p.Process == nil {
			all.Go(func() error { return s.start(ctx, p) })
		}
	}
	err := all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = s.servers[:0:0]
	for _, p := range s.Parts {
		if p.Serves() {
			s.servers = append(s.servers, p.URL())
		}
	}
	return err
}

func (s *System) start(ctx context.Context, p *Part) (err error) {
	command := kit.Command{Program: s.program(), Args: p.args, Env: maps.Clone(s.Settings), Log: p.log}
	maps.Copy(command.Env, p.settings)
	if p.address != "" {
		command.Env["HTTP_ADDR"] = p.address
		if p.Process, err = kit.Start(ctx, command); err == nil {
			return nil
		}
	}
	command.Env["HTTP_ADDR"] = "127.0.0.1:0" // for the first time, or because another process has taken the port
	if p.Process, err = kit.Start(ctx, command); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.address = p.Address
	return nil
}

// Servers returns the base URLs of the API, also of servers that are dead at this moment.
func (s *System) Servers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.servers
}

// Kill ends processes as a crash would.
func (s *System) Kill(victims ...*Part) error {
	var errs []error
	for _, p := range victims {
		if p.Process != nil {
			errs = append(errs, p.Process.Kill())
			p.Process = nil
			s.Kills++
		}
	}
	return errors.Join(errs...)
}

// Ended returns the names of the processes that ended without being killed.
func (s *System) Ended() (names []string) {
	for _, p := range s.Parts {
		if p.Process != nil && p.Process.Ended() {
			names = append(names, p.Name)
		}
	}
	return names
}

// Stop ends all processes as an operator does. It may be called more than once.
func (s *System) Stop() error {
	var errs []error
	for _, p := range s.Parts {
		if p.Process == nil {
			continue
		}
		if err := p.Terminate(time.Minute); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Name, err))
		}
		p.Process = nil
	}
	return errors.Join(errs...)
}

// Logged counts the errors in all logs, and returns one of them.
func (s *System) Logged() (errors int64, first string) {
	for _, p := range s.Parts {
		errors += p.log.errors.Load()
		if line := p.log.first.Load(); line != nil && first == "" {
			first = *line
		}
	}
	return errors, first
}

// Close ends everything. With keep, the logs and the stopped database stay where they are.
func (s *System) Close(keep bool) error {
	s.HTTP.CloseIdleConnections()
	errs := []error{s.Kill(s.Parts...)}
	for _, p := range s.Parts {
		errs = append(errs, p.log.kept.Close())
	}
	if s.Embedder != nil {
		s.Embedder.Close()
	}
	if s.Model != nil {
		errs = append(errs, s.Model.Close())
	}
	if s.Tools != nil {
		errs = append(errs, s.Tools.stop())
	}
	if s.Admin != nil {
		s.Admin.Close()
	}
	if s.Postgres != nil && keep {
		errs = append(errs, s.Postgres.Stop())
	} else if s.Postgres != nil {
		errs = append(errs, s.Postgres.Destroy())
	}
	if s.folder != "" && !keep {
		errs = append(errs, os.RemoveAll(s.folder))
	}
	return errors.Join(errs...)
}

type processLog struct {
	kept     io.WriteCloser
	warnings bool // only those, and errors: all lines of an hour would be gigabytes
	errors   atomic.Int64
	first    atomic.Pointer[string] // of the errors
}

// Write takes one line at a time.
func (l *processLog) Write(line []byte) (int, error) {
	if l.warnings && bytes.Contains(line, []byte(`"level":"INFO"`)) {
		return len(line), nil
	}
	if bytes.Contains(line, []byte(`"level":"ERROR"`)) || !bytes.HasPrefix(line, []byte("{")) {
		l.errors.Add(1) // a line that is no JSON is a crash
		first := string(bytes.TrimSpace(line))
		l.first.CompareAndSwap(nil, &first)
	}
	return l.kept.Write(line)
}
