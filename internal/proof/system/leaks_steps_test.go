package system

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/jobs"
)

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
	a.t.Helper()
	got := a.Call(http.MethodPost, "/mcp", testkit.Body{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": testkit.Body{"name": name, "arguments": arguments},
	}, "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18")
	if got.Status != http.StatusOK || !strings.Contains(got.Text, `"result"`) {
		a.t.Errorf("the tool %s: %d %s", name, got.Status, got.Text)
	}
}

// sendInvalidRequests sends invalid requests with words and credentials everywhere.
func (a *leakRig) sendInvalidRequests() {
	a.t.Helper()
	word := words["content"]
	for _, bad := range []testkit.Body{
		{"content": word, "model_variant": word}, {word: 1}, {"content": 7, "sources": word}, {"content": word, "client_message_id": word},
		{"content": word, "files": []testkit.Body{{"path": words["path"] + "\x01", "content": words["file"]}}}, {"content": strings.Repeat(word, 2000)},
	} {
		if got := a.Call(http.MethodPost, "/v1/message/first", bad); got.Status < 400 || got.Status > 499 {
			a.t.Errorf("%.80v: %d", bad, got.Status)
		}
	}
	for _, c := range [][3]string{
		{"POST", "/v1/message/first", `{"content":"` + word}, {"POST", "/v1/chats/import", `{"role":"` + word + `","content":"` + word + `"}`},
		{"POST", "/v1/chats/import", word}, {"GET", "/v1/chats/" + word, ""}, {"GET", "/" + word + "?q=" + word, ""}, {"GET", "/v1/search?cursor=" + word, ""},
		{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"` + word + `"}`}, {"GET", "/v1/message/" + a.chatID + "/stream?after=" + word, ""},
		{"POST", "/v1/message", `{"chat_id":"` + uuid.NewString() + `","content":"` + word + `"}`}, {word, "/", ""},
	} {
		request, err := http.NewRequestWithContext(a.t.Context(), c[0], a.Base+c[1], strings.NewReader(c[2]))
		if err != nil {
			a.t.Fatal(err)
		}
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
	if err != nil {
		a.t.Fatal(err)
	}
	for _, header := range []string{
		"Bearer " + a.token + "x", "Basic " + a.token, "Bearer " + word, "Bearer " + secrets["secret key"],
		"Bearer " + tokenWithContacts(a.t, a.rig, jwt.SigningMethodES256, key), // asks for the keys
	} {
		request := a.Request(a.t.Context(), http.MethodGet, "/v1/chats", nil, "Authorization", header)
		if got := a.Do(request); got.Status != http.StatusUnauthorized && got.Status != http.StatusServiceUnavailable || len(a.all.foundIn(got.Text)) > 0 {
			a.t.Errorf("%.20s: %d %s", header, got.Status, got.Text)
		}
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

func (p *panicking) Rebuild(ctx context.Context, chatID uuid.UUID, _ brief.Job) (brief.Report, error) {
	p.broken[chatID] = fmt.Sprint(ctx)
	return brief.Report{}, nil
}

// panics makes handlers panic for certain words, and rebuild jobs always.
var panics = app.Doubles{
	Turns:  func(store chat.Store) chat.Store { return &panicking{Store: store} },
	Folder: func(folder jobs.Folder) jobs.Folder { return &panicking{Folder: folder} },
}

// causePanics makes a handler, a tool and a job panic.
func (a *leakRig) causePanics() {
	a.t.Helper()
	got := a.Call(http.MethodPost, "/v1/message/first", testkit.Body{"content": "Panic over this one: " + words["content"]})
	if got.Status != http.StatusInternalServerError || len(a.all.foundIn(got.Text)) > 0 {
		a.t.Errorf("a panic is answered with %d %s", got.Status, got.Text)
	}
	a.tool("chat", testkit.Body{"prompt": "Panic over this one: " + words["tool"]})
	// A covered message is edited, which makes the brief stale.
	testkit.Exec(a.t, a.admin, "update public.messages set content = content || ' indeed' where chat_id = $1 and seq = 1", uuid.MustParse(a.chatID))
	testkit.Eventually(a.t, "a job panicked", func() bool {
		return testkit.Ask[bool](a.t, a.pool, "select exists (select from river.river_job where kind = 'rebuild_brief' and cardinality(errors) > 0)")
	})
}

// failModel makes replies and folds fail in several ways.
func (a *leakRig) failModel() {
	a.t.Helper()
	for _, directive := range []string{"401", "500", "cut", "failed", "error_event", "invalid_utf8"} {
		s, err := a.TryOpen(http.MethodPost, "/v1/message/first", testkit.Body{"content": words["content"] + " [[offline:" + directive + "]]"})
		if err != nil {
			a.t.Fatal(err)
		}
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
		return a.count("select count(*) from river.river_job where kind = 'fold_brief' and cardinality(errors) > 0") == 1 &&
			a.count("select count(*) from throughline.work where failure like 'refused%'") == 1
	})
}

// readRiverUI reads the pages of River UI as an operator.
func (a *leakRig) readRiverUI() {
	a.t.Helper()
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
		if got.Status != http.StatusOK {
			a.t.Errorf("%s: %d %s", path, got.Status, got.Text)
		}
		fmt.Fprintln(a.seen["River's pages"], got.Text)
	}
}

// breakPostgres sends messages while Postgres is away.
func (a *leakRig) breakPostgres() {
	a.t.Helper()
	a.server.Crash()
	for _, payload := range []testkit.Body{{"chat_id": a.chatID, "content": words["content"]}, {"chat_id": a.chatID, "content": words["phone"]}} {
		if got := a.Call(http.MethodPost, "/v1/message", payload); got.Status != http.StatusServiceUnavailable || len(a.all.foundIn(got.Text)) > 0 {
			a.t.Errorf("without Postgres: %d %s", got.Status, got.Text)
		}
	}
	a.tool("chat", testkit.Body{"prompt": words["tool"]})
	testkit.Eventually(a.t, "the listener missed Postgres", func() bool { return strings.Contains(a.logs.String(), "notifications are lost") })
	a.server.Start()
}
