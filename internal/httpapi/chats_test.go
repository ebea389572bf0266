package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/postgres"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/transfer"
)

// keeper is a harness whose chats are kept in Postgres, with a user there.
type keeper struct {
	*harness
	db   testkit.Database
	pool *pgxpool.Pool
}

func newKeeper(t *testing.T) keeper {
	t.Helper()
	db := testkit.NewDatabase(t)
	k := keeper{db: db, pool: testkit.NewPool(t, db.DSN)}
	enqueued := func(context.Context, pgx.Tx, uuid.UUID) error { return nil }
	store := postgres.NewHistory(k.pool, memory.Limits{}, postgres.Enqueue{Fold: enqueued}, enqueued)
	memories := postgres.NewUserMemories(k.pool, postgres.UserMemoriesOptions{Rebuild: enqueued})
	topics := postgres.NewUserTopics(k.pool, postgres.UserTopicsOptions{Settings: topics.Defaults()})
	files := transfer.New(transfer.Config{
		Store: postgres.NewTransfer(k.pool, memory.Limits{}, postgres.Enqueue{Fold: enqueued}, postgres.UserMemoriesOptions{}), Logger: slog.New(slog.DiscardHandler), TempDir: t.TempDir(),
	})
	k.harness = newHarness(t, says("x"), func(config *Config) {
		config.History, config.Memories, config.Topics, config.Transfer = store, memories, topics, files
	})
	k.user = testkit.NewUser(t, db)
	return k
}

// want sends a request and wants a status; into takes the answer, if it is not nil.
func (k keeper) want(status int, method, path, body string, into any) answered {
	k.t.Helper()
	answer := k.call(method, path, body)
	if answer.status != status {
		k.t.Fatalf("%s %s: %d %s", method, path, answer.status, answer.body)
	}
	if into != nil {
		answer.decode(k.t, into)
	}
	return answer
}

// newChat makes a chat over HTTP.
func (k keeper) newChat(body string) history.Chat {
	k.t.Helper()
	var made history.Chat
	k.want(http.StatusCreated, http.MethodPost, "/v1/chats", body, &made)
	return made
}

// talk stores messages as if they had been said: user, assistant, user …
func (k keeper) talk(chatID uuid.UUID, messages int) []uuid.UUID {
	k.t.Helper()
	return testkit.Ask[[]uuid.UUID](k.t, k.pool, `with said as (insert into messages (chat_id, role, content)
		select $1, case when n % 2 = 1 then 'user' else 'assistant' end, 'message ' || n from generate_series(1, $2) n order by n returning id, seq)
		select array_agg(id order by seq) from said`, chatID, messages)
}

func (k keeper) expire(chatID uuid.UUID) {
	k.t.Helper()
	testkit.Exec(k.t, k.pool, "update chats set ttl_hours = 1, created_at = now() - interval '3 hours', last_message_at = now() - interval '2 hours' where id = $1", chatID)
}

func TestChatIsMadeReadChangedAndDeleted(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	var made history.Chat
	answer := k.want(http.StatusCreated, http.MethodPost, "/v1/chats", `{"title": "Scales", "system_prompt": "Be brief.", "metadata": {"a": [1]},
		"tags": ["cello"], "memory_strategy": "hybrid", "ttl_hours": 24, "max_turns": 9, "tool_name": "lookup"}`, &made)
	path := "/v1/chats/" + made.ID.String()
	if got := answer.header.Get("Location"); got != path {
		t.Errorf("Location is %q", got)
	}
	if made.Title != "Scales" || *made.SystemPrompt != "Be brief." || string(made.Metadata) != `{"a":[1]}` || made.Tags[0] != "cello" || made.MemoryStrategy != "hybrid" ||
		*made.TTLHours != 24 || *made.MaxTurns != 9 || *made.ToolName != "lookup" || made.ExpiresAt == nil {
		t.Errorf("made %s", answer.body)
	}
	if read := k.want(http.StatusOK, http.MethodGet, path, "", nil); string(read.body) != string(answer.body) {
		t.Errorf("read %s", read.body)
	}
	var changed history.Chat
	k.want(http.StatusOK, http.MethodPatch, path, `{"title": null, "system_prompt": null, "ttl_hours": null, "tags": ["a", "b"]}`, &changed)
	if changed.Title != "" || changed.SystemPrompt != nil || changed.TTLHours != nil || !slices.Equal(changed.Tags, []string{"a", "b"}) ||
		*changed.MaxTurns != 9 || changed.MemoryStrategy != "hybrid" || string(changed.Metadata) != `{"a": [1]}` && string(changed.Metadata) != `{"a":[1]}` {
		t.Errorf("changed %s", marshal(changed))
	}
	k.want(http.StatusOK, http.MethodPatch, path, `{"metadata": null, "tags": null, "memory_strategy": null, "max_turns": null}`, &changed)
	if len(changed.Tags) != 0 || changed.MaxTurns != nil || changed.MemoryStrategy != "summary" || string(changed.Metadata) != "{}" {
		t.Errorf("changed %s", marshal(changed))
	}
	k.want(http.StatusOK, http.MethodPatch, path, `{}`, nil)
	k.want(http.StatusNoContent, http.MethodDelete, path, "", nil)
	k.want(http.StatusNotFound, http.MethodGet, path, "", nil)
	k.want(http.StatusNotFound, http.MethodDelete, path, "", nil)
}

func TestChatOfNothing(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	for name, body := range map[string]string{"no body": "", "an empty object": "{}", "blanks": " \n", "nulls": `{"title": null, "tags": null, "ttl_hours": null, "tool_name": null}`} {
		if made := k.newChat(body); made.Title != "" || made.MemoryStrategy != "summary" || made.TTLHours != nil || made.MaxTurns != nil || made.MessageCount != 0 {
			t.Errorf("%s: %s", name, marshal(made))
		}
	}
	if made := k.newChat(`{"tool_name": "lookup"}`); *made.TTLHours != 3 || *made.MaxTurns != 50 {
		t.Errorf("%s", marshal(made))
	}
	if made := k.newChat(`{"tool_name": "lookup", "ttl_hours": null, "max_turns": null}`); made.TTLHours != nil || made.MaxTurns != nil {
		t.Errorf("%s", marshal(made))
	}
}

func TestChatsAreListedInPages(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	for n := range 5 {
		k.newChat(fmt.Sprintf(`{"title": "%d", "tags": ["n%d"]}`, n, n%2))
	}
	var page struct {
		Chats      []history.Chat `json:"chats"`
		NextCursor *string        `json:"next_cursor"`
	}
	var seen []string
	for path := "/v1/chats?limit=2"; path != ""; {
		k.want(http.StatusOK, http.MethodGet, path, "", &page)
		for _, chat := range page.Chats {
			seen = append(seen, chat.Title)
		}
		path = ""
		if page.NextCursor != nil {
			path = "/v1/chats?limit=2&cursor=" + *page.NextCursor
		}
	}
	if !slices.Equal(seen, []string{"4", "3", "2", "1", "0"}) {
		t.Errorf("seen %v", seen)
	}
	if k.want(http.StatusOK, http.MethodGet, "/v1/chats?tag=n1", "", &page); len(page.Chats) != 2 || page.NextCursor != nil {
		t.Errorf("tagged: %s", marshal(page))
	}
	k.expire(page.Chats[0].ID)
	for path, want := range map[string]int{"/v1/chats": 4, "/v1/chats?include_expired=false": 4, "/v1/chats?include_expired=true": 5} {
		if k.want(http.StatusOK, http.MethodGet, path, "", &page); len(page.Chats) != want {
			t.Errorf("%s: %d chats", path, len(page.Chats))
		}
	}
	k.user = testkit.NewUser(t, k.db)
	if answer := k.want(http.StatusOK, http.MethodGet, "/v1/chats", "", nil); strings.TrimSpace(string(answer.body)) != `{"chats":[],"next_cursor":null}` {
		t.Errorf("a user without chats: %s", answer.body)
	}
}

func TestMessagesAreListedRatedAndDeleted(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	chat := k.newChat("")
	ids := k.talk(chat.ID, 6)
	path := "/v1/chats/" + chat.ID.String() + "/messages"
	var page history.MessagePage
	for query, want := range map[string]string{
		"": "1 2 3 4 5 6 false", "?limit=2": "5 6 true", "?limit=2&before_seq=5": "3 4 true", "?limit=3&after_seq=3": "4 5 6 false", "?after_seq=6": "false",
	} {
		k.want(http.StatusOK, http.MethodGet, path+query, "", &page)
		got := ""
		for _, message := range page.Messages {
			got += fmt.Sprint(message.Seq, " ")
		}
		if got += fmt.Sprint(page.HasMore); got != want {
			t.Errorf("%s: %s", query, got)
		}
	}
	message := "/v1/messages/" + ids[1].String()
	var rated history.Message
	k.want(http.StatusOK, http.MethodPatch, message, `{"pinned": true, "importance": 0.5}`, &rated)
	if !rated.Pinned || *rated.Importance != 0.5 || rated.Content != "message 2" || rated.ChatID != chat.ID {
		t.Errorf("%s", marshal(rated))
	}
	if k.want(http.StatusOK, http.MethodPatch, message, `{"importance": null}`, &rated); !rated.Pinned || rated.Importance != nil {
		t.Errorf("%s", marshal(rated))
	}
	k.want(http.StatusNoContent, http.MethodDelete, message, "", nil)
	k.want(http.StatusNotFound, http.MethodDelete, message, "", nil)
	k.want(http.StatusNotFound, http.MethodPatch, message, `{"pinned": false}`, nil)
}

func TestChatIsCleared(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	chat := k.newChat("")
	path := "/v1/chats/" + chat.ID.String() + "/clear"
	var cleared history.Cleared
	if k.want(http.StatusOK, http.MethodPost, path, "", &cleared); cleared != (history.Cleared{ChatID: chat.ID}) {
		t.Errorf("an empty chat: %+v", cleared)
	}
	k.talk(chat.ID, 4)
	if k.want(http.StatusOK, http.MethodPost, path, "", &cleared); cleared != (history.Cleared{ChatID: chat.ID, ClearedSeq: 4, BriefVersion: 1}) {
		t.Errorf("%+v", cleared)
	}
}

func TestFilesAreListed(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	chat := k.newChat("")
	id := k.talk(chat.ID, 1)[0]
	testkit.Exec(t, k.pool, "insert into chat_files (chat_id, user_id, sha256, content, token_count) values ($1, $2, sha256('package a'), 'package a', 2)", chat.ID, k.user)
	testkit.Exec(t, k.pool, "insert into message_files (message_id, place, chat_id, user_id, path, sha256) values ($1, 1, $2, $3, 'a.go', sha256('package a'))", id, chat.ID, k.user)
	path := "/v1/chats/" + chat.ID.String() + "/files"
	var body files
	k.want(http.StatusOK, http.MethodGet, path, "", &body)
	if file := body.Files[0]; len(body.Files) != 1 || file.Path != "a.go" || file.Content != nil || file.MessageID != id || file.Bytes != 9 {
		t.Errorf("%s", marshal(body))
	}
	if k.want(http.StatusOK, http.MethodGet, path+"?include=content&sha256="+body.Files[0].SHA256, "", &body); *body.Files[0].Content != "package a" {
		t.Errorf("%s", marshal(body))
	}
	var page history.MessagePage
	if k.want(http.StatusOK, http.MethodGet, "/v1/chats/"+chat.ID.String()+"/messages", "", &page); page.Messages[0].Files[0].SHA256 != body.Files[0].SHA256 {
		t.Errorf("%s", marshal(page))
	}
}

func TestChatsArePruned(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	chat := k.newChat("")
	k.talk(chat.ID, 2)
	testkit.Exec(t, k.pool, "update chats set created_at = now() - interval '9 days', last_message_at = now() - interval '8 days'")
	for _, c := range []struct{ body, want string }{
		{`{"older_than_days": 9}`, `{"dry_run":false,"chats":0,"messages":0,"chat_ids":[]}`},
		{`{"older_than_days": 8, "dry_run": true}`, `{"dry_run":true,"chats":1,"messages":2,"chat_ids":["` + chat.ID.String() + `"]}`},
		{`{"older_than_days": 8}`, `{"dry_run":false,"chats":1,"messages":2,"chat_ids":["` + chat.ID.String() + `"]}`},
		{`{"older_than_days": 8, "dry_run": null}`, `{"dry_run":false,"chats":0,"messages":0,"chat_ids":[]}`},
	} {
		if answer := k.want(http.StatusOK, http.MethodPost, "/v1/chats/prune", c.body, nil); strings.TrimSpace(string(answer.body)) != c.want {
			t.Errorf("%s: %s", c.body, answer.body)
		}
	}
}

// Messages that no model is asked about are stored as they are sent, listed with the others, and stored once.
func TestMessagesAreStored(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	path := "/v1/chats/" + k.newChat("{}").ID.String() + "/messages"
	body := `{"messages": [
		{"role": "user", "content": "Is my A in tune?", "client_message_id": "` + uuid.NewString() + `"},
		{"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "tuner", "arguments": "{}"}, "n": 12345678901234567}], "client_message_id": "` + uuid.NewString() + `"},
		{"role": "tool", "name": "tuner", "tool_call_id": "c1", "content": "", "client_message_id": "` + uuid.NewString() + `"},
		{"role": "assistant", "content": "Half a pair: \ud800", "metadata": {"a": [1]}, "client_message_id": "` + uuid.NewString() + `"}]}`
	var stored, again, listed history.StoredMessages
	first := k.want(http.StatusOK, http.MethodPost, path, body, &stored)
	k.want(http.StatusOK, http.MethodPost, path, body, &again)
	k.want(http.StatusOK, http.MethodGet, path, "", &listed)
	if marshal(again) != marshal(stored) || marshal(listed) != marshal(stored) {
		t.Errorf("stored %s\nagain %s\nlisted %s", first.body, marshal(again), marshal(listed))
	}
	all := stored.Messages
	if len(all) != 4 || all[0].Seq != 1 || *all[3].ReplyTo != all[0].ID || all[1].ReplyTo != nil || *all[2].ToolCallID != "c1" || all[3].Content != "Half a pair: \ufffd" ||
		!strings.Contains(string(all[1].ToolCalls), "12345678901234567") {
		t.Errorf("stored %s", first.body)
	}
}
