package system

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// depth is deeper than any JSON parser should go.
const depth = 100_000

// oddValues are texts in the place of a JSON value, not all of them valid JSON.
var oddValues = []string{
	"null", "true", "7", "-1", "0.5", "[]", "{}", `""`, "[[],[[]]]", "[null]", "[{}]", strings.Repeat("[", depth) + strings.Repeat("]", depth),
	strings.Repeat("[", depth), strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
	strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200), "1e400", strings.Repeat("9", depth), "1e-400", "-0", "9223372036854775807",
	"9223372036854775808", "01", "NaN", "0x10",
	// NUL, lone surrogates and invalid UTF-8, as values and names
	`"\u0000"`, `"a\u0000b"`, `{"a":"\u0000"}`, `{"\u0000":1}`, "\"a\x00b\"", `"\ud800"`, `"\udc00\ud800"`, `{"\ud800":1}`, "\"\xff\xfe\"", "\"\xc0\x80\"",
	"\"\uffff\"", "\"\u202e\u2066abc\"", `"` + strings.Repeat("x", depth) + `"`, `"` + strings.Repeat("👩‍", 9_000) + `"`,
	`"'; drop table messages; --"`, `"../../etc/passwd"`, `"{{.}} ${x} %s%n"`, `{"a":1,"a":{"a":2}}`, `{"__proto__":{"a":1},"constructor":null}`,
	"", `"a","b":1`, `"a"/**/`, `"a`,
}

// target is a user with a chat and a memory, who sends the odd requests.
type target struct {
	*rig
	chatID, messageID, memoryID string
	topicID, otherTopicID       string
	routes                      []route
	stored                      int // rows, after the latest request
}

func newTarget(t *testing.T) *target {
	t.Helper()
	r := newRig(t, nil, env{"LONG_TERM_MEMORY": "true", "MEMORY_EXTRACT_DELAY": "1h"})
	said := r.Say("", "Hello.")
	a := &target{rig: r, chatID: said.ChatID, messageID: said.MessageID, routes: routes(t, r.Client)}
	testkit.Exec(t, r.pool, "insert into memory_users (user_id) values ($1) on conflict do nothing", r.user)
	a.memoryID = testkit.Ask[uuid.UUID](t, r.pool, "insert into memories (user_id, content) values ($1, 'Has a boat.') returning id", r.user).String()
	testkit.Exec(t, r.pool, "select throughline.index_chat($1, 2)", said.ChatID)
	for number, topic := range []*string{&a.topicID, &a.otherTopicID} {
		*topic = r.addTopic(said.ChatID, number+1, "Boats").String()
	}
	return a
}

// addTopic gives the chat's turns to a new topic.
func (r *rig) addTopic(chatID string, number int, title string) uuid.UUID {
	return testkit.Ask[uuid.UUID](r.t, r.pool, `with made as (
			insert into topics (chat_id, user_id, number, title, summary, tags, message_count, created_at, last_active_at, first_seq, last_seq)
			select chat_id, user_id, $2, $3, 'They talked about ' || $3, array['harbour', $3], count(*), min(created_at), max(created_at), min(seq), max(seq)
			  from messages where chat_id = $1 group by chat_id, user_id returning id, chat_id),
		given as (update turn_index i set topic_id = made.id from made where i.chat_id = made.chat_id)
		select id from made`, chatID, number, title)
}

// call calls a route of the target's things.
func (a *target) call(to route, headers ...string) testkit.Answer {
	path := strings.NewReplacer("{chat_id}", a.chatID, "{message_id}", a.messageID, "{memory_id}", a.memoryID, "{topic_id}", a.topicID).Replace(to.path)
	return a.Call(to.method, path, nil, headers...)
}

func (a *target) rows() int {
	return a.count(`select (select count(*) from chats) + (select count(*) from messages) + (select count(*) from chat_files)
		+ (select count(*) from memories)`)
}

// few is how many odd values are sent to one place in short mode, others each time.
const few = 3

// some returns a table, in short mode a few of its entries.
func some[V any](of map[string]V) map[string]V {
	if !testing.Short() {
		return of
	}
	drawn := map[string]V{}
	for _, name := range rand.Perm(len(of))[:few] {
		key := slices.Sorted(maps.Keys(of))[name]
		drawn[key] = of[key]
	}
	return drawn
}

// checkHealthy checks that the server still answers and has logged no error.
func (a *target) checkHealthy() {
	a.t.Helper()
	assert.True(a.t, a.Say("", "Still there?").Text != "", "an empty reply")
	for _, word := range []string{"handler panicked", `"level":"ERROR"`} {
		if logs := a.logs.String(); strings.Contains(logs, word) {
			at := strings.Index(logs, word)
			a.t.Errorf("the log has %s: %.2000s", word, logs[max(0, at-200):])
		}
	}
}

// oddTexts are values of parameters.
var oddTexts = []string{
	"", " ", "0", "-1", "+1", "1e9", "999999999999999999999999", "\x00", "a\x00b", "\xff\xfe", "\ufeff", "\u202e", "null", "undefined", "true", "'", "\"",
	"\\", "%", "%00", "..", "../../x",
	"'; drop table messages; --", "*", "a & | ! ( ) : <-> b", "-", `"`, `""""`, "or or or", strings.Repeat("a ", 5_000),
	strings.Repeat("\U0001F469\u200d", 500), "0000-00-00T00:00:00Z",
	"9999-12-31T23:59:59Z", "-292277022399-01-01T00:00:00Z", "2026-11-21T15:04:05.123456789+23:59", "00000000-0000-0000-0000-000000000000",
	"{00000000-0000-0000-0000-000000000000}",
	"00000000-0000-0000-0000-000000000000:0", ":", ":end", "end", "AAAA", strings.Repeat("A", 64), strings.Repeat("f", 64), strings.Repeat("f", 63),
}

// Odd values in the fields of bodies, in messages that are stored, in arguments of tools and in imported files, and odd
// texts in paths, queries and headers, of every route: each status is one of the document's and no failure, and the
// refused requests store nothing.
func TestOddRequests(t *testing.T) {
	t.Parallel()
	a := newTarget(t)
	requests := 10_000
	if testing.Short() {
		requests = 2000
	}
	seed := drawnSeed(t)
	i := a.newIntruder(&ownedIDs{
		chats: []string{a.chatID}, messages: []string{a.messageID}, memories: []string{a.memoryID}, topics: []string{a.topicID, a.otherTopicID},
		clientIDs: []string{uuid.NewString()}, entities: []string{uuid.NewString()}, hashes: []string{strings.Repeat("f", 64)}, cursors: []string{"AAAA"},
		forgetTokens: []string{"x"},
	}, http.DefaultClient, rand.New(rand.NewPCG(seed, 0)))
	i.odd, i.Token = true, a.token
	a.stored = a.rows()
	for range requests {
		to := i.route(a.routes)
		text, status, answer, err := i.send(to)
		require.NoError(t, err)
		unknownPath := status == http.StatusNotFound || status == http.StatusMethodNotAllowed
		assert.Truef(t, !isFailure(status) && len(answer) <= 1<<20 && (unknownPath || slices.Contains(to.statuses, strconv.Itoa(status))),
			"%.500q: %d %.300s", text, status, answer)
		before := a.stored
		if a.stored = a.rows(); status >= 400 && a.stored != before {
			t.Errorf("%.500q: refused with %d, but %d rows more are stored", text, status, a.stored-before)
		}
	}
	a.checkHealthy()
	assert.True(t, a.Say(a.chatID, "Still there?").Text != "", "the chat does not go on")
}

// oddStored are JSON values that an app, or a person with psql, may have written into a row.
var oddStored = map[string]string{
	"null": "null", "true": "true", "a number": "7", "a fraction": "0.5", "a huge number": "1e400", "a number of many digits": strings.Repeat("9", 5_000),
	"a text": `"oak"`, "an empty text": `""`, "an array": "[]", "an array of nulls": "[null,null]", "an empty object": "{}",
	"another object":            `{"code":7,"sections":"oak"}`,
	"an object of ours, almost": `{"input_tokens":"many","output_tokens":-1e30,"brief_version":"2","sections":[null],"code":"oak","message":null}`,
	"a deep one":                strings.Repeat("[", 3_000) + strings.Repeat("]", 3_000),
}

// read calls every route that only reads, and first the ones that look at the latest reply. None may fail.
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
				if answer := a.call(odd, "Accept", accept); answer.Status >= 500 {
					a.t.Errorf("%s: %s %s: %d %.300s", what, odd.method, odd.path, answer.Status, answer.Text)
				}
			}
		}
	}
	said := a.Say(a.chatID, "Go on.")
	assert.Truef(a.t, said.Text != "" && said.End.Name == testkit.Completion, "%s: %+v", what, said)
}

// For any values under our keys in a reply's metadata, in tool calls and in a chat's metadata: all of it can be read,
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
		"names of no sender": "update messages set name = E'\\x01\\n\u202e', reply_to = gen_random_uuid() where chat_id = $1",
		"two of one id":      "update messages set superseded_by = id where chat_id = $1 and role = 'assistant'",
		"no text":            "update messages set content = '' where chat_id = $1",
		"a brief of nothing": "update conversation_briefs set covered_seq = 1000000, version = 9223372036854775806, brief_tokens = 2000000 where chat_id = $1",
		"odd tags":           "update chats set tags = '[5:6]={\"\",x}', title = E'\\x7f\u202e' where id = $1",
	}) {
		testkit.Exec(t, a.pool, sql, chatID)
		a.read(what)
	}
}
