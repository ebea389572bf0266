package system

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/arcoscribe/throughline/jobs"
)

// Texts that must not leak: words are a user's, secrets are the operator's.
var (
	words = canaries{
		"title": "canary-title-5c1e", "content": "canary-content-8d02", "reply": "canary-reply-77aa", "brief": "canary-brief-19f3",
		"file": "canary-file-4b4b", "path": "canary-path-0e6d", "source": "canary-source-91c7", "metadata": "canary-metadata-3a58",
		"instructions": "canary-instructions-6f10", "tag": "canary-tag-c2d9", "mail": "canary.mail.2f7b", "phone": "491555012345678", "tool": "canary-tool-a9a1",
	}
	secrets = canaries{
		"jwt secret": "canary-jwt-secret-that-is-long-enough-71c0", "API key": "sk-canary-key-d41f", "database password": "canary-password-b8e2",
		"secret key": "sb_secret_canary_9d3c", "River UI password": "canary-river-password-55e0",
	}
)

// canaries are recognisable texts by their kind.
type canaries map[string]string

// foundIn returns the kinds of the ones that a text contains.
func (c canaries) foundIn(text string) []string {
	var found []string
	for what, canary := range c {
		if strings.Contains(text, canary) {
			found = append(found, what)
		}
	}
	slices.Sort(found)
	return found
}

// leakRig is a rig with a server that has every secret, and collects everything that leaves it.
type leakRig struct {
	*rig
	server *testkit.Server
	all    canaries
	// seen has the text of each place that must not contain a canary.
	seen     map[string]*strings.Builder
	listener *pgx.Conn
	admin    *pgx.Conn
	chatID   string
}

// A user's words and the operator's secrets are only in the tables for them and in answers to that user: not in the log
// at its most detailed level, the metrics, River's tables and pages, notifications, broadcasts or the texts of statements,
// also while the model and Postgres fail, handlers and workers panic, and requests are invalid. Answers to other users
// are looked at by TestRequestsAcrossTenants. As a control, the same search finds each canary in the permitted places.
func TestCanaries(t *testing.T) {
	t.Parallel()
	a := newLeakRig(t)
	a.useEverything()
	a.collect()
	a.sendInvalidRequests()
	a.causePanics()
	a.collect()
	a.failModel()
	a.collect()
	belongs := a.permittedPlaces()
	a.readRiverUI()
	a.breakPostgres()
	assert.NoError(t, a.stop())
	a.seen["the log"].WriteString(a.logs.String())

	assert.Equal(t, "", cmp.Diff(slices.Sorted(maps.Keys(a.all)), a.all.foundIn(belongs)),
		"what the search does not find where it belongs:\n")
	for place, mark := range map[string]string{
		"the log": `"handler panicked"`, "the metrics": "throughline_folds_total", "River's tables": a.chatID, "River's pages": `"fold_brief"`,
		"notifications": "throughline_replies", "broadcasts": a.chatID, "statements": "$1",
	} {
		text := a.seen[place].String()
		assert.Containsf(t, text, mark, "%s were not looked at: no %s in %d bytes", place, mark, len(text))
		if found := a.all.foundIn(text); len(found) > 0 {
			t.Errorf("%s hold the %s", place, strings.Join(found, ", the "))
		}
	}
	for _, line := range []string{`"tool panicked"`, `"fold ended"`, `"request failed"`, "fetching the key set failed", `"notifications are lost`} {
		assert.Containsf(t, a.logs.String(), line, "what should go wrong did not: the log has no %s", line)
	}
}

func newLeakRig(t *testing.T) *leakRig {
	t.Helper()
	server := testkit.NewServer(t)
	withPassword := func(dsn string) string {
		address, err := url.Parse(dsn)
		require.NoError(t, err)
		address.User = url.UserPassword(address.User.Username(), secrets["database password"])
		return address.String()
	}
	const project = "http://127.0.0.1:1" // no server publishes keys there
	r := newStoppedRig(t, server.Database, words.script(), env{
		"DATABASE_URL": withPassword(server.ServerDSN), "DATABASE_DIRECT_URL": withPassword(server.Direct()),
		"SUPABASE_URL": project, "SUPABASE_JWT_SECRET": secrets["jwt secret"], "SUPABASE_SECRET_KEY": secrets["secret key"],
		"OPENAI_API_KEY": secrets["API key"], "RIVER_UI": "true", "RIVER_UI_USER": "ops", "RIVER_UI_PASSWORD": secrets["River UI password"],
		"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "60", "MEMORY_K_RAW_TURNS": "1",
	})
	r.drain = time.Second
	r.newUser()
	r.token = tokenWithContacts(t, r, jwt.SigningMethodHS256, []byte(secrets["jwt secret"]))
	a := &leakRig{rig: r, server: server, all: maps.Clone(words), seen: map[string]*strings.Builder{}}
	maps.Copy(a.all, secrets)
	a.all["access token"] = r.token
	a.all["access token's signature"] = r.token[strings.LastIndex(r.token, ".")+1:]
	for _, place := range []string{
		"the log", "the metrics", "River's tables", "River's pages", "notifications", "broadcasts", "statements",
	} {
		a.seen[place] = &strings.Builder{}
	}
	a.connect()
	testkit.Exec(t, a.admin, "update auth.users set email = $2, phone = $3 where id = $1", r.user, words["mail"]+"@example.test", words["phone"])
	r.node = r.start(app.Role{API: true, Workers: true}, nil, panics)
	return a
}

// script is a model that repeats canaries. Directives make it fail.
func (c canaries) script() testkit.Script {
	return func(request *offline.Request) offline.Answer {
		switch {
		case request.Kind == offline.KindSummary && strings.Contains(request.Text, "Refuse this one"):
			return offline.Answer{Fault: offline.FaultRefusal}
		case request.Kind == offline.KindSummary && strings.Contains(request.Text, "Break on this one"):
			return offline.Answer{Fault: offline.Fault401}
		case request.Kind == offline.KindSummary:
			return offline.Answer{Text: "The user wants " + c["brief"] + " and has said so all day."}
		case strings.Contains(request.Current, "[[offline:"):
			return offline.Answer{}
		}
		return offline.Answer{Text: "Noted: " + c["reply"] + " will be remembered."}
	}
}

// tokenWithContacts returns an access token as a project signs it, with its user's address and number.
func tokenWithContacts(t *testing.T, r *rig, method jwt.SigningMethod, key any) string {
	token, err := jwt.NewWithClaims(method, jwt.MapClaims{
		"iss": r.env["SUPABASE_URL"] + "/auth/v1", "sub": r.user.String(), "aud": "authenticated", "role": "authenticated", "exp": time.Now().Add(time.Hour).Unix(),
		"email": words["mail"] + "@example.test", "phone": words["phone"], "user_metadata": map[string]any{"note": words["metadata"]},
	}).SignedString(key)
	require.NoError(t, err)
	return token
}

// connect opens the connections that watch the database.
func (a *leakRig) connect() {
	for _, conn := range []**pgx.Conn{&a.listener, &a.admin} {
		opened, err := pgx.Connect(a.t.Context(), a.server.AdminDSN)
		require.NoError(a.t, err)
		a.t.Cleanup(func() { _ = opened.Close(context.WithoutCancel(a.t.Context())) })
		*conn = opened
	}
	for _, channel := range []string{"throughline_replies", "throughline_cancels", "river.river_insert", "river.river_control", "river.river_leadership"} {
		testkit.Exec(a.t, a.listener, "listen "+pgx.Identifier{channel}.Sanitize())
	}
}

// collect adds what the database and the metrics show now.
func (a *leakRig) collect() {
	for place, sql := range map[string]string{
		"broadcasts": `select coalesce(string_agg(m::text, ' '), '') from realtime.messages m`,
		"statements": `select coalesce(string_agg(concat_ws(' ', application_name, query), ' '), '') from pg_stat_activity where pid <> pg_backend_pid()`,
	} {
		fmt.Fprintln(a.seen[place], testkit.Ask[string](a.t, a.admin, sql))
	}
	for _, table := range testkit.Ask[[]string](a.t, a.admin,
		"select array_agg(c.oid::regclass::text) from pg_class c where relnamespace = 'river'::regnamespace and relkind = 'r'") {
		fmt.Fprintln(a.seen["River's tables"], a.table(table))
	}
	fmt.Fprintln(a.seen["the metrics"], a.Call(http.MethodGet, "/metrics", nil).Text)
	testkit.Exec(a.t, a.listener, "select 1") // takes in what has come
	for {
		received, err := a.listener.WaitForNotification(canceledContext(a.t))
		if err != nil {
			return
		}
		fmt.Fprintln(a.seen["notifications"], received.Channel, received.Payload)
	}
}

// canceledContext returns a context with which WaitForNotification returns only what has come already.
func canceledContext(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// permittedPlaces returns the text of the tables for users' words, of the configuration and of the prompts.
func (a *leakRig) permittedPlaces() string {
	text := fmt.Sprint(a.env, a.token)
	for _, table := range []string{
		"public.chats", "public.messages", "public.chat_files", "public.message_files", "public.conversation_briefs", "public.conversation_brief_revisions",
		"public.conversation_brief_drafts", "auth.users",
	} {
		text += a.table(table)
	}
	for _, request := range a.model.Requests() {
		text += request.Text // a source is in no table
	}
	return text
}

// table returns the text of a table's rows.
func (a *leakRig) table(name string) string {
	return testkit.Ask[string](a.t, a.admin, "select coalesce(string_agg(r::text, ' '), '') from "+name+" r")
}

// useEverything sends every kind of word, and has it folded, changed, searched, exported and imported.
func (a *leakRig) useEverything() {
	a.t.Helper()
	made := a.wanted(http.StatusCreated, http.MethodPost, "/v1/chats", testkit.Body{
		"title": words["title"], "system_prompt": words["instructions"], "tags": []string{words["tag"]}, "metadata": testkit.Body{"note": words["metadata"]},
	})
	a.chatID = made["id"].(string)
	a.Send(a.chatID, testkit.Body{
		"content":  "Write to " + words["mail"] + "@example.test or call " + words["phone"] + " about " + words["content"] + ".",
		"files":    []testkit.Body{{"path": words["path"] + ".md", "content": words["file"]}},
		"sources":  []testkit.Body{{"title": words["source"], "url": "https://" + words["source"] + ".example", "content": words["source"]}},
		"metadata": testkit.Body{"note": words["metadata"]},
	}).Rest()
	for _, content := range []string{"Second ", "Third ", "Fourth "} {
		a.Say(a.chatID, content+words["content"])
	}
	a.awaitFolds()
	chat := "/v1/chats/" + a.chatID
	a.wanted(http.StatusOK, http.MethodPatch, chat, testkit.Body{"title": words["title"] + " again"})
	for _, path := range []string{chat, chat + "/messages", chat + "/files", chat + "/memory", chat + "/memory/revisions", chat + "/export?format=jsonl",
		"/v1/chats?tag=" + words["tag"], "/v1/search?q=" + words["content"], "/v1/stats"} {
		if got := a.Call(http.MethodGet, path, nil); got.Status != http.StatusOK || len(secrets.foundIn(got.Text)) > 0 {
			a.t.Errorf("%s: %d, tells the %v", path, got.Status, secrets.foundIn(got.Text))
		}
	}
	a.imports(`{"role":"user","content":"` + words["content"] + `"}` + "\n")
	a.tool("chat", testkit.Body{"prompt": words["tool"], "files": []testkit.Body{{"path": words["path"], "content": words["file"]}}})
	a.tool("search_history", testkit.Body{"query": words["tool"]})
}

// tool calls a tool of the Model Context Protocol.
func (a *leakRig) tool(name string, arguments testkit.Body) {
	got := a.Call(http.MethodPost, "/mcp", testkit.Body{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": testkit.Body{"name": name, "arguments": arguments},
	}, "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18")
	assert.Truef(a.t, got.Status == http.StatusOK && strings.Contains(got.Text, `"result"`),
		"the tool %s: %d %s", name, got.Status, got.Text)
}

// sendInvalidRequests sends invalid requests with words and credentials everywhere.
func (a *leakRig) sendInvalidRequests() {
	a.t.Helper()
	word := words["content"]
	for _, bad := range []testkit.Body{
		{"content": word, "model_variant": word}, {word: 1}, {"content": 7, "sources": word}, {"content": word, "client_message_id": word},
		{"content": word, "files": []testkit.Body{{"path": words["path"] + "\x01", "content": words["file"]}}}, {"content": strings.Repeat(word, 2000)},
	} {
		got := a.Call(http.MethodPost, "/v1/message/first", bad)
		assert.Truef(a.t, got.Status >= 400 && got.Status <= 499, "%.80v: %d", bad, got.Status)
	}
	for _, c := range [][3]string{
		{"POST", "/v1/message/first", `{"content":"` + word}, {"POST", "/v1/chats/import", `{"role":"` + word + `","content":"` + word + `"}`},
		{"POST", "/v1/chats/import", word}, {"GET", "/v1/chats/" + word, ""}, {"GET", "/" + word + "?q=" + word, ""}, {"GET", "/v1/search?cursor=" + word, ""},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"` + word + `"}`}, {"GET", "/v1/message/" + a.chatID + "/stream?after=" + word, ""},
		{"POST", "/v1/message", `{"chat_id":"` + uuid.NewString() + `","content":"` + word + `"}`}, {word, "/", ""},
	} {
		request, err := http.NewRequestWithContext(a.t.Context(), c[0], a.Base+c[1], strings.NewReader(c[2]))
		require.NoError(a.t, err)
		request.Header.Set("Authorization", "Bearer "+a.Token)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Last-Event-ID", word)
		request.Header.Set("Cookie", "session="+word)
		request.Header.Set("User-Agent", word)
		if got := a.Do(request); got.Status < 400 || got.Status > 499 {
			a.t.Errorf("%s %s %s: %d", c[0], c[1], c[2], got.Status)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	for _, header := range []string{
		"Bearer " + a.token + "x", "Basic " + a.token, "Bearer " + word, "Bearer " + secrets["secret key"],
		"Bearer " + tokenWithContacts(a.t, a.rig, jwt.SigningMethodES256, key), // asks for the keys
	} {
		request := a.Request(a.t.Context(), http.MethodGet, "/v1/chats", nil, "Authorization", header)
		got := a.Do(request)
		assert.Truef(a.t, (got.Status == http.StatusUnauthorized || got.Status == http.StatusServiceUnavailable) && len(a.all.foundIn(got.Text)) == 0,
			"%.20s: %d %s", header, got.Status, got.Text)
	}
}

// panicking is a store and a folder that panic on request.
type panicking struct {
	chat.Store
	jobs.Folder
	broken map[uuid.UUID]string // is nil, so that writing to it panics
}

func (p *panicking) StartTurn(ctx context.Context, user auth.Principal, turn chat.NewTurn) (chat.StartedTurn, error) {
	if strings.Contains(turn.Content, "Panic over this one") {
		p.broken[turn.ChatID] = turn.Content
	}
	return p.Store.StartTurn(ctx, user, turn)
}

func (p *panicking) Fold(ctx context.Context, chatID uuid.UUID, attempt work.Attempt) (brief.Report, error) {
	if chatID == uuid.Nil {
		p.broken[chatID] = fmt.Sprint(ctx)
	}
	return p.Folder.Fold(ctx, chatID, attempt)
}

// panics makes handlers panic for certain words, and folds of no chat always.
var panics = app.Doubles{
	Turns:  func(store chat.Store) chat.Store { return &panicking{Store: store} },
	Folder: func(folder jobs.Folder) jobs.Folder { return &panicking{Folder: folder} },
}

// causePanics makes a handler, a tool and a job panic.
func (a *leakRig) causePanics() {
	got := a.Call(http.MethodPost, "/v1/message/first", testkit.Body{"content": "Panic over this one: " + words["content"]})
	assert.Truef(a.t, got.Status == http.StatusInternalServerError && len(a.all.foundIn(got.Text)) == 0,
		"a panic is answered with %d %s", got.Status, got.Text)
	a.tool("chat", testkit.Body{"prompt": "Panic over this one: " + words["tool"]})
	testkit.Exec(a.t, a.admin, "update public.messages set content = content || ' indeed' where chat_id = $1 and seq = 1", uuid.MustParse(a.chatID))
	testkit.Exec(a.t, a.admin, "insert into river.river_job (kind, queue, max_attempts, args) values ('fold_brief', 'memory', 1, '{}')")
	testkit.Eventually(a.t, "a job panicked", func() bool {
		return testkit.Ask[bool](a.t, a.pool, "select exists (select from river.river_job where args = '{}' and kind = 'fold_brief' and cardinality(errors) > 0)")
	})
}

// failModel makes replies and folds fail in several ways.
func (a *leakRig) failModel() {
	a.t.Helper()
	for _, directive := range []string{"401", "500", "cut", "failed", "error_event"} {
		s, err := a.TryOpen(http.MethodPost, "/v1/message/first", testkit.Body{"content": words["content"] + " [[offline:" + directive + "]]"})
		require.NoError(a.t, err)
		if _, err := io.Copy(io.Discard, s.Response.Body); err != nil {
			a.t.Error(err)
		}
	}
	for _, what := range []string{"Refuse this one", "Break on this one"} {
		chatID := a.Say("", what+" "+words["content"]).ChatID
		for range 3 {
			a.Say(chatID, "And "+words["content"]+strings.Repeat(" and", 30))
		}
	}
	testkit.Eventually(a.t, "folds failed", func() bool {
		return a.count("select count(*) from river.river_job where kind = 'fold_brief' and args <> '{}' and cardinality(errors) > 0") == 1 &&
			a.count("select count(*) from throughline.work where failure like 'refused%'") == 1
	})
}

// readRiverUI reads the pages of River UI as an operator.
func (a *leakRig) readRiverUI() {
	paths := []string{"/river/", "/river/api/queues", "/river/api/states", "/river/api/queues/memory"}
	for _, state := range []string{"available", "cancelled", "completed", "discarded", "retryable", "running", "scheduled"} {
		paths = append(paths, "/river/api/jobs?limit=100&state="+state)
	}
	ids := testkit.Ask[[]int64](a.t, a.pool, "select coalesce(array_agg(id), '{}') from river.river_job where kind <> 'sweep_briefs'")
	for _, id := range ids {
		paths = append(paths, fmt.Sprintf("/river/api/jobs/%d", id))
	}
	for _, path := range paths {
		request := a.Request(a.t.Context(), http.MethodGet, path, nil)
		request.SetBasicAuth("ops", secrets["River UI password"])
		got := a.Do(request)
		assert.Truef(a.t, got.Status == http.StatusOK, "%s: %d %s", path, got.Status, got.Text)
		fmt.Fprintln(a.seen["River's pages"], got.Text)
	}
}

// breakPostgres sends messages while Postgres is away.
func (a *leakRig) breakPostgres() {
	a.server.Crash()
	for _, payload := range []testkit.Body{{"chat_id": a.chatID, "content": words["content"]}, {"chat_id": a.chatID, "content": words["phone"]}} {
		got := a.Call(http.MethodPost, "/v1/message", payload)
		assert.Truef(a.t, got.Status == http.StatusServiceUnavailable && len(a.all.foundIn(got.Text)) == 0,
			"without Postgres: %d %s", got.Status, got.Text)
	}
	a.tool("chat", testkit.Body{"prompt": words["tool"]})
	testkit.Eventually(a.t, "the listener missed Postgres", func() bool { return strings.Contains(a.logs.String(), "notifications are lost") })
	a.server.Start()
}
