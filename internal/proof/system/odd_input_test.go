package system

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// depth is deeper than any JSON parser should go.
const depth = 100_000

// oddValues are texts in the place of a JSON value, not all of them valid JSON.
var oddValues = map[string]string{
	"null": "null", "true": "true", "a number": "7", "a negative one": "-1", "a fraction": "0.5", "an empty array": "[]", "an empty object": "{}",
	"an empty string": `""`, "an array of arrays": "[[],[[]]]", "an array of nulls": "[null]", "an array of objects": "[{}]",
	"a bottomless array": strings.Repeat("[", depth) + strings.Repeat("]", depth), "an open abyss": strings.Repeat("[", depth),
	"a bottomless object": strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth),
	"deep metadata":       strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200),
	"a huge number":       "1e400", "a number of many digits": strings.Repeat("9", depth), "a tiny number": "1e-400", "minus zero": "-0",
	"the last int64": "9223372036854775807",
	"one more":       "9223372036854775808", "a number like another": "01", "no number": "NaN", "hexadecimal": "0x10",
	"a NUL": `"\u0000"`, "a NUL within": `"a\u0000b"`, "a NUL in an object": `{"a":"\u0000"}`, "a NUL as a name": `{"\u0000":1}`, "a raw NUL": "\"a\x00b\"",
	"a lone surrogate": `"\ud800"`, "surrogates the wrong way": `"\udc00\ud800"`, "a surrogate as a name": `{"\ud800":1}`,
	"invalid UTF-8": "\"\xff\xfe\"", "an overlong one": "\"\xc0\x80\"",
	"no character": "\"\uffff\"", "directions": "\"\u202e\u2066abc\"", "a long string": `"` + strings.Repeat("x", depth) + `"`,
	"a long unbroken emoji": `"` + strings.Repeat("👩‍", 9_000) + `"`,
	"SQL":                   `"'; drop table messages; --"`, "a path": `"../../etc/passwd"`, "a template": `"{{.}} ${x} %s%n"`,
	"twice the same name": `{"a":1,"a":{"a":2}}`, "a name of a prototype": `{"__proto__":{"a":1},"constructor":null}`,
	"nothing": "", "two values": `"a","b":1`, "a comment": `"a"/**/`, "half a string": `"a`,
}

// Values longer than huge bytes are sent only in largeFields and as whole bodies.
const huge = 10_000

var largeFields = []string{"content", "metadata", "files", "prompt", "tags"}

// validBodies are the bodies of each route, before one of their fields is replaced.
var validBodies = map[string]map[string]string{
	"POST /v1/message/first":            {"content": `"Hello."`},
	"POST /v1/message":                  {"content": `"Hello."`, "chat_id": `"CHAT"`},
	"POST /v1/chats":                    {},
	"PATCH /v1/chats/{chat_id}":         {},
	"POST /v1/chats/{chat_id}/messages": {"messages": `[{"role":"tool"}]`},
	"PATCH /v1/messages/{message_id}":   {},
	"POST /v1/chats/prune":              {"older_than_days": "36500", "dry_run": "true"},
	"POST /v1/memories":                 {"content": `"Has a harbour."`},
	"PATCH /v1/memories/{memory_id}":    {},
	"POST /v1/memories/forget":          {"query": `"harbour"`},
	"PATCH /v1/memories/settings":       {},

	"PATCH /v1/chats/{chat_id}/topics/{topic_id}":      {},
	"POST /v1/chats/{chat_id}/topics/{topic_id}/merge": {"into": `"OTHER"`},
	"POST /v1/chats/{chat_id}/standalone":              {"content": `"And then?"`},
	"POST /v1/messages/{message_id}/feedback":          {"rating": "1"},
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
	a.stored = a.rows()
	return a
}

// addTopic gives the chat's turns to a new topic.
func (r *rig) addTopic(chatID string, number int, title string) uuid.UUID {
	r.t.Helper()
	return testkit.Ask[uuid.UUID](r.t, r.pool, `with made as (
			insert into topics (chat_id, user_id, number, title, summary, tags, message_count, created_at, last_active_at, first_seq, last_seq)
			select chat_id, user_id, $2, $3, 'They talked about ' || $3, array['harbour', $3], count(*), min(created_at), max(created_at), min(seq), max(seq)
			  from messages where chat_id = $1 group by chat_id, user_id returning id, chat_id),
		given as (update turn_index i set topic_id = made.id from made where i.chat_id = made.chat_id)
		select id from made`, chatID, number, title)
}

// send sends a body unchanged.
func (a *target) send(to route, body string, headers ...string) testkit.Answer {
	a.t.Helper()
	path := strings.NewReplacer("{chat_id}", a.chatID, "{message_id}", a.messageID, "{memory_id}", a.memoryID, "{topic_id}", a.topicID).Replace(to.path)
	request := a.Request(a.t.Context(), to.method, path, nil, headers...)
	request.Body, request.ContentLength = http.NoBody, int64(len(body))
	if body != "" {
		with, err := http.NewRequestWithContext(a.t.Context(), to.method, a.Base+path, strings.NewReader(body))
		if err != nil {
			a.t.Fatal(err)
		}
		request.Body, request.GetBody = with.Body, with.GetBody
	}
	return a.Do(request)
}

func (a *target) rows() int {
	a.t.Helper()
	return a.count(`select (select count(*) from chats) + (select count(*) from messages) + (select count(*) from chat_files)
		+ (select count(*) from memories) + (select count(*) from topics)`)
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

// attack sends an odd request. It checks that the status is one of the document's and below 500, and that a refused
// request stores nothing.
func (a *target) attack(name string, to route, body string, headers ...string) {
	a.t.Helper()
	answer := a.send(to, body, headers...)
	if answer.Status >= 500 || !slices.Contains(to.statuses, fmt.Sprint(answer.Status)) {
		a.t.Errorf("%s: %s: %d %.300s", to.name(), name, answer.Status, answer.Text)
	}
	before := a.stored
	if a.stored = a.rows(); answer.Status >= 400 && a.stored != before {
		a.t.Errorf("%s: %s: refused with %d, but %d rows more are stored", to.name(), name, answer.Status, a.stored-before)
	}
	if len(answer.Text) > 1<<20 {
		a.t.Errorf("%s: %s: an answer of %d bytes", to.name(), name, len(answer.Text))
	}
}

// place is where an odd value goes: at ODD in a body of a route.
type place struct {
	to      route
	name    string
	body    string
	large   bool // it takes values longer than huge
	headers []string
}

// checkHealthy checks that the server still answers and has logged no error.
func (a *target) checkHealthy() {
	a.t.Helper()
	if said := a.Say("", "Still there?"); said.Text == "" {
		a.t.Error("an empty reply")
	}
	for _, word := range []string{"handler panicked", `"level":"ERROR"`} {
		if logs := a.logs.String(); strings.Contains(logs, word) {
			at := strings.Index(logs, word)
			a.t.Errorf("the log has %s: %.2000s", word, logs[max(0, at-200):])
		}
	}
}

// Every odd value in every field of every body, in every part of a message that is stored, in every argument of every tool
// and as the tool's name, and in every place of an imported file.
func TestOddValues(t *testing.T) {
	t.Parallel()
	a := newTarget(t)
	for _, p := range slices.Concat(a.bodies(), a.storedMessages(), a.tools(), a.imports()) {
		for what, value := range some(oddValues) {
			if len(value) <= huge || p.large {
				a.attack(p.name+" is "+what, p.to, strings.ReplaceAll(p.body, "ODD", value), p.headers...)
			}
		}
	}
	a.checkHealthy()
	if said := a.Say(a.chatID, "Still there?"); said.Text == "" {
		t.Error("the chat does not go on")
	}
}

func (a *target) bodies() (all []place) {
	a.t.Helper()
	for _, to := range a.routes {
		sound, known := validBodies[to.name()]
		if len(to.fields) > 0 && !known {
			a.t.Errorf("%s has no sound body here: give it one in validBodies", to.name())
		}
		for _, name := range to.fields {
			all = append(all, place{to: to, name: name, body: a.body(sound, name), large: slices.Contains(largeFields, name)})
		}
		if len(to.types) > 0 {
			all = append(all, place{to: to, name: "the body", body: "ODD", large: true})
		}
	}
	return all
}

func (a *target) storedMessages() (all []place) {
	to := route{method: http.MethodPost, path: "/v1/chats/{chat_id}/messages", statuses: []string{"200", "400", "413", "422"}}
	for _, name := range []string{"content", "tool_calls", "tool_call_id", "name", "metadata", "client_message_id"} {
		role := cmp.Or(map[string]string{"tool_calls": "assistant"}[name], "tool")
		all = append(all, place{to: to, name: "a message's " + name, body: fmt.Sprintf(`{"messages":[{"role":%q,%q:ODD}]}`, role, name)})
	}
	return all
}

func (a *target) tools() (all []place) {
	a.t.Helper()
	to := route{method: http.MethodPost, path: "/mcp", statuses: []string{"200", "202", "400", "413"}}
	headers := []string{"Accept", "application/json, text/event-stream"}
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`
	for tool, arguments := range (&intruder{Client: a.Client}).listTools() {
		sound := map[string]string{"prompt": `"Hello."`, "query": `"Hello"`}
		maps.DeleteFunc(sound, func(name, _ string) bool { return !slices.Contains(arguments, name) })
		for _, name := range arguments {
			body := fmt.Sprintf(call+`{"name":%q,"arguments":%s}}`, tool, a.body(sound, name))
			all = append(all, place{to, tool + ": " + name, body, slices.Contains(largeFields, name), headers})
		}
	}
	for _, frame := range []string{
		`ODD`, `[ODD]`, `{"jsonrpc":"2.0","id":ODD,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":ODD}`, `{"jsonrpc":ODD,"id":1,"method":"ping"}`,
		call + `ODD}`, call + `{"name":ODD}}`, call + `{"name":"list_threads","_meta":ODD}}`, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":ODD}`,
	} {
		all = append(all, place{to, frame, frame, true, headers})
	}
	return all
}

func (a *target) imports() (all []place) {
	to := route{method: http.MethodPost, path: "/v1/chats/import", statuses: []string{"200", "400", "422"}}
	const bundle = `{"type":"bundle","format":"throughline","version":1,"exported_at":"2026-11-21T15:04:05Z"}` + "\n"
	const chat = bundle + `{"type":"chat","id":"0198a1f2-7c11-7d3e-9a44-5b0e6f1c2d31","created_at":"2026-11-20T10:00:00Z"`
	const message = chat + "}\n" + `{"type":"message","id":"0198a1f2-7c12-7b60-8f0d-2a7c9e4b1f52","seq":1,"role":"user","content":"Hello.",` +
		`"created_at":"2026-11-20T10:00:01Z"`
	for _, file := range []string{
		`ODD`, `{"type":ODD}`, bundle + `ODD`, chat + `,"title":ODD}`, chat + `,"metadata":ODD}`, chat + `,"tags":ODD}`, chat + `,"system_prompt":ODD}`,
		message + `,"metadata":ODD}`, message + `,"files":ODD}`, message + `,"tool_calls":ODD}`, message + `,"reply_to":ODD}`,
		chat + "}\n" + `{"type":"end","files":ODD,"messages":0,"revisions":0}`, `{"role":"user","content":ODD}`, `[{"title":"a","mapping":ODD}]`,
		`[{"title":ODD,"create_time":1,"mapping":{"a":{"id":"a","message":null,"parent":null,"children":[]}},"current_node":"a"}]`,
	} {
		all = append(all, place{to, file, file, true, []string{"Accept", "application/json"}})
	}
	return all
}

// body returns a valid body with an odd value in one field.
func (a *target) body(sound map[string]string, name string) string {
	members := []string{fmt.Sprintf("%q:ODD", name)}
	for other, text := range sound {
		if other != name {
			members = append(members, fmt.Sprintf("%q:%s", other, strings.NewReplacer("CHAT", a.chatID, "OTHER", a.otherTopicID).Replace(text)))
		}
	}
	return "{" + strings.Join(members, ",") + "}"
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

// Every odd text in every parameter of every route: query, path and header, once and twice.
func TestOddParameters(t *testing.T) {
	t.Parallel()
	a := newTarget(t)
	texts := map[string]string{}
	for _, text := range oddTexts {
		texts[text] = text
	}
	for _, to := range a.routes {
		for _, p := range to.parameters {
			for text := range some(texts) {
				a.attackParameter(to, p, text)
			}
		}
	}
	a.checkHealthy()
}

func (a *target) attackParameter(to route, p parameter, text string) {
	a.t.Helper()
	what, odd := fmt.Sprintf("%s is %.40q", p.Name, text), to
	body := map[string]string{
		"POST /v1/message/first": `{"content":"Hello."}`, "POST /v1/message": `{"content":"Hello.","chat_id":"` + a.chatID + `"}`,
	}[to.name()]
	switch p.In {
	case "query":
		odd.path += "?" + url.Values{p.Name: {text}}.Encode()
		a.attack(what, odd, body)
		odd.path += "&" + p.Name + "=1&" + p.Name + "%00=%ff"
		a.attack(what+", twice", odd, body)
	case "path":
		if to.method == http.MethodDelete && strings.Trim(text, "./ ") == "" {
			return // the client would make another path of it
		}
		odd.path = strings.ReplaceAll(to.path, "{"+p.Name+"}", url.PathEscape(text))
		odd.statuses = append(slices.Clone(to.statuses), "404", "405") // it may be an unknown path
		a.attack(what, odd, body)
	case "header":
		if !strings.ContainsAny(text, "\x00\n\r") && len(text) < 32<<10 { // a client cannot send the others
			a.attack(what, to, body, p.Name, text)
		}
	}
}

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
