package clients_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/testkit/authserver"
)

const (
	toolsScript = "testdata/threads.js"
	toolsFile   = "package spline\n\nfunc Reticulate(n int) int { return n / 0 }\n"
)

// TestTools drives the tools with the official TypeScript client.
func TestTools(t *testing.T) {
	t.Parallel()
	requireTools(t, toolsScript)
	r := newRig(t)
	stranger := testkit.Token(t, testkit.NewUser(t, r.db))
	mark := uuid.NewString()
	first, second, third := "The splines are Ilse's. "+mark, "Why does it panic? "+mark, "Review it. "+mark
	cues := startCues(t, map[string]func(){"goOn": r.hold(first, reply, half)})
	out := r.runNode(filepath.Join("mcp", toolsScript), env{"OTHER_TOKEN": stranger, "MARK": mark, "FILE": toolsFile, "CUES": cues})
	var said struct{ Replies [3]string }
	err := json.Unmarshal([]byte(out), &said)
	require.Truef(t, err == nil, "%v: %s", err, out)
	r.wantPrompt(first, nil)
	r.wantPrompt(second, []string{first, said.Replies[0]})
	r.wantPrompt(third, []string{first, said.Replies[0], second, said.Replies[1]})
	asked := r.toolPrompt("Whose are they? " + mark)
	assert.NotContainsf(t, asked.Text, "Ilse", "a stranger's prompt holds the thread: %s", asked.Text)
}

func requireTools(t *testing.T, script string) {
	requireFiles(t, "mcp/node_modules/@modelcontextprotocol/sdk", "mcp/node_modules/@modelcontextprotocol/conformance", filepath.Join("mcp", script))
}

// toolPrompt is what the model got with that message.
func (r *rig) toolPrompt(content string) offline.Request {
	return r.model.AwaitRequest(r.t, "the model is asked", func(q offline.Request) bool {
		return q.Kind == offline.KindReply && strings.Contains(q.Current, content)
	})
}

// wantPrompt holds that the prompt with that message holds what came before, and the file once.
func (r *rig) wantPrompt(content string, before []string) {
	asked := r.toolPrompt(content).Text
	for _, said := range before {
		assert.Containsf(r.t, asked, said, "the prompt of %q does not hold %q:\n%s", content, said, asked)
	}
	n := strings.Count(asked, "func Reticulate(n int)")
	assert.Truef(r.t, n == 1, "the prompt of %q holds the file %d times, want once:\n%s", content, n, asked)
}

const (
	suite         = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
	notApplicable = "testdata/conformance.yaml"
)

// TestConformance runs the server scenarios of the protocol's conformance suite. Scenarios that do not apply are in a list, with
// reasons; the suite itself reports one that is listed and passes.
func TestConformance(t *testing.T) {
	t.Parallel()
	requireTools(t, notApplicable)
	r := newRig(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*testkit.Patience) // it waits many times
	defer cancel()
	address := strings.Replace(signedIn(t, r.here.base, r.token), "127.0.0.1", "localhost", 1)
	command := nodeCommand(ctx, nil, suite, "server", "--url", address+"/mcp", "--suite", "all", "--expected-failures", notApplicable)
	command.Dir = "mcp"
	out, err := command.CombinedOutput()
	require.Truef(t, err == nil, "%v\n%s", err, out)
}

// signedIn is the server with that user's token in each request: the suite has none.
func signedIn(t *testing.T, base, token string) string {
	target, err := url.Parse(base)
	require.NoError(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		FlushInterval: -1,
	})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

const (
	ann, ben    = "ann@example.test", "ben@example.test"
	oauthScript = "testdata/oauth.js"
)

// project is a rig whose users sign in at a Supabase project.
type project struct {
	*rig

	auth *authserver.Server
}

func newProject(t *testing.T, more env) project {
	t.Helper()
	p := project{newRig(t), authserver.New(t)}
	p.auth.AddUser(p.user, ann, "secret")
	p.auth.AddUser(testkit.NewUser(t, p.db), ben, "secret")
	settings := maps.Clone(p.settings)
	settings["SUPABASE_URL"] = p.auth.URL
	maps.Copy(settings, more)
	p.here = startReplica(t, settings)
	p.auth.Serve(p.here.base, p.here.base+"/mcp")
	return p
}

// TestSignInFromAnAssistant connects the official TypeScript client with nothing but the address.
func TestSignInFromAnAssistant(t *testing.T) {
	t.Parallel()
	requireTools(t, oauthScript)
	p := newProject(t, nil)
	mark := uuid.NewString()
	out := p.runNode(filepath.Join("mcp", oauthScript), env{
		"SUPABASE_URL": p.auth.URL, "ANN": p.auth.SignIn(ann), "BEN": p.auth.SignIn(ben), "MARK": mark,
		"EXPIRED": p.auth.Sign(ann, uuid.NewString(), map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}),
	})
	var did struct {
		Client string `json:"client_id"`
		Thread uuid.UUID
	}
	err := json.Unmarshal([]byte(out), &did)
	require.Truef(t, err == nil, "%v: %s", err, out)
	p.toolPrompt("Hello. " + mark)
	var said string
	if err := p.pool.QueryRow(t.Context(), `select metadata ->> 'client_id' from messages where chat_id = $1 and role = 'user'`,
		did.Thread).Scan(&said); err != nil || said != did.Client {
		t.Errorf("the message is of client %q, %v; want %s", said, err, did.Client)
	}
	assert.Contains(t, p.here.logs.String(), did.Client, "the client is not in the log")
}

// TestPoliciesSeeTheClient: rules of the app's owner can name the OAuth client, as in Supabase's own APIs.
func TestPoliciesSeeTheClient(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	testkit.Exec(t, p.pool, sqlOf(t)[0])
	assistant, session := p.auth.Sign(ann, uuid.NewString(), nil), p.auth.SignIn(ann)
	write, read := map[string]any{"name": "chat", "arguments": map[string]any{"prompt": "Hello"}}, map[string]any{"name": "list_threads"}
	for _, c := range []struct {
		token string
		call  map[string]any
		want  string
	}{
		{session, write, `"continuation_id"`},
		{assistant, read, `"continuation_id"`},
		{assistant, write, "forbidden_by_policy"},
	} {
		answer := toolsAs(t, p.here.base, c.token, "tools/call", c.call)
		assert.Containsf(t, answer.Text, c.want, "%d %s, want %s", answer.Status, answer.Text, c.want)
	}
}

// sqlOf is the page's SQL, which is tested as it stands there.
func sqlOf(t *testing.T) []string {
	page, err := os.ReadFile("../docs/connect.md")
	require.NoError(t, err)
	var found []string
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllSubmatch(page, -1) {
		found = append(found, string(block[1]))
	}
	require.Truef(t, len(found) == 1, "the page has %d pieces of SQL: %q", len(found), found)
	return found
}

// toolsAs sends one message of the protocol.
func toolsAs(t *testing.T, base, token, method string, params any) testkit.Answer {
	return testkit.Client{T: t, Base: base, Token: token}.Call(http.MethodPost, "/mcp",
		testkit.Body{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, "Accept", "application/json, text/event-stream")
}
