package httpapi

import (
	"context"
	"log/slog"
	"net/http"
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
	db    testkit.Database
	pool  *pgxpool.Pool
	files transfer.Store
}

func newKeeper(t *testing.T, change ...func(*Config)) keeper {
	t.Helper()
	db := testkit.NewDatabase(t)
	k := keeper{db: db, pool: testkit.NewPool(t, db.DSN)}
	enqueued := func(context.Context, pgx.Tx, uuid.UUID) error { return nil }
	store := postgres.NewHistory(k.pool, memory.Limits{}, postgres.Enqueue{Fold: enqueued}, enqueued)
	memories := postgres.NewUserMemories(k.pool, postgres.UserMemoriesOptions{Rebuild: enqueued})
	topics := postgres.NewUserTopics(k.pool, postgres.UserTopicsOptions{Settings: topics.Defaults()})
	k.files = postgres.NewTransfer(k.pool, memory.DefaultLimits(), postgres.Enqueue{Fold: enqueued}, postgres.UserMemoriesOptions{})
	k.harness = newHarness(t, says("x"), append([]func(*Config){func(config *Config) {
		config.History, config.Memories, config.Topics, config.Graph = store, memories, topics, postgres.NewGraph(k.pool)
		config.Transfer = transferOf(t, k.files)
	}}, change...)...)
	k.user = testkit.NewUser(t, db)
	return k
}

func transferOf(t *testing.T, store transfer.Store) *transfer.Service {
	t.Helper()
	return transfer.New(transfer.Config{Store: store, Logger: slog.New(slog.DiscardHandler), TempDir: t.TempDir()})
}

// in returns the keeper for a subtest, with a user of its own.
func (k keeper) in(t *testing.T) keeper {
	t.Helper()
	sub := *k.harness
	sub.t, sub.user = t, testkit.NewUser(t, k.db)
	return keeper{&sub, k.db, k.pool, k.files}
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
	testkit.Exec(k.t, k.pool, "update chats set ttl_hours = 1, created_at = now() - interval '3 hours', last_message_at = now() - interval '2 hours' "+
		"where id = $1", chatID)
}

// ask is a request and what its answer holds: parts of JSON, between bars.
type ask struct {
	method, path, body string
	status             int
	holds              string
}

// walk asks one after another.
func (k keeper) walk(asks ...ask) {
	k.t.Helper()
	for _, s := range asks {
		answer := k.want(s.status, s.method, s.path, s.body, nil)
		for part := range strings.SplitSeq(s.holds, "|") {
			if !strings.Contains(string(answer.body), part) {
				k.t.Errorf("%s %s %s: no %s in %s", s.method, s.path, s.body, part, answer.body)
			}
		}
	}
}

// Every route of a chat once; what they do is tested where Postgres is.
func TestRoutesOfAChat(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	for name, body := range map[string]string{"no body": "", "blanks": " \n", "nulls": `{"title": null, "tags": null, "ttl_hours": null, "topics": null}`} {
		if made := k.newChat(body); made.Title != "" || made.TTLHours != nil || !made.Remember || made.Topics != "auto" {
			t.Errorf("%s: %s", name, marshal(made))
		}
	}
	var made history.Chat
	answer := k.want(http.StatusCreated, post, "/v1/chats", `{"title": "Scales", "system_prompt": "Be brief.", "metadata": {"a": [1]},
		"tags": ["cello"], "memory_strategy": "hybrid", "ttl_hours": 24, "max_turns": 9, "tool_name": "lookup"}`, &made)
	chat := "/v1/chats/" + made.ID.String()
	if got := answer.header.Get("Location"); got != chat {
		t.Errorf("Location is %q", got)
	}
	if read := k.want(http.StatusOK, get, chat, "", nil); string(read.body) != string(answer.body) {
		t.Errorf("read %s, made %s", read.body, answer.body)
	}
	id := uuid.NewString()
	call := `{"role": "assistant", "tool_calls": [{"id": "c1", "n": 12345678901234567}], "client_message_id": "` + id + `"}`
	messages := `{"messages": [{"role": "user", "content": "In tune?"}, ` + call + `, {"role": "tool", "content": "Half a pair: \ud800"}]}`
	k.walk(
		ask{patch, chat, `{"title": null, "system_prompt": null, "ttl_hours": null, "tags": ["a", "b"]}`, 200,
			`"title":""|"system_prompt":null|"ttl_hours":null|"tags":["a","b"]|"max_turns":9|"memory_strategy":"hybrid"`},
		ask{patch, chat, `{"metadata": null, "tags": null, "memory_strategy": null, "max_turns": null, "topics": "off", "remember": false}`, 200,
			`"metadata":{}|"tags":[]|"memory_strategy":"summary"|"max_turns":null|"topics":"off"|"remember":false`},
		ask{patch, chat, `{}`, 200, `"topics":"off"`},
		ask{get, "/v1/chats?limit=1", "", 200, `"id":"` + made.ID.String() + `"|"next_cursor":"`},
		ask{get, "/v1/chats?tag=none", "", 200, `{"chats":[],"next_cursor":null}`},
		ask{post, chat + "/messages", messages, 200, `"seq":1|"role":"tool"|12345678901234567|Half a pair: �|"client_message_id":"` + id},
		ask{get, chat + "/messages?limit=2&before_seq=3", "", 200, `"seq":1|"seq":2|"has_more":false`},
		ask{get, chat + "/messages?limit=1&after_seq=1", "", 200, `"seq":2|"has_more":true`},
		ask{get, chat + "/memory?content=tune", "", 404, "chat_not_found"}, // of which this store knows nothing
		ask{get, "/v1/search?q=tune&role=user&limit=1&chat_id=" + made.ID.String(), "", 200, `"seq":1|"snippet":"In tune"|"highlights":[{"start":3,"end":7}]`},
		ask{get, "/v1/search?q=tune&before=2020-01-01T00:00:00Z", "", 200, `{"results":[]}`},
		ask{get, "/v1/stats", "", 200, `{"chats":4,"expired_chats":0,"turns":1,"messages":3,"tokens":{"reply":{"input":0|"stored_bytes":{"messages":`},
	)
	message := testkit.Ask[uuid.UUID](t, k.pool, "select id from messages where chat_id = $1 and seq = 1", made.ID)
	testkit.Exec(t, k.pool, "insert into chat_files (chat_id, user_id, sha256, content, token_count) values ($1, $2, sha256('abc'), 'abc', 2)", made.ID, k.user)
	testkit.Exec(t, k.pool, `insert into message_files (message_id, place, chat_id, user_id, path, sha256) values ($1, 1, $2, $3, 'a.go', sha256('abc'))`,
		message, made.ID, k.user)
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	testkit.Exec(t, k.pool, "update chats set created_at = now() - interval '9 days', last_message_at = now() - interval '8 days' where id = $1", made.ID)
	k.walk(
		ask{get, chat + "/files", "", 200, `"path":"a.go"|"sha256":"` + sum + `"|"bytes":3`},
		ask{get, chat + "/files?include=content&sha256=" + sum, "", 200, `"content":"abc"`},
		ask{get, chat + "/messages", "", 200, `"files":[{|"path":"a.go"`},
		ask{patch, "/v1/messages/" + message.String(), `{"pinned": true, "importance": 0.5}`, 200, `"pinned":true|"importance":0.5|"content":"In tune?"`},
		ask{patch, "/v1/messages/" + message.String(), `{"importance": null}`, 200, `"pinned":true|"importance":null`},
		ask{post, "/v1/messages/" + message.String() + "/feedback", `{"rating": -1}`, 200, `"rating":-1`},
		ask{remove, "/v1/messages/" + message.String(), "", 204, ""},
		ask{remove, "/v1/messages/" + message.String(), "", 404, "message_not_found"},
		ask{post, chat + "/clear", "", 200, `"cleared_seq":3|"brief_version":1`},
		ask{post, "/v1/chats/prune", `{"older_than_days": 9}`, 200, `{"dry_run":false,"chats":0,"messages":0,"chat_ids":[]}`},
		ask{post, "/v1/chats/prune", `{"older_than_days": 8, "dry_run": true}`, 200, `"dry_run":true,"chats":1,"messages":2,"chat_ids":["` + made.ID.String()},
		ask{remove, chat + "?keep_memories=true", "", 204, ""},
		ask{get, chat, "", 404, "chat_not_found"},
		ask{remove, chat, "", 404, "chat_not_found"},
	)
}
