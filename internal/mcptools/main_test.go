package mcptools_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// env is a configuration as the environment gives it.
type env map[string]string

// rig is a running server with its database, its model and two users.
type rig struct {
	t        *testing.T
	model    *testkit.Model
	pool     *pgxpool.Pool // the test's own look at the database
	base     string
	logs     *testkit.Log
	ann, ben user
}

// user is one of the server's users.
type user struct {
	id    uuid.UUID
	token string
}

func newRig(t *testing.T, script testkit.Script, change env) *rig {
	t.Helper()
	db := testkit.NewDatabase(t)
	r := &rig{t: t, model: testkit.NewModel(t, script), pool: testkit.NewPool(t, db.DSN), logs: &testkit.Log{}}
	for _, u := range []*user{&r.ann, &r.ben} {
		u.id = testkit.NewUser(t, db)
		u.token = testkit.Token(t, u.id)
	}
	settings := env{
		"DATABASE_URL": db.DSN, "DATABASE_DIRECT_URL": db.Direct(), "HTTP_ADDR": "127.0.0.1:0", "SUPABASE_JWT_SECRET": testkit.JWTSecret,
		"OPENAI_API_KEY": "offline", "OPENAI_BASE_URL": r.model.BaseURL(), "EMBEDDING_MODEL": "none", "TOPICS": "off", "LONG_TERM_MEMORY": "false", "LOG_LEVEL": "debug",
		"RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0",
	}
	maps.Copy(settings, change)
	r.start(settings)
	return r
}

// start runs the server until the test ends.
func (r *rig) start(settings env) {
	r.t.Helper()
	cfg, err := config.Parse(func(name string) (string, bool) {
		value, ok := settings[name]
		return value, ok
	}, false)
	if err != nil {
		r.t.Fatal(err)
	}
	server, err := app.New(r.t.Context(), cfg, app.Role{API: true, Workers: true}, r.logs.Logger(), app.Doubles{Drain: 5 * time.Second})
	if err != nil {
		r.t.Fatal(err)
	}
	r.base = "http://" + server.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	stop := sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	r.t.Cleanup(func() {
		if err := stop(); err != nil {
			r.t.Errorf("run: %v", err)
		}
	})
}

// bearer sends an access token, over connections that do not outlive the test.
type bearer struct {
	token string
	base  *http.Transport
}

func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+b.token)
	return b.base.RoundTrip(request)
}

// client is a program that uses the tools.
type client struct {
	t *testing.T
	*mcp.ClientSession
	progress chan *mcp.ProgressNotificationParams
}

// connect is a program of that user, with the newest protocol.
func (r *rig) connect(u user) *client { return r.connectWith(u, "") }

// connectWith is connect with a version of the protocol; "" for the newest.
func (r *rig) connectWith(u user, version string) *client {
	r.t.Helper()
	c := &client{t: r.t, progress: make(chan *mcp.ProgressNotificationParams, 1000)}
	program := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, heard *mcp.ProgressNotificationClientRequest) { c.progress <- heard.Params },
	})
	var err error
	c.ClientSession, err = program.Connect(r.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: r.base + "/mcp", HTTPClient: &http.Client{Transport: bearer{u.token, &http.Transport{DisableKeepAlives: true}}},
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() }) // it may be closed already
	return c
}

type args map[string]any

// result is what a tool answered.
type result struct {
	t       *testing.T
	text    string
	failed  bool
	content map[string]any // structured
}

// try calls a tool and gives its result, be it an error of the tool.
func (c *client) try(tool string, with args) result {
	c.t.Helper()
	found, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: with})
	if err != nil {
		c.t.Fatalf("%s: %v", tool, err)
	}
	return read(c.t, found)
}

func read(t *testing.T, found *mcp.CallToolResult) result {
	t.Helper()
	r := result{t: t, failed: found.IsError}
	for _, content := range found.Content {
		text, ok := content.(*mcp.TextContent)
		if !ok {
			t.Fatalf("a content is %T", content)
		}
		r.text += text.Text
	}
	raw, err := json.Marshal(found.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &r.content)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// call calls a tool that must not fail.
func (c *client) call(tool string, with args) result {
	c.t.Helper()
	found := c.try(tool, with)
	if found.failed {
		c.t.Fatalf("%s failed: %s", tool, found.text)
	}
	return found
}

// field is one of the structured result's.
func (r result) field(name string) string {
	r.t.Helper()
	text, ok := r.content[name].(string)
	if !ok {
		r.t.Fatalf("there is no text %s in %v", name, r.content)
	}
	return text
}

// thread is the thread that the text and the structured result name.
func (r result) thread() string {
	r.t.Helper()
	id := r.field("continuation_id")
	if !strings.HasSuffix(r.text, "\ncontinuation_id: "+id) {
		r.t.Errorf("the text does not end with the thread %s: %q", id, r.text)
	}
	return id
}

// wants fails the test unless the call failed with that code and says these words.
func (r result) wants(code string, words ...string) {
	r.t.Helper()
	if !r.failed || !strings.HasPrefix(r.text, code+": ") {
		r.t.Errorf("want %s, got %v %q", code, r.failed, r.text)
	}
	for _, word := range words {
		if !strings.Contains(r.text, word) {
			r.t.Errorf("%q does not say %q", r.text, word)
		}
	}
}

// prompt is what the model got with that message.
func (r *rig) prompt(content string) offline.Request {
	r.t.Helper()
	return r.model.AwaitRequest(r.t, "the model is asked", func(q offline.Request) bool {
		return q.Kind == offline.KindReply && strings.Contains(q.Current, content)
	})
}

// count reads one number from the database.
func (r *rig) count(query string, arguments ...any) int {
	r.t.Helper()
	var n int
	if err := r.pool.QueryRow(r.t.Context(), query, arguments...).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// do runs a statement.
func (r *rig) do(statement string, arguments ...any) {
	r.t.Helper()
	if _, err := r.pool.Exec(r.t.Context(), statement, arguments...); err != nil {
		r.t.Fatal(err)
	}
}
