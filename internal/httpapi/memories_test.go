package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
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

// contents are those of a list of memories.
func (k keeper) contents(query string) []string {
	k.t.Helper()
	var page struct {
		Memories []history.Memory `json:"memories"`
	}
	k.want(http.StatusOK, http.MethodGet, "/v1/memories"+query, "", &page)
	contents := []string{}
	for _, memory := range page.Memories {
		contents = append(contents, memory.Content)
	}
	return contents
}

// The shape of a memory is a contract.
func TestMemoryHasItsFields(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	answer := k.want(http.StatusCreated, http.MethodPost, "/v1/memories", `{"content": " Prefers oat milk. ", "type": "preference", "durable": true, "pinned": null}`, nil)
	var made map[string]any
	answer.decode(t, &made)
	fields := strings.Fields(`access_count confidence content created_at durable edited id lang last_accessed memory_type origin pinned recorded_at retracted_at
		source_session_id sources status superseded_by updated_at valid_from valid_to version`)
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
	if diff := cmp.Diff(strings.Fields("chat_id message_id quote said_at seq"), slices.Sorted(maps.Keys(source))); diff != "" || source["quote"] != "message" || source["seq"] != 1.0 {
		t.Errorf("%v %s", source, diff)
	}
	var changed history.Memory
	k.want(http.StatusOK, http.MethodPatch, path, `{"content": "Prefers soy milk.", "pinned": true, "type": "fact", "status": "inbox"}`, &changed)
	if changed.Content != "Prefers soy milk." || !changed.Pinned || changed.MemoryType != "fact" || changed.Status != "inbox" || !changed.Edited || changed.Version != 2 {
		t.Errorf("changed %+v", changed)
	}
	var made2 map[string][]map[string]any
	k.want(http.StatusOK, http.MethodGet, path+"/history", "", nil).decode(t, &made2)
	first := made2["revisions"][0]
	if diff := cmp.Diff(strings.Fields("action actor content created_at memory_id model prompt_ref reason version"), slices.Sorted(maps.Keys(first))); diff != "" || len(made2["revisions"]) != 2 ||
		first["action"] != "ADD" || first["actor"] != "user" || made2["revisions"][1]["content"] != "Prefers soy milk." {
		t.Errorf("%v %s", made2, diff)
	}
	k.want(http.StatusNoContent, http.MethodDelete, path+"?also=summaries", "", nil)
	k.want(http.StatusNotFound, http.MethodGet, path, "", nil)
}

func TestMemoryRefusals(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	known := k.remember("Plays the cello.")
	k.remember("Plays the viola.")
	unknown := "/v1/memories/" + uuid.NewString()
	longest := strings.Repeat("東", 500)
	for _, c := range []struct {
		method, path, body string
		want               fault.Code
	}{
		{"GET", unknown, "", fault.MemoryNotFound},
		{"PATCH", unknown, "{}", fault.MemoryNotFound},
		{"DELETE", unknown, "", fault.MemoryNotFound},
		{"GET", unknown + "/history", "", fault.MemoryNotFound},
		{"GET", "/v1/memories/7", "", fault.BadUUID},
		{"PATCH", "/v1/memories/7", "{}", fault.BadUUID},
		{"DELETE", "/v1/memories/" + strings.ToUpper("zz"), "", fault.BadUUID},
		{"GET", "/v1/memories/7/history", "", fault.BadUUID},
		{"POST", "/v1/memories", `{}`, fault.ValidationFailed},
		{"POST", "/v1/memories", `{"content": " \n"}`, fault.ValidationFailed},
		{"POST", "/v1/memories", `{"content": 7}`, fault.ValidationFailed},
		{"POST", "/v1/memories", `{"content": "` + longest + `x"}`, fault.ValidationFailed},
		{"POST", "/v1/memories", `{"content": "a\u0000"}`, fault.ValidationFailed},
		{"POST", "/v1/memories", `{"content": "a", "type": "wish"}`, fault.ValidationFailed},
		{"POST", "/v1/memories", `{"content": "a", "durable": "yes"}`, fault.ValidationFailed},
		{"POST", "/v1/memories", `{"content": "a", "status": "superseded"}`, fault.ValidationFailed},
		{"POST", "/v1/memories", `{"content": "a", "confidence": 1}`, fault.BadRequest},
		{"POST", "/v1/memories", `[]`, fault.BadRequest},
		{"PATCH", known, `{"content": ""}`, fault.ValidationFailed},
		{"PATCH", known, `{"content": null}`, fault.ValidationFailed},
		{"PATCH", known, `{"type": "x"}`, fault.ValidationFailed},
		{"PATCH", known, `{"status": "superseded"}`, fault.ValidationFailed},
		{"PATCH", known, `{"pinned": null}`, fault.ValidationFailed},
		{"PATCH", known, `{"id": "x"}`, fault.BadRequest},
		{"PATCH", known, `{"content": "plays the VIOLA"}`, fault.MemoryExists},
		{"DELETE", known + "?also=everything", "", fault.ValidationFailed},
		{"GET", "/v1/memories?type=x", "", fault.ValidationFailed},
		{"GET", "/v1/memories?status=x", "", fault.ValidationFailed},
		{"GET", "/v1/memories?limit=0", "", fault.ValidationFailed},
		{"GET", "/v1/memories?limit=201", "", fault.ValidationFailed},
		{"GET", "/v1/memories?as_of=yesterday", "", fault.ValidationFailed},
		{"GET", "/v1/memories?as_of=2026-13-01", "", fault.ValidationFailed},
		{"GET", "/v1/memories?q=" + strings.Repeat("x", 501), "", fault.ValidationFailed},
		{"GET", "/v1/memories?q=a%00", "", fault.ValidationFailed},
		{"GET", "/v1/memories?q=%ff", "", fault.ValidationFailed},
		{"GET", "/v1/memories?type=%ff", "", fault.ValidationFailed},
		{"GET", "/v1/memories?as_of=%ff", "", fault.ValidationFailed},
		{"GET", "/v1/graph?entity=%ff%fe", "", fault.ValidationFailed},
		{"GET", "/v1/graph?relationship=%ff", "", fault.ValidationFailed},
		{"GET", "/v1/graph?q=a%ff", "", fault.ValidationFailed},
		{"GET", "/v1/graph?entity=%00", "", fault.ValidationFailed},
		{"GET", "/v1/memories?cursor=x", "", fault.BadRequest},
		{"POST", "/v1/memories/forget", `{}`, fault.ValidationFailed},
		{"POST", "/v1/memories/forget", `{"query": " "}`, fault.ValidationFailed},
		{"POST", "/v1/memories/forget", `{"query": "a", "token": "b"}`, fault.ValidationFailed},
		{"POST", "/v1/memories/forget", `{"token": ""}`, fault.ValidationFailed},
		{"POST", "/v1/memories/forget", `{"token": "AAAA"}`, fault.ValidationFailed},
		{"PATCH", "/v1/memories/settings", `{"enabled": null}`, fault.ValidationFailed},
		{"PATCH", "/v1/memories/settings", `{"enabled": 1}`, fault.ValidationFailed},
		{"PATCH", "/v1/memories/settings", `{"time_zone": "Berlin"}`, fault.ValidationFailed},
		{"PATCH", "/v1/memories/settings", `{"time_zone": "Local"}`, fault.ValidationFailed},
		{"PATCH", "/v1/memories/settings", `{"language": "German"}`, fault.ValidationFailed},
		{"PATCH", "/v1/memories/settings", `{"excluded": [""]}`, fault.ValidationFailed},
		{"PATCH", "/v1/memories/settings", `{"excluded": "x"}`, fault.ValidationFailed},
		{"PATCH", "/v1/memories/settings", `{"version": 7}`, fault.BadRequest},
		{"POST", "/v1/chats/7/extract", "", fault.BadUUID},
	} {
		answer := k.call(c.method, c.path, c.body)
		if got := answer.error(t).Code; got != string(c.want) || answer.status != statuses[c.want] {
			t.Errorf("%s %s %.60s: %d %s", c.method, c.path, c.body, answer.status, answer.body)
		}
	}
	if k.remember(longest); len(k.contents("")) != 3 {
		t.Error("the longest is not there")
	}
}

func TestMemoriesAreListedOverHTTP(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	if got := k.want(http.StatusOK, http.MethodGet, "/v1/memories", "", nil); strings.TrimSpace(string(got.body)) != `{"memories":[],"next_cursor":null}` {
		t.Errorf("of nobody: %s", got.body)
	}
	for n := range 5 {
		k.remember(fmt.Sprintf("Owns boat %d.", n))
	}
	var page struct {
		Memories   []history.Memory `json:"memories"`
		NextCursor *string          `json:"next_cursor"`
	}
	seen := 0
	for path := "/v1/memories?limit=2"; path != ""; {
		k.want(http.StatusOK, http.MethodGet, path, "", &page)
		seen += len(page.Memories)
		path = ""
		if page.NextCursor != nil {
			path = "/v1/memories?limit=2&cursor=" + *page.NextCursor
		}
	}
	if seen != 5 {
		t.Errorf("seen %d", seen)
	}
	now := time.Now()
	for query, want := range map[string]int{
		"?q=boats&limit=3": 3, "?q=3": 1, "?type=fact": 5, "?type=pattern": 0, "?status=archived": 0, "?as_of=" + now.Add(time.Hour).UTC().Format(time.RFC3339): 5,
		"?as_of=2020-01-01": 0, "?as_of=" + now.UTC().Format(time.DateOnly): 5,
	} {
		if got := k.contents(query); len(got) != want {
			t.Errorf("%s: %v", query, got)
		}
	}
}

func TestForgettingInTwoSteps(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	k.remember("Her knee hurts.")
	k.remember("Plays the cello.")
	var proposed struct {
		Candidates []map[string]any `json:"candidates"`
		Token      string           `json:"token"`
	}
	answer := k.want(http.StatusOK, http.MethodPost, "/v1/memories/forget", `{"query": "my knee"}`, &proposed)
	if len(proposed.Candidates) != 1 || len(proposed.Candidates[0]) != 2 || proposed.Candidates[0]["content"] != "Her knee hurts." || strings.Contains(string(answer.body), "forgotten") {
		t.Fatalf("%s", answer.body)
	}
	done := k.want(http.StatusOK, http.MethodPost, "/v1/memories/forget", marshal(map[string]string{"token": proposed.Token}), nil)
	if strings.TrimSpace(string(done.body)) != `{"forgotten":1}` {
		t.Errorf("%s", done.body)
	}
	if got := k.contents(""); !slices.Equal(got, []string{"Plays the cello."}) {
		t.Errorf("left are %v", got)
	}
	nothing := k.want(http.StatusOK, http.MethodPost, "/v1/memories/forget", `{"query": "unicorns"}`, nil)
	if !strings.HasPrefix(string(nothing.body), `{"candidates":[],"token":"`) {
		t.Errorf("%s", nothing.body)
	}
	var deleted map[string]int
	k.want(http.StatusOK, http.MethodDelete, "/v1/memories", "", &deleted)
	if diff := cmp.Diff(map[string]int{"memories": 1, "sources": 0, "revisions": 1, "entities": 0, "relationships": 0}, deleted); diff != "" {
		t.Error(diff)
	}
}

func TestMemorySettingsOverHTTP(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	const path = "/v1/memories/settings"
	if got := k.want(http.StatusOK, http.MethodGet, path, "", nil); strings.TrimSpace(string(got.body)) != `{"enabled":true,"time_zone":null,"language":null,"excluded":[]}` {
		t.Errorf("%s", got.body)
	}
	changed := k.want(http.StatusOK, http.MethodPatch, path, `{"enabled": false, "time_zone": "America/Lima", "language": "pt-BR", "excluded": [" a ", "a", "b"]}`, nil)
	if strings.TrimSpace(string(changed.body)) != `{"enabled":false,"time_zone":"America/Lima","language":"pt-BR","excluded":["a","b"]}` {
		t.Errorf("%s", changed.body)
	}
	k.want(http.StatusOK, http.MethodPatch, path, `{"time_zone": null}`, nil)
	if got := k.want(http.StatusOK, http.MethodGet, path, "", nil); !strings.Contains(string(got.body), `"time_zone":null,"language":"pt-BR"`) {
		t.Errorf("%s", got.body)
	}
}

func TestMemoriesAreExportedAndImportedOverHTTP(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	k.remember("Prefers <oat> milk.")
	k.remember("Plays the cello.")
	file := k.want(http.StatusOK, http.MethodGet, "/v1/memories/export", "", nil)
	if got := file.header.Get("Content-Disposition"); got != `attachment; filename="memories.jsonl"` || file.header.Get("Content-Type") != mediaLines {
		t.Errorf("%q, %q", got, file.header.Get("Content-Type"))
	}
	lines := strings.Split(strings.TrimSpace(string(file.body)), "\n")
	var first map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || len(lines) != 2 || first["content"] != "Prefers <oat> milk." || first["memory_type"] != "fact" {
		t.Fatalf("%s, %v", file.body, err)
	}
	k.user = testkit.NewUser(t, k.db)
	for _, want := range []string{
		`{"format":"throughline","imported":2,"skipped":0,"refused":[]}`, `{"format":"throughline","imported":0,"skipped":2,"refused":[]}`,
	} {
		done := k.call(http.MethodPost, "/v1/memories/import", string(file.body), "Content-Type", mediaLines)
		if done.status != http.StatusOK || strings.TrimSpace(string(done.body)) != want {
			t.Errorf("%d %s", done.status, done.body)
		}
	}
	refused := k.call(http.MethodPost, "/v1/memories/import", `{"content": "Good."}`+"\n"+`{"content": ""}`, "Content-Type", mediaLines)
	if failure := refused.error(t); failure.Code != "import_invalid" || failure.Details["line"] != 2.0 || failure.Details["reason"] != "bad_length" || len(k.contents("")) != 2 {
		t.Errorf("%s", refused.body)
	}
	for _, c := range []struct {
		kind, body string
		status     int
	}{{"image/png", "x", http.StatusUnsupportedMediaType}, {mediaLines, strings.Repeat(" ", maxMemoryImport+1), http.StatusRequestEntityTooLarge}} {
		if answer := k.call(http.MethodPost, "/v1/memories/import", c.body, "Content-Type", c.kind); answer.status != c.status {
			t.Errorf("%s: %d %.200s", c.kind, answer.status, answer.body)
		}
	}
}

// A user brings along what other programs know, and reads what was left out.
func TestMemoriesOfOtherProgramsAreImportedOverHTTP(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	long := strings.Repeat("x", 501)
	for _, c := range []struct{ kind, body, want string }{
		{mediaJSON, `{"results": [{"id": "a", "memory": "Prefers tea.", "user_id": "u"},` + "\n" + `{"id": "b", "memory": "` + long + `", "user_id": "u"}]}`,
			`{"format":"mem0","imported":1,"skipped":0,"refused":[{"line":2,"reason":"bad_length"}]}`},
		{mediaJSON, `[{"uuid": "e", "fact": "Lives in Porto.", "created_at": "2025-03-02T09:00:00Z"}]`, `{"format":"zep","imported":1,"skipped":0,"refused":[]}`},
		{mediaJSON, `{"memories": [{"id": "m", "content": "Has a dog named Bruno."}]}`, `{"format":"chatgpt","imported":1,"skipped":0,"refused":[]}`},
		{"text/plain", "- Prefers tea\n- Plays the cello.\n", `{"format":"list","imported":1,"skipped":1,"refused":[]}`},
	} {
		done := k.call(http.MethodPost, "/v1/memories/import", c.body, "Content-Type", c.kind)
		if done.status != http.StatusOK || strings.TrimSpace(string(done.body)) != c.want {
			t.Errorf("%d %s", done.status, done.body)
		}
	}
	if got := k.contents(""); len(got) != 4 {
		t.Errorf("remembered: %q", got)
	}
}

// Whatever a user asks for by the id of another's memory, it is not there.
func TestMemoriesOfOthersDoNotExist(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	theirs := k.remember("Plays the cello.")
	owner := k.user
	var proposed struct {
		Token string `json:"token"`
	}
	k.want(http.StatusOK, http.MethodPost, "/v1/memories/forget", `{"query": "cello"}`, &proposed)
	k.user = testkit.NewUser(t, k.db)
	for _, r := range longMemoryRoutes() {
		path := strings.ReplaceAll(r.path, "/v1/memories/{memory_id}", theirs)
		if path == r.path {
			continue
		}
		body := ""
		if r.body() != nil {
			body = `{"pinned": true}`
		}
		if answer := k.call(r.method, path, body); answer.status != http.StatusNotFound || answer.error(t).Code != "memory_not_found" {
			t.Errorf("%s %s: %d %s", r.method, r.path, answer.status, answer.body)
		}
	}
	k.want(http.StatusUnprocessableEntity, http.MethodPost, "/v1/memories/forget", marshal(proposed), nil)
	k.want(http.StatusOK, http.MethodDelete, "/v1/memories", "", nil)
	if file := k.want(http.StatusOK, http.MethodGet, "/v1/memories/export", "", nil); len(file.body) != 0 || len(k.contents("?status=all")) != 0 {
		t.Errorf("a stranger sees %s", file.body)
	}
	k.remember("plays the CELLO") // is no twin
	if k.user = owner; !slices.Equal(k.contents(""), []string{"Plays the cello."}) {
		t.Errorf("the owner sees %v", k.contents(""))
	}
}

// A policy that the app's owner wrote is told from what is not there.
func TestOwnersPolicyOnMemoriesIsToldOverHTTP(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	path := k.remember("Plays the cello.")
	testkit.Exec(t, k.pool, "create policy frozen on memories as restrictive for update to throughline_app using (false)")
	testkit.Exec(t, k.pool, `create function public.no_marzipan() returns trigger language plpgsql as $$ begin
		if new.content like '%marzipan%' then raise exception 'no marzipan here'; end if; return new; end $$`)
	testkit.Exec(t, k.pool, "create trigger no_marzipan before insert on memories for each row execute function public.no_marzipan()")
	if answer := k.call(http.MethodPatch, path, `{"pinned": true}`); answer.status != http.StatusForbidden || answer.error(t).Code != "forbidden_by_policy" {
		t.Errorf("%d %s", answer.status, answer.body)
	}
	answer := k.call(http.MethodPost, "/v1/memories", `{"content": "Likes marzipan."}`)
	if failure := answer.error(t); answer.status != http.StatusForbidden || failure.Details["reason"] != "no marzipan here" {
		t.Errorf("%d %s", answer.status, answer.body)
	}
}

func TestMemoryOffIsToldOverHTTP(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	path := k.remember("Plays the cello.")
	k.server.config.Memories = postgres.NewUserMemories(k.pool, postgres.UserMemoriesOptions{Off: true})
	k.server.config.Extracts = extractor{fails: history.MemoryOff()}
	for path, body := range map[string]string{"/v1/memories": `{"content": "x"}`, "/v1/memories/import": `{"content": "x"}`, "/v1/chats/" + exampleChat + "/extract": ""} {
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
		ID: uuid.New(), SeqFrom: 1, SeqTo: 4, Turns: 2, Result: "done", Candidates: 3, Added: 2, Noops: 1, Dropped: json.RawMessage(`{"moment":1}`), Calls: 2, Model: new("gpt"),
	}}
	var row map[string]any
	k.want(http.StatusOK, http.MethodPost, "/v1/chats/"+exampleChat+"/extract", "", nil).decode(t, &row)
	fields := strings.Fields(`added calls candidates chat_id created_at dropped duration_ms id input_tokens model noops output_tokens prompt_ref result seq_from seq_to superseded turns updated`)
	if diff := cmp.Diff(fields, slices.Sorted(maps.Keys(row))); diff != "" || row["chat_id"] != exampleChat || row["result"] != "done" {
		t.Errorf("%v %s", row, diff)
	}
	k.server.config.Extracts = extractor{fails: fault.NoChat()}
	k.want(http.StatusNotFound, http.MethodPost, "/v1/chats/"+exampleChat+"/extract", "{}", nil)
}

func TestTemporaryChatsOverHTTP(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	if made := k.newChat(""); !made.Remember {
		t.Error("a chat of nothing is temporary")
	}
	made := k.newChat(`{"remember": false}`)
	if made.Remember {
		t.Error("it is not temporary")
	}
	path := "/v1/chats/" + made.ID.String()
	var changed history.Chat
	if k.want(http.StatusOK, http.MethodPatch, path, `{"remember": true}`, &changed); !changed.Remember {
		t.Error("it is still temporary")
	}
	k.want(http.StatusUnprocessableEntity, http.MethodPatch, path, `{"remember": "no"}`, nil)
	k.want(http.StatusUnprocessableEntity, http.MethodPatch, path, `{"remember": null}`, nil)
	k.want(http.StatusUnprocessableEntity, http.MethodDelete, path+"?keep_memories=yes", "", nil)
	k.want(http.StatusNoContent, http.MethodDelete, path+"?keep_memories=true", "", nil)
	for body, temporary := range map[string]bool{`{"content": "x"}`: false, `{"content": "x", "remember": null}`: false, `{"content": "x", "remember": true}`: false, `{"content": "x", "remember": false}`: true} {
		k.call(http.MethodPost, "/v1/message/first", body)
		if turn := k.store.turns[len(k.store.turns)-1]; turn.Temporary != temporary {
			t.Errorf("%s: temporary is %v", body, turn.Temporary)
		}
	}
}
