package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// actAsProgram makes the test's own binary the program, so that tests start real processes of the very
// code they were built from.
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

// env is what a process finds in its environment.
type env map[string]string

// and is the environment and more.
func (e env) and(more env) env {
	all := maps.Clone(e)
	maps.Copy(all, more)
	return all
}

// program is the program with arguments, in an empty folder, with this environment and no other.
func program(t *testing.T, e env, args ...string) *exec.Cmd {
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
	cmd := program(t, e, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code says it
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// process is a running program.
type process struct {
	testkit.Client // of the rig's user, where it serves
	cmd            *exec.Cmd
	logs           *testkit.Log
	wait           func() int // for its end, giving the exit code
}

// start runs `serve` or `work` and returns when it does. change adds to the rig's environment.
func (r *rig) start(change env, args ...string) *process {
	t := r.t
	t.Helper()
	cmd := program(t, r.env.and(change), args...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{Client: testkit.Client{T: t, Token: r.token}, cmd: cmd, logs: &testkit.Log{}}
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
		p.Base = "http://" + address
	case <-read:
		t.Fatalf("the process ended with %d: %s", p.wait(), p.logs)
	case <-time.After(testkit.Patience):
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

// terminate asks the process to end and wants it to end well.
func (p *process) terminate() {
	require.NoError(p.T, p.cmd.Process.Signal(syscall.SIGTERM))
	code := p.wait()
	assert.Truef(p.T, code == exitDone, "it ended with %d: %s", code, p.logs)
}

// rig is a database, a model and a user for processes.
type rig struct {
	t     *testing.T
	db    testkit.Database
	pool  *pgxpool.Pool
	model *testkit.Model
	user  uuid.UUID
	token string
	env   env
}

func newRig(t *testing.T, script testkit.Script) *rig {
	db := testkit.NewDatabase(t)
	model := testkit.NewModel(t, script)
	user := testkit.NewUser(t, db)
	return &rig{t: t, db: db, pool: testkit.NewPool(t, db.DSN), model: model, user: user, token: testkit.Token(t, user), env: env{
		"DATABASE_URL": db.ServerDSN, "DATABASE_DIRECT_URL": db.Direct(), "HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": testkit.JWTSecret,
		"OPENAI_API_KEY": "offline", "OPENAI_BASE_URL": model.BaseURL(), "EMBEDDING_MODEL": "none", "TOPICS": "off", "LONG_TERM_MEMORY": "false",
	}}
}

// spoken is what endless replies begin with; heard is all of it that is ever said.
const spoken, heard = "Grüße aus 世界 👩‍👩‍👧 und noch viel mehr, aber das sagt er nie.", "Grüße aus 世界 👩‍👩‍👧 "

// endless makes replies to what asks for it stop in the middle of a text and go on never. All others are
// the built-in model's.
func endless(request *offline.Request) offline.Answer {
	if strings.Contains(request.Current, "Endless") {
		return offline.Answer{Text: spoken, Gate: make(chan struct{}), GateAfter: 4}
	}
	return offline.Answer{}
}

// The image's health check has nothing but the program: no shell, no curl.
func TestHealth(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	server := r.start(env{"HTTP_ADDR": "0.0.0.0:0"}, "serve", "--no-workers")
	_, port, err := net.SplitHostPort(testkit.HostOf(server.Base))
	require.NoError(t, err)
	at := env{"HTTP_ADDR": ":" + port}
	unready := r.start(env{"DATABASE_URL": nobody, "DATABASE_DIRECT_URL": nobody}, "serve", "--no-workers")
	there := env{"HTTP_ADDR": testkit.HostOf(unready.Base)}
	for _, c := range []struct {
		name string
		env  env
		args []string
		code int
		says string
	}{
		{"a server that lives", at, []string{"health"}, exitDone, `"status":"ok"`},
		{"a server that can serve", at, []string{"health", "--ready"}, exitDone, `"status":"ready"`},
		{"by all addresses", env{"HTTP_ADDR": "0.0.0.0:" + port}, []string{"health"}, exitDone, `"version":`},
		{"a server that cannot serve lives all the same", there, []string{"health"}, exitDone, `"status":"ok"`},
		{"and is not ready", there, []string{"health", "--ready"}, exitFailed, "database_unreachable"},
		{"nobody there", env{"HTTP_ADDR": "127.0.0.1:1"}, []string{"health"}, exitFailed, "connection refused"},
		{"another program", env{"HTTP_ADDR": testkit.HostOf(r.model.BaseURL())}, []string{"health"}, exitFailed, "401"},
		{"an address that is none", env{"HTTP_ADDR": "nowhere"}, []string{"health"}, exitUsage, "HTTP_ADDR"},
	} {
		code, stdout, stderr := finish(t, c.env, c.args...)
		said := stdout + stderr
		assert.Truef(t, code == c.code && strings.Contains(said, c.says), "%s: exit code %d, %s", c.name, code, said)
	}
	server.terminate()
}
