package httpapi

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// remember stores what the user writes, and returns its path.
func (k keeper) remember(content string) string {
	k.t.Helper()
	var made history.Memory
	k.want(http.StatusCreated, http.MethodPost, "/v1/memories", marshal(map[string]any{"content": content}), &made)
	return "/v1/memories/" + made.ID.String()
}

// The shape of a memory is a contract.
func TestMemoryHasItsFields(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	answer := k.want(http.StatusCreated, http.MethodPost, "/v1/memories",
		`{"content": " Prefers oat milk. ", "type": "preference", "durable": true, "pinned": null}`, nil)
	var made map[string]any
	answer.decode(t, &made)
	fields := strings.Fields(`access_count confidence conflicts_with content created_at durable edited id lang last_accessed memory_type origin pinned
		recorded_at retracted_at source_session_id sources status superseded_by updated_at valid_from valid_to version`)
	if diff := cmp.Diff(fields, slices.Sorted(maps.Keys(made))); diff != "" {
		t.Error(diff)
	}
	path := "/v1/memories/" + made["id"].(string)
	if got := answer.header.Get("Location"); got != path {
		t.Errorf("Location is %q", got)
	}
	if made["content"] != "Prefers oat milk." || made["memory_type"] != "preference" || made["durable"] != true || made["origin"] != "user" {
		t.Errorf("made %s", answer.body)
	}
	if read := k.want(http.StatusOK, http.MethodGet, path, "", nil); string(read.body) != string(answer.body) {
		t.Errorf("read %s", read.body)
	}
	if again := k.want(http.StatusOK, http.MethodPost, "/v1/memories", `{"content": "prefers oat milk"}`, nil); string(again.body) != string(answer.body) {
		t.Errorf("again %s", again.body)
	}
	chatID := k.newChat("").ID
	said := k.talk(chatID, 1)
	testkit.Exec(t, k.pool, `insert into memory_sources (memory_id, message_id, user_id, chat_id, seq, fact, quote, said_at)
		select $1, m.id, m.user_id, m.chat_id, m.seq, 'f', 'message', m.created_at from messages m where m.id = $2`, made["id"], said[0])
	k.want(http.StatusOK, http.MethodGet, path, "", nil).decode(t, &made)
	source := made["sources"].([]any)[0].(map[string]any)
	if diff := cmp.Diff(strings.Fields("chat_id message_id quote said_at seq"), slices.Sorted(maps.Keys(source))); diff != "" ||
		source["quote"] != "message" || source["seq"] != 1.0 {
		t.Errorf("%v %s", source, diff)
	}
	var changed history.Memory
	k.want(http.StatusOK, http.MethodPatch, path, `{"content": "Prefers soy milk.", "pinned": true, "type": "fact", "status": "inbox"}`, &changed)
	if changed.Content != "Prefers soy milk." || !changed.Pinned || changed.MemoryType != "fact" || changed.Status != "inbox" || !changed.Edited ||
		changed.Version != 2 {
		t.Errorf("changed %+v", changed)
	}
	var made2 map[string][]map[string]any
	k.want(http.StatusOK, http.MethodGet, path+"/history", "", nil).decode(t, &made2)
	first := made2["revisions"][0]
	if diff := cmp.Diff(strings.Fields("action actor content created_at memory_id model prompt_ref reason version"),
		slices.Sorted(maps.Keys(first))); diff != "" || len(made2["revisions"]) != 2 ||
		first["action"] != "ADD" || first["actor"] != "user" || made2["revisions"][1]["content"] != "Prefers soy milk." {
		t.Errorf("%v %s", made2, diff)
	}
	k.want(http.StatusNoContent, http.MethodDelete, path+"?also=summaries", "", nil)
	k.want(http.StatusNotFound, http.MethodGet, path, "", nil)
}

// Every route of memories once, beside those above.
func TestRoutesOfMemories(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	const all, settings = "/v1/memories", "/v1/memories/settings"
	k.walk(ask{get, all, "", 200, `{"memories":[],"next_cursor":null}`})
	k.remember("Her knee hurts <a lot>.")
	k.remember("Plays the cello.")
	var proposed struct{ Token string }
	k.want(http.StatusOK, post, all+"/forget", `{"query": "unicorns"}`, nil)
	if answer := k.want(http.StatusOK, post, all+"/forget", `{"query": "my knee"}`, &proposed); strings.Contains(string(answer.body), "forgotten") {
		t.Errorf("%s", answer.body)
	}
	file := k.want(http.StatusOK, get, all+"/export", "", nil)
	if got := file.header.Get("Content-Disposition"); got != `attachment; filename="memories.jsonl"` || file.header.Get("Content-Type") != mediaLines {
		t.Errorf("%q, %q", got, file.header.Get("Content-Type"))
	}
	k.walk(
		ask{get, all + "?limit=1", "", 200, `"content":"Plays the cello."|"next_cursor":"`},
		ask{get, all + "?q=knees&type=fact&status=active&as_of=" + time.Now().UTC().Format(time.DateOnly), "", 200, `"content":"Her knee hurts `},
		ask{get, all + "?as_of=2020-01-01", "", 200, `"memories":[]`},
		ask{post, all + "/forget", marshal(map[string]string{"token": proposed.Token}), 200, `{"forgotten":1}`},
		ask{get, settings, "", 200, `{"enabled":true,"time_zone":null,"language":null,"excluded":[]}`},
		ask{patch, settings, `{"enabled": false, "time_zone": "America/Lima", "language": "pt-BR", "excluded": [" a ", "a", "b"]}`, 200,
			`{"enabled":false,"time_zone":"America/Lima","language":"pt-BR","excluded":["a","b"]}`},
		ask{patch, settings, `{"time_zone": null}`, 200, `"time_zone":null,"language":"pt-BR"`},
		ask{remove, all, "", 200, `{"memories":1,"sources":0,"revisions":1,"entities":0,"relationships":0}`},
	)
	if !strings.Contains(string(file.body), `"content":"Her knee hurts <a lot>."`) {
		t.Errorf("exported %s", file.body)
	}
	k.user = testkit.NewUser(t, k.db)
	for _, c := range []struct {
		kind, body string
		status     int
		holds      string
	}{
		{mediaLines, string(file.body), 200, `{"format":"throughline","imported":2,"skipped":0,"refused":[]}`},
		{mediaLines, string(file.body), 200, `{"format":"throughline","imported":0,"skipped":2,"refused":[]}`},
		{"text/plain", "- Prefers tea\n- " + strings.Repeat("x", 501) + "\n", 200,
			`{"format":"list","imported":1,"skipped":0,"refused":[{"line":2,"reason":"bad_length"}]}`},
		{mediaLines, `{"content": "Good."}` + "\n" + `{"content": ""}`, 422, `"line":2`},
		{"image/png", "x", 415, "unsupported_media_type"},
		{mediaLines, strings.Repeat(" ", maxMemoryImport+1), 413, "body_too_large"},
	} {
		done := k.call(post, all+"/import", c.body, "Content-Type", c.kind)
		if done.status != c.status || !strings.Contains(string(done.body), c.holds) {
			t.Errorf("%s: %d %.200s", c.kind, done.status, done.body)
		}
	}
}

func TestMemoryOffIsToldOverHTTP(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	path := k.remember("Plays the cello.")
	k.server.config.Memories = postgres.NewUserMemories(k.pool, postgres.UserMemoriesOptions{Off: true})
	k.server.config.Extracts = extractor{fails: history.MemoryOff()}
	for path, body := range map[string]string{"/v1/memories": `{"content": "x"}`, "/v1/memories/import": `{"content": "x"}`,
		"/v1/chats/" + exampleChat + "/extract": ""} {
		if answer := k.call(http.MethodPost, path, body); answer.status != http.StatusConflict || answer.error(t).Code != "memory_off" {
			t.Errorf("%s: %d %s", path, answer.status, answer.body)
		}
	}
	k.want(http.StatusOK, http.MethodGet, path, "", nil)
	k.want(http.StatusOK, http.MethodGet, "/v1/memories/export", "", nil)
	k.want(http.StatusNoContent, http.MethodDelete, path, "", nil)
	k.want(http.StatusOK, http.MethodDelete, "/v1/memories", "", nil)
}

// extractor answers with the same row for every chat.
type extractor struct {
	row   history.Extraction
	fails error
}

func (e extractor) Extract(_ context.Context, _ auth.Principal, chatID uuid.UUID) (history.Extraction, error) {
	e.row.ChatID = chatID
	return e.row, e.fails
}

func TestExtractionAnswersTheLedger(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	k.server.config.Extracts = extractor{row: history.Extraction{
		ID: uuid.New(), SeqFrom: 1, SeqTo: 4, Turns: 2, Result: "done", Candidates: 3, Added: 2, Noops: 1, Dropped: json.RawMessage(`{"moment":1}`),
		Calls: 2, Model: new("gpt"),
	}}
	var row map[string]any
	k.want(http.StatusOK, http.MethodPost, "/v1/chats/"+exampleChat+"/extract", "", nil).decode(t, &row)
	fields := strings.Fields(`added calls candidates chat_id created_at dropped duration_ms id input_tokens model noops output_tokens prompt_ref ` +
		`result seq_from seq_to superseded turns updated`)
	if diff := cmp.Diff(fields, slices.Sorted(maps.Keys(row))); diff != "" || row["chat_id"] != exampleChat || row["result"] != "done" {
		t.Errorf("%v %s", row, diff)
	}
	k.server.config.Extracts = extractor{fails: fault.NoChat()}
	k.want(http.StatusNotFound, http.MethodPost, "/v1/chats/"+exampleChat+"/extract", "{}", nil)
}
