package mcptools_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/testkit/program"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type env = program.Settings

// rig is a running server with its database, its model and two users.
type rig struct {
	t        *testing.T
	db       testkit.Database
	model    *testkit.Model
	plays    *sync.Map     // the model's answers, by the message; all others are the built-in model's
	pool     *pgxpool.Pool // the test's own look at the database
	base     string
	ann, ben user
}

// user is one of the server's users.
type user struct {
	id    uuid.UUID
	token string
}

func newRig(t *testing.T, change env) *rig {
	t.Helper()
	db := testkit.NewDatabase(t)
	r := &rig{t: t, db: db, plays: &sync.Map{}, pool: testkit.NewPool(t, db.DSN)}
	r.model = testkit.NewModel(t, func(request *offline.Request) offline.Answer {
		answer, _ := r.plays.Load(request.Current)
		known, _ := answer.(offline.Answer)
		return known
	})
	server := program.Quiet(db, r.model).And(env{"LONG_TERM_MEMORY": "true"}).And(change).Start(t, app.Role{API: true, Workers: true})
	t.Cleanup(func() { server.StopInTime(t) })
	r.base = server.Base
	return r.in(t)
}

// in returns the rig for a subtest, with users of its own.
func (r *rig) in(t *testing.T) *rig {
	sub := *r
	sub.t = t
	for _, u := range []*user{&sub.ann, &sub.ben} {
		u.id = testkit.NewUser(t, r.db)
		u.token = testkit.Token(t, u.id)
	}
	return &sub
}

// hold makes the model stop in its answer to a message after so many words, until the returned function is called.
func (r *rig) hold(content, text string, words int) (goOn func()) {
	gate := make(chan struct{})
	goOn = sync.OnceFunc(func() { close(gate) })
	r.t.Cleanup(goOn)
	r.plays.Store(content, offline.Answer{Text: text, Gate: gate, GateAfter: words})
	return goOn
}

// TestTools drives all tools of one server, as users of their own.
func TestTools(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for name, test := range map[string]func(*rig){
		"a thread across tools":           (*rig).threadAcrossTools,
		"threads that are gone":           (*rig).threadsThatAreGone,
		"a revived thread":                (*rig).revivedThread,
		"progress":                        (*rig).progress,
		"a model that fails":              (*rig).modelFailure,
		"a reply that is cut off":         (*rig).replyCutOff,
		"a cancelled reply":               (*rig).cancelledReply,
		"threads":                         (*rig).threadTools,
		"a pinned message":                (*rig).pinnedMessage,
		"wrong arguments":                 (*rig).wrongArguments,
		"the list":                        (*rig).listedTools,
		"memories":                        (*rig).toolsRememberAndForget,
		"what is known":                   (*rig).whatIsKnown,
		"no word of the user's":           (*rig).nothingIsLearntOfTheAssistant,
		"what the protocol does not know": (*rig).refusals,
		"no session":                      (*rig).noSession,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(r.in(t))
		})
	}
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
	c := &client{t: r.t, progress: make(chan *mcp.ProgressNotificationParams, 1000)}
	program := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, heard *mcp.ProgressNotificationClientRequest) { c.progress <- heard.Params },
	})
	var err error
	c.ClientSession, err = program.Connect(r.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: r.base + "/mcp", HTTPClient: &http.Client{Transport: bearer{u.token, &http.Transport{DisableKeepAlives: true}}},
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	require.NoError(r.t, err)
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
	found, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: with})
	require.NoErrorf(c.t, err, "%s", tool)
	return read(c.t, found)
}

func read(t *testing.T, found *mcp.CallToolResult) result {
	r := result{t: t, failed: found.IsError}
	for _, content := range found.Content {
		text, ok := content.(*mcp.TextContent)
		require.Truef(t, ok, "a content is %T", content)
		r.text += text.Text
	}
	if r.failed {
		assert.NotRegexp(t, testkit.GoFormats, r.text)
	}
	raw, err := json.Marshal(found.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &r.content)
	}
	require.NoError(t, err)
	return r
}

// call calls a tool that must not fail.
func (c *client) call(tool string, with args) result {
	found := c.try(tool, with)
	require.Falsef(c.t, found.failed, "%s failed: %s", tool, found.text)
	return found
}

// field is one of the structured result's.
func (r result) field(name string) string {
	text, ok := r.content[name].(string)
	require.Truef(r.t, ok, "there is no text %s in %v", name, r.content)
	return text
}

// thread is the thread that the text and the structured result name.
func (r result) thread() string {
	id := r.field("continuation_id")
	assert.Truef(r.t, strings.HasSuffix(r.text, "\ncontinuation_id: "+id),
		"the text does not end with the thread %s: %q", id, r.text)
	return id
}

// wants fails the test unless the call failed with that code and says these words.
func (r result) wants(code string, words ...string) {
	assert.Truef(r.t, r.failed && strings.HasPrefix(r.text, code+": "), "want %s, got %v %q", code, r.failed, r.text)
	for _, word := range words {
		assert.Containsf(r.t, r.text, word, "%q does not say %q", r.text, word)
	}
}

// prompt is what the model got with that message.
func (r *rig) prompt(content string) offline.Request {
	return r.model.AwaitRequest(r.t, "the model is asked", func(q offline.Request) bool {
		return q.Kind == offline.KindReply && strings.Contains(q.Current, content)
	})
}

// count reads one number from the database.
func (r *rig) count(query string, arguments ...any) int {
	return testkit.Ask[int](r.t, r.pool, query, arguments...)
}

// stored counts what messages and replies of both users are stored.
func (r *rig) stored() int {
	return r.count(`select count(*) from messages where user_id = any($1)`, []uuid.UUID{r.ann.id, r.ben.id})
}

// expire lets a thread expire.
func (r *rig) expire(thread string) {
	r.do(`update chats set ttl_hours = 1, last_message_at = now() - interval '2 hours', created_at = now() - interval '3 hours' where id = $1`, thread)
}

// do runs a statement.
func (r *rig) do(statement string, arguments ...any) {
	testkit.Exec(r.t, r.pool, statement, arguments...)
}
