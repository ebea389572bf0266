package system

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// oddStored are JSON values that an app, or a person with psql, may have written into a row.
var oddStored = map[string]string{
	"null": "null", "true": "true", "a number": "7", "a fraction": "0.5", "a huge number": "1e400", "a number of many digits": strings.Repeat("9", 5_000),
	"a text": `"oak"`, "an empty text": `""`, "an array": "[]", "an array of nulls": "[null,null]", "an empty object": "{}",
	"another object":            `{"code":7,"sections":"oak"}`,
	"an object of ours, almost": `{"input_tokens":"many","output_tokens":-1e30,"brief_version":"2","sections":[null],"code":"oak","message":null}`,
	"a deep one":                strings.Repeat("[", 3_000) + strings.Repeat("]", 3_000),
}

// read calls every route that only reads, and those that look at the latest reply first. None may fail.
func (a *target) read(what string) {
	a.t.Helper()
	for _, to := range a.routes {
		if !strings.HasSuffix(to.path, "/cancel") && (to.method != http.MethodGet || !strings.HasPrefix(to.path, "/v1/")) {
			continue
		}
		odd := to
		for _, query := range []string{"", "?q=oak", "?after=0", "?after=end", "?format=json", "?format=markdown", "?include_expired=true"} {
			name, _, _ := strings.Cut(strings.TrimPrefix(query, "?"), "=")
			if query != "" && !slices.ContainsFunc(to.parameters, func(p parameter) bool { return p.Name == name }) {
				continue
			}
			odd.path = to.path + query
			for _, accept := range []string{"application/json", "text/event-stream"} {
				if answer := a.send(odd, "", "Accept", accept); answer.Status >= 500 {
					a.t.Errorf("%s: %s %s: %d %.300s", what, odd.method, odd.path, answer.Status, answer.Text)
				}
			}
		}
	}
	if said := a.Say(a.chatID, "Go on."); said.Text == "" || said.End.Name != testkit.Completion {
		a.t.Errorf("%s: %+v", what, said)
	}
}

// Whatever stands under our keys in a reply's metadata, in tool calls and in a chat's metadata: all of it can be read,
// exported and imported, and the chat goes on.
func TestOddRowsAreRead(t *testing.T) {
	t.Parallel()
	a := newTarget(t)
	chatID := uuid.MustParse(a.chatID)
	keys := `"model_variant":%[1]s,"model":%[1]s,"response_id":%[1]s,"finish_reason":%[1]s,"usage":%[1]s,"memory":%[1]s,"failure":%[1]s`
	for what, value := range some(oddStored) {
		metadata := fmt.Sprintf(`{`+keys+`,"time_zone":%[1]s,"foreign":%[1]s}`, value)
		calls := fmt.Sprintf(`[%[1]s,{"name":%[1]s,"arguments":%[1]s,"function":%[1]s}]`, value)
		status := []string{"failed", "complete"}[rand.IntN(2)]
		testkit.Exec(t, a.pool, "update messages set metadata = $2::text::jsonb where chat_id = $1", chatID, metadata)
		testkit.Exec(t, a.pool, "update messages set tool_calls = $2::text::jsonb, status = $3 where chat_id = $1 and role = 'assistant'", chatID, calls, status)
		testkit.Exec(t, a.pool, "update chats set metadata = $2::text::jsonb where id = $1", chatID, fmt.Sprintf(`{"a":%s}`, value))
		a.read(what + ", " + status)
		if len(value) > 1000 {
			continue // deeper and longer than an import takes
		}
		exported := a.Call(http.MethodGet, "/v1/chats/"+a.chatID+"/export", nil).Text
		if answer := importFile(a.stranger(), exported, "application/json"); answer.Status != http.StatusOK && answer.Code() != "import_invalid" {
			t.Errorf("%s: %d %.300s", what, answer.Status, answer.Text)
		}
	}
	for what, sql := range some(map[string]string{
		"a huge message":     "update messages set token_count = 100000000 where chat_id = $1 and seq < 5",
		"names of nobody":    "update messages set name = E'\\x01\\n\u202e', reply_to = gen_random_uuid() where chat_id = $1",
		"two of one id":      "update messages set superseded_by = id where chat_id = $1 and role = 'assistant'",
		"no text":            "update messages set content = '' where chat_id = $1",
		"a brief of nothing": "update conversation_briefs set covered_seq = 1000000, version = 9223372036854775806, brief_tokens = 2000000 where chat_id = $1",
		"odd tags":           "update chats set tags = '[5:6]={\"\",x}', title = E'\\x7f\u202e' where id = $1",
	}) {
		testkit.Exec(t, a.pool, sql, chatID)
		a.read(what)
	}
}
