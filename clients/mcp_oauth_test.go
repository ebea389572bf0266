package clients_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/testkit/authserver"
)

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
	if err := json.Unmarshal([]byte(out), &did); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p.toolPrompt("Hello. " + mark)
	var said string
	if err := p.pool.QueryRow(t.Context(), `select metadata ->> 'client_id' from messages where chat_id = $1 and role = 'user'`,
		did.Thread).Scan(&said); err != nil || said != did.Client {
		t.Errorf("the message is of client %q, %v; want %s", said, err, did.Client)
	}
	if !strings.Contains(p.here.logs.String(), did.Client) {
		t.Error("the client is not in the log")
	}
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
		if answer := toolsAs(t, p.here.base, c.token, "tools/call", c.call); !strings.Contains(answer.Text, c.want) {
			t.Errorf("%d %s, want %s", answer.Status, answer.Text, c.want)
		}
	}
}

// sqlOf is the page's SQL, which is tested as it stands there.
func sqlOf(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/connect.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllSubmatch(page, -1) {
		found = append(found, string(block[1]))
	}
	if len(found) != 1 {
		t.Fatalf("the page has %d pieces of SQL: %q", len(found), found)
	}
	return found
}

// toolsAs sends one message of the protocol.
func toolsAs(t *testing.T, base, token, method string, params any) testkit.Answer {
	t.Helper()
	return testkit.Client{T: t, Base: base, Token: token}.Call(http.MethodPost, "/mcp",
		testkit.Body{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, "Accept", "application/json, text/event-stream")
}
