package system

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// of is the claim that a user belongs to a cell.
func of(cell string) jwt.MapClaims {
	return jwt.MapClaims{"app_metadata": map[string]any{"cell": cell}}
}

// depart leaves what a move has left of a user: all rows while it goes on, and none at its end.
func (r *rig) depart(user uuid.UUID, why string) {
	testkit.Exec(r.t, r.pool, `insert into throughline.departed (user_id, why, cell) values ($1, $2, 'c')
		on conflict (user_id) do update set why = $2`, user, why)
	if why == "moved" {
		testkit.Exec(r.t, r.pool, "delete from throughline.accounts where user_id = $1", user)
	}
}

// wantWhere checks an answer that says where a user is: the code and, if that is known, the cell.
func wantWhere(t *testing.T, answer testkit.Answer, code, cell, what string) {
	status := map[string]int{"wrong_cell": http.StatusMisdirectedRequest, "moving": http.StatusServiceUnavailable, "user_not_found": http.StatusUnauthorized}[code]
	var said struct {
		Code    string
		Details struct{ Cell string }
	}
	_ = json.Unmarshal([]byte(answer.Text), &said)
	assert.Truef(t, answer.Status == status && said.Code == code && said.Details.Cell == cell, "%s: %d %s", what, answer.Status, answer.Text)
	assert.Equal(t, "b", answer.Header.Get("X-Throughline-Cell"), what)
	if code == "moving" {
		assert.Equal(t, "2", answer.Header.Get("Retry-After"), what)
	}
}

var (
	numberInPath = regexp.MustCompile(`\{number\}`)
	idInPath     = regexp.MustCompile(`\{[a-z_]+\}`)
)

// Every route says that a user is in another cell, or being moved, or erased, to a good request and before what is wrong with path, query
// and body. No row is written.
func TestEveryRouteInAWrongCell(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, env{"CELL": "b", "LONG_TERM_MEMORY": "true"})
	for _, c := range []struct{ departed, code, cell string }{
		{"", "wrong_cell", "c"}, {"moving", "moving", ""}, {"moved", "wrong_cell", "c"}, {"erased", "user_not_found", ""},
	} {
		user := testkit.NewUser(t, r.db)
		client := r.signed(user, of("c"))
		if c.departed != "" {
			client = r.signed(user, of("b"))
			r.depart(user, c.departed)
		}
		before := r.left(user)
		for _, route := range routes(t, client) {
			if !route.user || route.path == "/v1/account" && c.departed == "erased" { // which is done
				continue
			}
			path := idInPath.ReplaceAllString(numberInPath.ReplaceAllString(route.path, "1"), uuid.NewString())
			good := client.Call(route.method, path+"?q=x&query=x", route.sample(), "Accept", "application/json, text/event-stream")
			wantWhere(t, good, c.code, c.cell, c.departed+", good "+route.name())
			bad := client.Request(t.Context(), route.method, idInPath.ReplaceAllString(route.path, "nonsense")+"?surprise=%ff", nil, "Content-Type", "image/png")
			bad.Body, bad.ContentLength = io.NopCloser(strings.NewReader("{")), 1
			wantWhere(t, client.Do(bad), c.code, c.cell, c.departed+", bad "+route.name())
		}
		assert.Equal(t, before, r.left(user), "what was written")
	}
}

// A cell takes who belongs to it and whom it has, and is named in answers, metrics and by /readyz. A token without a claim begins
// where new users do.
func TestWhoIsServedInACell(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, env{"CELL": "b"})
	wantWhere(t, r.Call(http.MethodGet, "/v1/chats", nil), "wrong_cell", "", "a new user")
	admits := r.start(app.Role{API: true}, env{"CELL_ADMITS_NEW": "true"})
	chatID := admits.Say("", "I am new.").ChatID
	r.Say(chatID, "And here I am known.")
	late := r.signed(r.user, of("c"))
	late.Say(chatID, "Whatever the claim says.")
	member := r.signed(testkit.NewUser(t, r.db), of("b"))
	member.Say("", "I was told to come here.")

	ready := r.Call(http.MethodGet, "/readyz", nil)
	assert.Equal(t, "b", ready.JSON(t)["cell"], ready.Text)
	assert.Equal(t, "b", ready.Header.Get("X-Throughline-Cell"))
	assert.Regexp(t, `throughline_build_info\{cell="b",`, r.Call(http.MethodGet, "/metrics", nil).Text)
}

// A body may take so long that its user was moved meanwhile. Nothing is stored.
func TestBodyArrivesAfterItsUserHasMoved(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, env{"CELL": "b", "CELL_ADMITS_NEW": "true"})
	call := rpc("tools/call", testkit.Body{"name": "chat", "arguments": testkit.Body{"prompt": "Too late."}})
	for name, c := range map[string]struct {
		path string
		body testkit.Body
	}{
		"a first message":        {"/v1/message/first", testkit.Body{"content": "Too late."}},
		"a message":              {"/v1/message", testkit.Body{"content": "Too late.", "chat_id": "CHAT"}},
		"messages":               {"/v1/chats/CHAT/messages", testkit.Body{"messages": []testkit.Body{{"role": "user", "content": "Too late."}}}},
		"a memory":               {"/v1/memories", testkit.Body{"content": "Plays the cello."}},
		"an import":              {"/v1/import", testkit.Body{"role": "user", "content": "Too late."}},
		"a tool":                 {"/mcp", call},
		"a wish, which is wrong": {"/v1/chats/CHAT/messages", testkit.Body{"messages": []testkit.Body{}}},
	} {
		for _, why := range []string{"moving", "moved"} {
			r.newUser()
			client := r.Client
			client.Token = r.token
			chatID := client.Say("", "In time.").ChatID
			r.awaitNoDeltas()
			request := client.Request(t.Context(), http.MethodPost, strings.Replace(c.path, "CHAT", chatID, 1), c.body)
			if c.path == "/mcp" {
				request.Header.Set("Accept", "application/json, text/event-stream")
			}
			whole, err := io.ReadAll(request.Body)
			require.NoError(t, err)
			body, send := io.Pipe()
			request.Body, request.ContentLength = body, -1
			var before map[string]int
			go func() {
				_, _ = send.Write(whole[:2])
				r.depart(r.user, why)
				before = r.left(r.user)
				_, _ = send.Write([]byte(strings.Replace(string(whole[2:]), "CHAT", chatID, 1)))
				_ = send.Close()
			}()
			answer := client.Do(request)
			wantWhere(t, answer, map[string]string{"moving": "moving", "moved": "wrong_cell"}[why], map[string]string{"moved": "c"}[why], name)
			assert.Equalf(t, before, r.left(r.user), "%s while %s", name, why)
		}
	}
}

// A reply that had begun goes on while its user waits to be moved, for who reads it here and elsewhere, and is stored. Nothing new begins.
// After the move what waited for a lock is not told that there is no such chat.
func TestReplyEndsBeforeItsUserIsMoved(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	r := newRig(t, heldReply(4, hold), nil)
	other := r.start(app.Role{API: true}, nil)
	reply := r.startReply(4)
	far := other.follow(reply, 4)
	r.depart(r.user, "moving")
	for _, call := range []testkit.Answer{
		r.Call(http.MethodPost, "/v1/message/first", testkit.Body{"content": "Not now."}), r.Call(http.MethodGet, "/v1/chats", nil), r.Cancel(reply.ChatID()),
	} {
		assert.Equal(t, "moving", call.Code(), call.Text)
	}
	close(hold)
	for _, said := range restOfAll(t, []*testkit.Stream{reply, far}) {
		assert.True(t, said.Text == unicodeReply && said.End.Name == testkit.Completion, "%s %s", said.End.Name, said.Text)
	}
	r.checkStored(reply.MessageID(), unicodeReply)

	testkit.Exec(t, r.pool, "delete from throughline.departed")
	for what, ask := range map[string]func() (testkit.Answer, error){
		"a message": func() (testkit.Answer, error) {
			return r.TryCall(http.MethodPost, "/v1/message", testkit.Body{"content": "Too late.", "chat_id": reply.ChatID()})
		},
		"a title": func() (testkit.Answer, error) {
			return r.TryCall(http.MethodPatch, "/v1/chats/"+reply.ChatID(), testkit.Body{"title": "Late"})
		},
		"a deletion": func() (testkit.Answer, error) { return r.TryCall(http.MethodDelete, "/v1/chats/"+reply.ChatID(), nil) },
	} {
		testkit.Exec(t, r.pool, "insert into throughline.accounts (user_id) values ($1) on conflict do nothing", r.user)
		testkit.Exec(t, r.pool, "delete from throughline.departed")
		testkit.Exec(t, r.pool, "insert into chats (id, user_id) values ($1, $2) on conflict do nothing", reply.ChatID(), r.user)
		move, err := r.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = move.Exec(t.Context(), "select from chats where user_id = $1 for update", r.user)
		require.NoError(t, err)
		answered := make(chan testkit.Answer, 1)
		go func() {
			answer, err := ask()
			assert.NoError(t, err)
			answered <- answer
		}()
		r.awaitLockWait("transactionid")
		for _, sql := range []string{
			"insert into throughline.departed (user_id, why, cell) values ($1, 'moved', 'c')", "delete from throughline.accounts where user_id = $1",
		} {
			_, err = move.Exec(t.Context(), sql, r.user)
			require.NoError(t, err)
		}
		require.NoError(t, move.Commit(t.Context()))
		got := testkit.Receive(t, "an answer", answered)
		assert.Equal(t, "wrong_cell", got.Code(), "%s: %d %s", what, got.Status, got.Text)
	}
}
