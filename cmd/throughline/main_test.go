package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// actAsProgram makes the test's own binary the program, so that tests start real processes of the very
// code they were built from, with the race detector in them.
const actAsProgram = "THROUGHLINE_TEST_ACT_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(actAsProgram) != "" {
		main()
		return
	}
	// These tests mostly wait for processes, so more of them run at once than there are cores.
	_ = flag.Set("test.parallel", "6") // -parallel on the command line still decides
	testkit.Main(m)
}

// patience is how long a test waits for what must come. It says nothing about speed.
const patience = 90 * time.Second

// env is what a process finds in its environment.
type env map[string]string

// program is the program with arguments, in an empty folder, with this environment and no other.
func program(t *testing.T, e env, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...) // this very program
	cmd.Dir = t.TempDir()
	cmd.Env = []string{actAsProgram + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir}
	for name, value := range e {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// finish runs the program to its end.
func finish(t *testing.T, e env, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := program(t, e, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code says it
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// process is a running program.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	base string // of its API
	logs *logBuffer
	wait func() int // for its end, giving the exit code
}

// start runs `serve` or `work` and returns when it does.
func start(t *testing.T, e env, args ...string) *process {
	t.Helper()
	cmd := program(t, e, args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: cmd, logs: &logBuffer{}}
	running := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.follow(stderr, running)
	}()
	p.wait = sync.OnceValue(func() int {
		<-read
		_ = cmd.Wait() // the exit code says it
		return cmd.ProcessState.ExitCode()
	})
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // usually gone already
		p.wait()
	})
	select {
	case address := <-running:
		p.base = "http://" + address
	case <-read:
		t.Fatalf("the process ended with %d: %s", p.wait(), p.logs)
	case <-time.After(patience):
		t.Fatalf("the process does not start: %s", p.logs)
	}
	return p
}

// follow keeps the log and tells when the process is ready.
func (p *process) follow(stderr io.Reader, running chan<- string) {
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		_, _ = p.logs.Write(append(lines.Bytes(), '\n'))
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && (line.Msg == "listening" || line.Msg == "working") {
			running <- line.Address
		}
	}
}

// kill ends the process at once, as a crash does.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	p.wait()
}

// terminate asks the process to end and wants it to end well.
func (p *process) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if code := p.wait(); code != exitDone {
		p.t.Errorf("it ended with %d: %s", code, p.logs)
	}
}

// rig is a database, a model and a user for processes.
type rig struct {
	t     *testing.T
	db    testkit.Database
	pool  *pgxpool.Pool
	model *offline.Listening
	user  uuid.UUID
	token string
	env   env
}

func newRig(t *testing.T, script func(*offline.Request) offline.Answer) *rig {
	t.Helper()
	db := testkit.NewDatabase(t)
	model, err := offline.Start(offline.Options{Script: script})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() }) // what it serves was checked before
	pool, err := pgxpool.New(t.Context(), db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	user := testkit.NewUser(t, db)
	return &rig{t: t, db: db, pool: pool, model: model, user: user, token: testkit.Token(t, user), env: env{
		"DATABASE_URL": db.DSN, "HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": testkit.JWTSecret,
		"OPENAI_API_KEY": "offline", "OPENAI_BASE_URL": model.BaseURL(), "DRAIN_TIMEOUT": "5s",
	}}
}

// with is the rig's environment and more.
func (r *rig) with(more env) env {
	all := maps.Clone(r.env)
	maps.Copy(all, more)
	return all
}

func ask[T any](r *rig, sql string, args ...any) T {
	r.t.Helper()
	var answer T
	if err := r.pool.QueryRow(r.t.Context(), sql, args...).Scan(&answer); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
	return answer
}

// within polls until the condition holds; for what sends no signal.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
