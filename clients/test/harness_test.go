// Package clients_test runs the npm package of this folder, and client libraries that apps use, against two
// servers on one Postgres: an app that loses its connection at one server and reconnects to the other
// must end up with the exact text of the reply, once.
//
// Nothing here sleeps: the model holds a reply until the test continues it, and the apps report their state.
// A client runs where apps run it: in Node, or in headless Chromium with the browser's own
// XMLHttpRequest and fetch.
package clients_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/testkit/program"
)

// These tests mostly wait for browsers and servers, so more of them run at once than there are cores.
// They run in the folder of the npm package, as its users do.
func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil {
		panic(err)
	}
	_ = flag.Set("test.parallel", "6") // -parallel on the command line still decides
	testkit.Main(m)
}

// env is the environment of a server or of a script.
type env = program.Settings

// rig is one database, one model, one user, and two servers that share them.
type rig struct {
	t     *testing.T
	model *testkit.Model
	db    testkit.Database
	pool  *pgxpool.Pool // for the test's own queries
	user  uuid.UUID
	token string
	here  *replica
	there *replica
	plays *plays
	// settings are the servers'.
	settings env
}

// newRig starts both servers. origins are those of the web pages that call them.
func newRig(t *testing.T, origins ...string) *rig {
	t.Helper()
	return newRigWith(t, nil, origins...)
}

// newRigWith starts servers with more settings.
func newRigWith(t *testing.T, more env, origins ...string) *rig {
	t.Helper()
	db := testkit.NewDatabase(t)
	r := &rig{t: t, db: db, plays: &plays{}, user: testkit.NewUser(t, db)}
	r.token = testkit.Token(t, r.user)
	r.model = testkit.NewModel(t, r.plays.answer)
	r.pool = testkit.NewPool(t, db.DSN)
	r.settings = program.Quiet(db, r.model).And(env{"MODEL_IDLE_TIMEOUT": "10m"}) // tests hold replies back
	if len(origins) > 0 {
		r.settings["CORS_ORIGINS"] = strings.Join(origins, ",")
	}
	maps.Copy(r.settings, more)
	r.here, r.there = startReplica(t, r.settings), startReplica(t, r.settings)
	return r
}

// in returns the rig for a subtest.
func (r *rig) in(t *testing.T) *rig {
	sub := *r
	sub.t = t
	return &sub
}

// replica is one running server: API and workers.
type replica struct {
	base string // http://127.0.0.1:port
	logs *testkit.Log
	// stop ends the server as a signal does. Later calls do nothing.
	stop func() error
}

// startReplica runs a server until the test ends.
func startReplica(t *testing.T, settings env) *replica {
	t.Helper()
	server := settings.Start(t, app.Role{API: true, Workers: true})
	return &replica{server.Base, server.Logs, server.Stop}
}

// asked counts the model's requests for replies to a message.
func (r *rig) asked(content string) int {
	count := 0
	for _, request := range r.model.Requests() {
		if request.Kind == offline.KindReply && request.Current == content {
			count++
		}
	}
	return count
}

// plays maps messages to the model's answers.
type plays struct {
	mu    sync.Mutex
	lines map[string][]offline.Answer
}

// add appends an answer to a message. The last one is repeated. The built-in model answers messages without any.
func (p *plays) add(content string, answer offline.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines == nil {
		p.lines = map[string][]offline.Answer{}
	}
	p.lines[content] = append(p.lines[content], answer)
}

func (p *plays) answer(request *offline.Request) offline.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := p.lines[request.Current]
	if request.Kind != offline.KindReply || len(left) == 0 {
		return offline.Answer{}
	}
	if len(left) > 1 {
		p.lines[request.Current] = left[1:]
	}
	return left[0]
}

// hold makes the model wait in its answer to a message after some pieces (words), until the returned function is called
// or the test ends. It may be called more than once.
func (r *rig) hold(content, answer string, pieces int) (goOn func()) {
	gate := make(chan struct{})
	goOn = sync.OnceFunc(func() { close(gate) })
	r.t.Cleanup(goOn)
	r.plays.add(content, offline.Answer{Text: answer, Gate: gate, GateAfter: pieces})
	return goOn
}

// proxy is a phone's network between an app and a server: it passes bytes on, and cuts.
type proxy struct {
	*testkit.Proxy
	base string // http://127.0.0.1:port
}

// newProxy listens until the test ends. It leads to a server, until it is told another.
func newProxy(t *testing.T, to *replica) *proxy {
	p := testkit.NewProxy(t, testkit.HostOf(to.base))
	return &proxy{p, "http://" + p.Addr()}
}

func (p *proxy) RouteTo(server *replica) { p.Proxy.RouteTo(testkit.HostOf(server.base)) }

// CutAfter resets a connection once, after so many more bytes to the app, also within an event or a character.
func (p *proxy) CutAfter(bytes int) {
	p.Break(testkit.Faults{Cut: true, Abrupt: true, After: bytes, Times: 1})
}

// CutWithin ends connections to the app within a word, after so many of its bytes, so many times.
func (p *proxy) CutWithin(word string, after, times int) {
	p.Break(testkit.Faults{Cut: true, Within: word, After: after, Times: times})
}

// runNode runs a script of this folder with BASE_URL and OTHER_URL (the two servers), TOKEN and more in its environment.
// It fails the test with the script's output when the script fails.
func (r *rig) runNode(script string, more env) string {
	variables := env{"BASE_URL": r.here.base, "OTHER_URL": r.there.base, "TOKEN": r.token}
	maps.Copy(variables, more)
	ctx, cancel := context.WithTimeout(r.t.Context(), 8*testkit.Patience) // a script waits many times
	defer cancel()
	command := nodeCommand(ctx, variables, script)
	out, err := command.CombinedOutput()
	require.Truef(r.t, err == nil, "node %s: %v\n%s", script, err, out)
	return string(out)
}

// nodeCommand is node with arguments, in this folder, where the packages are.
func nodeCommand(ctx context.Context, variables env, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "node", arguments...)
	command.Env = os.Environ()
	for name, value := range variables {
		command.Env = append(command.Env, fmt.Sprintf("%s=%s", name, value))
	}
	command.WaitDelay = time.Second // for pipes that a killed script's children hold open
	return command
}

// runsWell runs node, which prints what is wrong.
func runsWell(t *testing.T, variables env, arguments ...string) {
	out, err := nodeCommand(t.Context(), variables, arguments...).CombinedOutput()
	assert.Truef(t, err == nil, "%v\n%s", err, out)
}

// npmCommand is npm in this folder. It asks no registry.
func npmCommand(t *testing.T, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(t.Context(), "npm", append(arguments, "--offline", "--loglevel=error", "--no-update-notifier")...)
	command.WaitDelay = time.Second
	return command
}

// requireFiles fails a test when something is not installed or built. It opens each file, so that the go command does not use a
// cached result after one has changed.
func requireFiles(t *testing.T, names ...string) {
	for _, name := range names {
		_, err := os.Stat(name)
		require.Truef(t, err == nil, "%v: run scripts/setup test", err)
	}
}

// requireBuild fails a test when the package is not built from what its sources are now.
func requireBuild(t *testing.T) {
	built, err := os.Stat("dist/cjs/package.json") // what the build writes last
	require.NoError(t, err, "the package is not built: run scripts/setup test, or npm run build in clients")
	sources, err := filepath.Glob("src/*.ts")
	require.NoError(t, err)
	for _, name := range append(sources, "package.json", "../internal/httpapi/testdata/openapi.json") {
		source, err := os.Stat(name)
		require.NoError(t, err)
		require.Falsef(t, source.ModTime().After(built.ModTime()),
			"%s is newer than the built package: run scripts/setup test, or npm run build in clients", name)
	}
}
