// Package page proves the page at /app/ in Chromium by what a person does. Each area has a Go file, which prepares the
// server's side, and scripts in internal/webui/page/test, which drive the browser with playwright-core.
package page

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/testkit/program"
)

// Each test has a browser of its own.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "3") // -parallel on the command line still decides
	testkit.Main(m)
}

// env is the environment of a server or of a script.
type env = program.Settings

// rig is a database, an offline model, a user and a running server.
type rig struct {
	testkit.Client // of the user
	t              *testing.T
	db             testkit.Database
	model          *testkit.Model
	pool           *pgxpool.Pool // the test's own connections
	user           uuid.UUID
	settings       env
}

// newRig starts a server with API, workers and page. change adds to its environment.
func newRig(t *testing.T, script testkit.Script, change env) *rig {
	t.Helper()
	r := newStoppedRig(t, script, change)
	r.start()
	return r
}

// newStoppedRig is newRig whose server is still to be started.
func newStoppedRig(t *testing.T, script testkit.Script, change env) *rig {
	requireBuild(t)
	db := testkit.NewDatabase(t)
	r := &rig{t: t, db: db, model: testkit.NewModel(t, script), pool: testkit.NewPool(t, db.DSN), user: testkit.NewUser(t, db)}
	r.Client = testkit.Client{T: t, Token: testkit.Token(t, r.user)}
	r.settings = program.Quiet(db, r.model).And(env{"MODEL_IDLE_TIMEOUT": "10m"}).And(change) // tests hold replies back
	return r
}

// start runs the server until the returned function is called or the test ends. A later start takes the same address.
func (r *rig) start() (stop func()) {
	r.t.Helper()
	server := r.settings.Start(r.t, app.Role{API: true, Workers: true})
	r.settings["HTTP_ADDR"], r.Base = server.App.Addr(), server.Base
	return func() { _ = server.Stop() } // what it returns is checked at the end
}

// scripts is where the page and its tests are.
const scripts = "../../webui/page"

// inBrowser runs a script of internal/webui/page/test with BASE, TOKEN, USER_ID and more in its environment. It fails the
// test with the script's output when the script fails.
func (r *rig) inBrowser(script string, more env) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 8*testkit.Patience) // a script waits many times
	defer cancel()
	command := exec.CommandContext(ctx, "node", filepath.Join("test", script))
	command.Dir = scripts
	command.Env = os.Environ()
	variables := env{"BASE": r.Base, "TOKEN": r.Token, "USER_ID": r.user.String(), "CHROMIUM": testkit.FindBrowser(r.t)}
	maps.Copy(variables, more)
	for name, value := range variables {
		command.Env = append(command.Env, fmt.Sprintf("%s=%s", name, value))
	}
	command.WaitDelay = time.Second // for pipes that a killed script's children hold open
	if out, err := command.CombinedOutput(); err != nil {
		r.t.Fatalf("%s: %v\n%s", script, err, out)
	} else if testing.Verbose() {
		r.t.Logf("%s:\n%s", script, out)
	}
}

// requireBuild fails a test when there is no page, or no packages to test it with.
func requireBuild(t *testing.T) {
	for _, needed := range []string{scripts + "/node_modules/playwright-core", "../../webui/dist/index.html"} {
		_, err := os.Stat(needed)
		require.Truef(t, err == nil, "%v: run scripts/setup test", err)
	}
}
