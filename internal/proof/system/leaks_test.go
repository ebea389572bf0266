package system

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
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

// foundIn returns the kinds of those that a text contains.
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
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	a.seen["the log"].WriteString(a.logs.String())

	if missing := cmp.Diff(slices.Sorted(maps.Keys(a.all)), a.all.foundIn(belongs)); missing != "" {
		t.Errorf("what the search does not find where it belongs:\n%s", missing)
	}
	for place, mark := range map[string]string{
		"the log": `"handler panicked"`, "the metrics": "throughline_folds_total", "River's tables": a.chatID, "River's pages": `"fold_brief"`,
		"notifications": "throughline_replies", "broadcasts": a.chatID, "statements": "$1",
	} {
		text := a.seen[place].String()
		if !strings.Contains(text, mark) {
			t.Errorf("%s were not looked at: no %s in %d bytes", place, mark, len(text))
		}
		if found := a.all.foundIn(text); len(found) > 0 {
			t.Errorf("%s hold the %s", place, strings.Join(found, ", the "))
		}
	}
	for _, line := range []string{`"tool panicked"`, `"fold ended"`, `"request failed"`, "fetching the key set failed", `"notifications are lost`} {
		if !strings.Contains(a.logs.String(), line) {
			t.Errorf("what should go wrong did not: the log has no %s", line)
		}
	}
}

func newLeakRig(t *testing.T) *leakRig {
	t.Helper()
	server := testkit.NewServer(t)
	withPassword := func(dsn string) string {
		address, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		address.User = url.UserPassword(address.User.Username(), secrets["database password"])
		return address.String()
	}
	const project = "http://127.0.0.1:1" // nobody publishes keys there
	r := newStoppedRig(t, server.Database, words.script(), env{
		"DATABASE_URL": withPassword(server.DSN), "DATABASE_DIRECT_URL": withPassword(server.Direct()),
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
	t.Helper()
	token, err := jwt.NewWithClaims(method, jwt.MapClaims{
		"iss": r.env["SUPABASE_URL"] + "/auth/v1", "sub": r.user.String(), "aud": "authenticated", "role": "authenticated", "exp": time.Now().Add(time.Hour).Unix(),
		"email": words["mail"] + "@example.test", "phone": words["phone"], "user_metadata": map[string]any{"note": words["metadata"]},
	}).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// connect opens the connections that watch the database.
func (a *leakRig) connect() {
	a.t.Helper()
	for _, conn := range []**pgx.Conn{&a.listener, &a.admin} {
		opened, err := pgx.Connect(a.t.Context(), a.server.AdminDSN)
		if err != nil {
			a.t.Fatal(err)
		}
		a.t.Cleanup(func() { _ = opened.Close(context.WithoutCancel(a.t.Context())) })
		*conn = opened
	}
	for _, channel := range []string{"throughline_replies", "throughline_cancels", "river.river_insert", "river.river_control", "river.river_leadership"} {
		testkit.Exec(a.t, a.listener, "listen "+pgx.Identifier{channel}.Sanitize())
	}
}

// collect adds what the database and the metrics show now.
func (a *leakRig) collect() {
	a.t.Helper()
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
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// permittedPlaces returns the text of the tables for users' words, of the configuration and of the prompts.
func (a *leakRig) permittedPlaces() string {
	a.t.Helper()
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
	a.t.Helper()
	return testkit.Ask[string](a.t, a.admin, "select coalesce(string_agg(r::text, ' '), '') from "+name+" r")
}
