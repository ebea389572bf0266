// Package system has the tests of the whole system. Each starts the program as the command does, in this process, with
// a database of its own and the offline model, and talks to it over HTTP. Files are named by what they test; the rig
// that they share is in main_test.go, and the checks in checks_test.go.
package system

import (
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/testkit/program"
)

// These tests mostly wait for servers, so more of them run at once than there are cores.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "6") // -parallel on the command line still decides
	testkit.Main(m)
}

// env is environment variables of the program.
type env = program.Settings

var (
	// foldAtOnce folds after two turns.
	foldAtOnce = env{"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "40", "MEMORY_K_RAW_TURNS": "1"}
	// smallMemory folds after a few short turns.
	smallMemory = env{
		"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "400", "MEMORY_SUMMARY_TOKEN_CAP": "150", "MEMORY_K_RAW_TURNS": "2",
		"MEMORY_PROMPT_TOKEN_BUDGET": "600", "MEMORY_FOLD_INPUT_TOKENS": "900",
	}
)

// unicodeReply is a reply in which characters, bytes and UTF-16 units differ from its third letter on, and in which
// one sign that a person sees is many characters.
const unicodeReply = "Grüße aus 世界 👩‍👩‍👧‍👦 naïve Fußnote 🎻 Ωmega עברית und é am Ende: 🇦🇹."

// firstWords returns the first words of a text, with the space after them.
func firstWords(text string, words int) string {
	return strings.Join(strings.SplitAfter(text, " ")[:words], "")
}

// heldReply is a script that replies with unicodeReply and waits after so many pieces until the gate is closed.
func heldReply(pieces int, gate <-chan struct{}) testkit.Script {
	return func(request *offline.Request) offline.Answer {
		if request.Kind != offline.KindReply {
			return offline.Answer{}
		}
		return offline.Answer{Text: unicodeReply, Gate: gate, GateAfter: pieces}
	}
}

var discard = slog.New(slog.DiscardHandler)

// rig is a database, an offline model and a user, with the apps that a test runs on them.
type rig struct {
	t     *testing.T
	db    testkit.Database
	model *testkit.Model
	env   env
	user  uuid.UUID
	token string
	pool  *pgxpool.Pool // the test's own connections
	*node               // the first app
	drain time.Duration
}

// newRig starts one app with API and workers. change adds to its environment.
func newRig(t *testing.T, script testkit.Script, change env) *rig {
	t.Helper()
	return newRigOn(t, testkit.NewDatabase(t), script, change)
}

// newRigOn is newRig on the given database.
func newRigOn(t *testing.T, db testkit.Database, script testkit.Script, change env) *rig {
	t.Helper()
	return newStoppedRig(t, db, script, change).startFirst(0)
}

// startFirst makes the user and starts the first app. Its running replies may go on for drain when it is stopped; 0 stands
// for 5 s.
func (r *rig) startFirst(drain time.Duration) *rig {
	r.t.Helper()
	r.drain = drain
	r.newUser()
	r.node = r.start(app.Role{API: true, Workers: true}, nil)
	return r
}

// newStoppedRig is a rig without an app and without a user.
func newStoppedRig(t *testing.T, db testkit.Database, script testkit.Script, change env) *rig {
	model := testkit.NewModel(t, script)
	r := &rig{t: t, db: db, model: model, pool: testkit.NewPool(t, db.DSN), env: program.Quiet(db, model)}
	maps.Copy(r.env, change)
	return r
}

// newUser makes a new user whose token the rig's clients have.
func (r *rig) newUser() {
	r.user = testkit.NewUser(r.t, r.db)
	r.token = testkit.Token(r.t, r.user)
}

// stranger returns a client of the rig's app for another user.
func (r *rig) stranger() testkit.Client {
	client := r.Client
	client.Token = testkit.Token(r.t, testkit.NewUser(r.t, r.db))
	return client
}

// in returns the rig for a subtest.
func (r *rig) in(t *testing.T) *rig {
	sub, first := *r, *r.node
	sub.t, sub.node, first.T = t, &first, t
	return &sub
}

func (r *rig) config(change env) config.Config {
	return r.env.And(change).Config(r.t)
}

// node is one running app.
type node struct {
	testkit.Client // of the rig's user
	app            *app.App
	logs           *testkit.Log
	// stop ends the app as a signal does and returns the result of Run. Later calls return the same.
	stop func() error
	// stopNow is stop, which must return nil.
	stopNow func()
}

// replica starts one more server on the same database.
func (r *rig) replica() *node {
	r.t.Helper()
	return r.start(app.Role{API: true}, nil)
}

// start runs an app until the test ends, when Run must return nil. doubles replace parts of it.
func (r *rig) start(role app.Role, change env, doubles ...app.Doubles) *node {
	r.t.Helper()
	return r.startWith(r.config(change), role, doubles...)
}

// startWith is start with a whole configuration. doubles are at most one.
func (r *rig) startWith(cfg config.Config, role app.Role, doubles ...app.Doubles) *node {
	r.t.Helper()
	if len(doubles) == 0 {
		doubles = []app.Doubles{{}}
	}
	doubles[0].Drain = r.drain
	p := program.Start(r.t, cfg, role, doubles...)
	stopNow := func() { p.StopInTime(r.t) }
	n := &node{testkit.Client{T: r.t, Base: p.Base, Token: r.token}, p.App, p.Logs, p.Stop, stopNow}
	r.t.Cleanup(n.stopNow)
	return n
}

// startReply starts a chat whose reply is unicodeReply, held after so many words, and reads those.
func (r *rig) startReply(words int) *testkit.Stream {
	r.t.Helper()
	s := r.Send("", testkit.Body{"content": "Speak."})
	s.UntilText(firstWords(unicodeReply, words))
	return s
}

// follow reads the same reply with another client, up to the same words.
func (n *node) follow(reply *testkit.Stream, words int) *testkit.Stream {
	n.T.Helper()
	s := n.Resume(reply.ChatID(), "")
	s.UntilText(firstWords(unicodeReply, words))
	return s
}

// practise sends messages of about thirty tokens to a chat.
func (r *rig) practise(chatID string, messages int) {
	r.t.Helper()
	for n := range messages {
		r.Say(chatID, fmt.Sprintf("On day %d I practised the etude number %d for an hour, and my bow arm felt heavy all the time.", n, 100+n))
	}
}
