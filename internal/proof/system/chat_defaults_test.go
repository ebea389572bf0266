package system

import (
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// The deployment's defaults hold for chats from every way in that say nothing themselves, but not for rows by SQL.
func TestDeploymentDefaultsOfNewChats(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, env{"CHAT_MEMORY_STRATEGY": "simple", "CHAT_TTL_HOURS": "48", "CHAT_MAX_TURNS": "12"})
	check := func(how, chatID, want string) {
		t.Helper()
		if got := testkit.Ask[string](t, r.pool, `select concat_ws(' ', memory_strategy, coalesce(ttl_hours::text, '-'), coalesce(max_turns::text, '-'))
			from chats where id = $1`, uuid.MustParse(chatID)); got != want {
			t.Errorf("%s: %s, want %s", how, got, want)
		}
	}
	const defaults = "simple 48 12"
	first := r.Say("", "My cello teacher is called Ilse.")
	check("a first message", first.ChatID, defaults)
	if strategy := first.End.Data["memory"].(map[string]any)["strategy"]; strategy != "simple" {
		t.Errorf("the first receipt says %v", strategy)
	}
	made := func(body testkit.Body) string {
		return r.wanted(http.StatusCreated, http.MethodPost, "/v1/chats", body)["id"].(string)
	}
	check("an empty chat", made(testkit.Body{}), defaults)
	check("an empty chat of a tool", made(testkit.Body{"tool_name": "lookup"}), defaults)
	check("a chat with its own settings", made(testkit.Body{"memory_strategy": "hybrid", "ttl_hours": nil, "max_turns": 7}), "hybrid - 7")
	if got := askTool(r.Client); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Text)
	}
	check("a tool's thread", testkit.Ask[string](t, r.pool, "select id::text from chats where tool_name = 'chat'"), defaults)
	imported := func(file string) string {
		return r.imports(file)["chats"].([]any)[0].(map[string]any)["chat_id"].(string)
	}
	check("plain lines", imported(`{"role":"user","content":"From another program."}`+"\n"), defaults)
	exported := r.Call(http.MethodGet, "/v1/chats/"+made(testkit.Body{"memory_strategy": "summary", "ttl_hours": nil, "max_turns": nil})+"/export", nil)
	mine := r.Client
	r.Client = r.stranger()
	check("a bundle, which has its own settings", imported(exported.Text), "summary - -")
	r.Client = mine
	check("a row by SQL", testkit.Ask[string](t, r.pool, "insert into chats (user_id, title) values ($1, '') returning id::text", r.user), "summary - -")
}
