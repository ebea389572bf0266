// Package tools proves that replies which use tools survive what happens to them: a server that is killed at any point of a call,
// a thousand replies that wait for their users, another wire to the model, a model that breaks off, and streams that are cut. The
// programs, Postgres and HTTP are real; the model and the tools are servers of the test. `make calls` runs it at length.
package tools

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/proof/figures"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/testkit/program"
)

var (
	rounds  = flag.Int("rounds", 2, "how many replies have their server killed at each point")
	waiting = flag.Int("waiting", 50, "how many replies wait for their users at once")
	scripts = flag.Int("scripts", 20, "how many random replies are made over both wires to the model")
	faults  = flag.Int("faults", 60, "how many faults come before the first token, and after it")
	doc     = flag.Bool("doc", false, "writes what was found into the documents")
	cuts    = flag.Int("cuts", 20, "how many random replies are cut at every event")
)

func TestMain(m *testing.M) {
	testkit.AtEnd(publish)
	testkit.Main(m)
}

// results are the rows of docs/results/tools.md, by what they are about.
var results sync.Map

// report prints what a test has found.
func report(t *testing.T, about, found string) {
	t.Helper()
	if !t.Failed() {
		results.Store(about, found)
	}
	t.Log(about + ": " + figures.Plain(found))
}

// mark names a figure.
func mark(name string, value any) string { return figures.Mark("calls_"+name, fmt.Sprint(value)) }

// publish writes the results into the documents, if all tests have some.
func publish() {
	rows := maps.Collect(results.Range)
	const tests = 5
	if !*doc || len(rows) != tests {
		return
	}
	table := "| what | result |\n|---|---|\n"
	for _, about := range slices.SortedFunc(maps.Keys(rows), func(a, b any) int { return strings.Compare(a.(string), b.(string)) }) {
		table += fmt.Sprintf("| %s | %s |\n", about, rows[about])
	}
	if err := figures.Publish("../../..", "docs/results/tools.md", "calls", table); err != nil {
		panic(err)
	}
}

// toolbox is a server of tools: look, and order, which the user has to approve.
type toolbox struct {
	base string
	// hold returns what a request waits for; nil for nothing.
	hold func(tool string, arguments arguments) <-chan struct{}

	mu  sync.Mutex
	ran map[string]int // requests by their Idempotency-Key
}

// arguments are what the scripts call tools with.
type arguments struct {
	Play  int  `json:"play"`  // whose reply it is
	N     int  `json:"n"`     // of a call among those of a step
	Fails bool `json:"fails"` // the tool refuses
}

func newToolbox(t *testing.T) *toolbox {
	b := &toolbox{ran: map[string]int{}, hold: func(string, arguments) <-chan struct{} { return nil }}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	b.base = server.URL
	return b
}

func (b *toolbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var given arguments
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &given) // a random script may leave all of them out
	b.mu.Lock()
	b.ran[r.Header.Get("Idempotency-Key")]++
	b.mu.Unlock()
	if held := b.hold(filepath.Base(r.URL.Path), given); held != nil {
		select {
		case <-held:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if given.Fails {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error": "Not today."}`) // who is gone asks again
		return
	}
	fmt.Fprintf(w, `{"did": %q, "n": %d}`, filepath.Base(r.URL.Path), given.N)
}

// requests returns how often each key was sent.
func (b *toolbox) requests() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.ran)
}

// file is the TOOLS_FILE.
func (b *toolbox) file(t *testing.T) string {
	return write(t, "tools.json", fmt.Sprintf(`{"tools": [
		{"name": "look", "description": "Looks.", "url": "%[1]s/look", "timeout": "60s"},
		{"name": "order", "description": "Orders.", "url": "%[1]s/order", "timeout": "60s", "approval": true}]}`, b.base))
}

func write(t *testing.T, name, contents string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(contents), 0o600))
	return path
}

// offered are the tools of a message: the server's, and photo, which the client runs.
var offered = []testkit.Body{{"type": "server", "name": "look"}, {"type": "server", "name": "order"}, {"type": "function", "name": "photo"}}

// running is the program in this process.
type running struct {
	*program.Running
	testkit.Client
	tools *toolbox
	pool  *pgxpool.Pool // as the superuser
}

// start starts the program with models and tools.
func start(t *testing.T, model *testkit.Model, models string) *running {
	t.Helper()
	database, tools := testkit.NewDatabase(t), newToolbox(t)
	server := program.Quiet(database, model).And(program.Settings{
		"TOOLS_FILE": tools.file(t), "MODELS_FILE": write(t, "models.json", models),
	}).Start(t, app.Role{API: true})
	user := testkit.NewUser(t, database)
	return &running{server, testkit.Client{T: t, Base: server.Base, Token: testkit.Token(t, user)}, tools, testkit.NewPool(t, database.AdminDSN)}
}

// whole is a reply as one object.
type whole struct {
	MessageID    string        `json:"message_id"`
	ChatID       string        `json:"chat_id"`
	FinishReason string        `json:"finish_reason"`
	AnsweredBy   string        `json:"answered_by"`
	Content      string        `json:"content"`
	Parts        []memory.Part `json:"parts"`
	Usage        any           `json:"usage"`
	Open         []openCall    `json:"open"`
}

type openCall struct {
	CallID   string `json:"call_id"`
	Name     string `json:"name"`
	Approval bool   `json:"approval"`
}

// answer is what a client says to an open call: what follows from its name and id alone, so that it is the same when it is said again.
func (c openCall) answer(refuses bool) testkit.Body {
	switch {
	case c.Approval && refuses:
		return testkit.Body{"approved": false, "reason": "Too dear."}
	case c.Approval:
		return testkit.Body{"approved": true}
	case refuses:
		return testkit.Body{"error": "There is no camera."}
	}
	return testkit.Body{"output": testkit.Body{"photo": c.CallID}}
}

func (c openCall) path(messageID string) string {
	return "/v1/messages/" + messageID + "/calls/" + c.CallID
}

// play sends a message as the first of a chat and answers all calls, until the reply has ended.
func (r *running) play(content, variant string, refuses func(call openCall) bool) whole {
	body := testkit.Body{"content": content, "model_variant": variant, "tools": offered, "client_message_id": uuid.NewString()}
	got := r.whole("/v1/message/first", body)
	for len(got.Open) > 0 {
		call := got.Open[0]
		got = r.whole(call.path(got.MessageID), call.answer(refuses(call)))
	}
	return got
}

func (r *running) whole(path string, body testkit.Body) (got whole) {
	answer := r.Call(http.MethodPost, path, body, "Accept", "application/json")
	require.Equal(r.T, http.StatusOK, answer.Status, answer.Text)
	require.NoError(r.T, json.Unmarshal([]byte(answer.Text), &got))
	return got
}

// sound checks the parts of a reply: their places grow and lie in the text, each call has one result after it, and an approval
// stands between them.
func sound(content string, parts []memory.Part) error {
	at, calls := 0, map[string][]memory.PartType{}
	for n, part := range parts {
		if part.At < at || part.At > len([]rune(content)) {
			return fmt.Errorf("part %d stands at %d, after one at %d", n, part.At, at)
		}
		at = part.At
		if part.CallID != "" {
			calls[part.CallID] = append(calls[part.CallID], part.Type)
		}
	}
	for id, types := range calls {
		whole := [][]memory.PartType{{memory.PartCall, memory.PartResult}, {memory.PartCall, memory.PartApproval, memory.PartResult}}
		if !slices.ContainsFunc(whole, func(want []memory.PartType) bool { return slices.Equal(types, want) }) {
			return fmt.Errorf("call %s has the parts %v", id, types)
		}
	}
	return nil
}

// numberIn returns the number that a message ends with.
func numberIn(message string) int {
	words := strings.Fields(message)
	n, _ := strconv.Atoi(words[len(words)-1]) // every message of these tests ends so
	return n
}
