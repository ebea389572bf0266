package system

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// draw makes a random request of a route. text is all that is sent, except the token.
func (i *intruder) draw(to route) (request *http.Request, text string, err error) {
	path, query, header := to.path, url.Values{}, http.Header{}
	for _, p := range to.parameters {
		value, known := i.values()[p.Name]
		if strings.HasSuffix(to.path, "/extract") {
			value = func() string { return pick(i.random, i.theirs.chats) } // for an own one it would wait for a worker
		}
		if i.odd && (i.chance(0.3) && len(to.fields) == 0 || to.method == http.MethodDelete || strings.HasSuffix(to.path, "/extract")) {
			value = i.oddText
		}
		if !known {
			return nil, "", fmt.Errorf("%s: nothing draws the parameter %s: give it a value in intruder.values", to.name(), p.Name)
		}
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(value()))
		case p.In == "query" && (i.chance(0.4) || p.Name == "q" && i.chance(0.95)):
			query.Set(p.Name, value())
		case p.In == "header" && i.chance(0.3):
			if text := value(); !strings.ContainsAny(text, "\x00\n\r") { // a client cannot send the others
				header.Set(p.Name, text)
			}
		}
	}
	body, kind, err := i.body(to)
	if err != nil {
		return nil, "", err
	}
	if i.odd {
		body = i.oddBody(body)
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	request, err = http.NewRequestWithContext(i.T.Context(), to.method, i.Base+path, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	if kind != "" {
		header.Set("Content-Type", kind)
	}
	if to.path == "/mcp" {
		header.Set("Accept", "application/json, text/event-stream")
	}
	text = fmt.Sprintf("%s %s %v %s", to.method, path, header, body)
	header.Set("Authorization", "Bearer "+i.Token)
	request.Header = header
	return request, text, nil
}

// oddPlace stands in a body where an odd value goes.
const oddPlace = "ODD"

// oddBody puts an odd value in the place for it, or now and then in the place of the whole body.
func (i *intruder) oddBody(body string) string {
	value := pick(i.random, oddValues)
	if body != "" && i.chance(0.03) {
		return value
	}
	return strings.ReplaceAll(body, `"`+oddPlace+`"`, value)
}

// oddText returns an odd text that is no other path.
func (i *intruder) oddText() string {
	text := pick(i.random, oddTexts)
	if strings.Trim(text, "./ ") == "" {
		return i.oddText()
	}
	return text
}

func (i *intruder) chance(p float64) bool { return i.random.Float64() < p }

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

func (i *intruder) one(of ...string) string { return pick(i.random, of) }

// rarely returns the bad value now and then.
func (i *intruder) rarely(bad, good string) string {
	if i.chance(0.1) {
		return bad
	}
	return good
}

// mostly returns one of others' ids, else something else that may stand in its place, or a bad id.
func (i *intruder) mostly(theirs []string, others ...func() string) string {
	switch n := i.random.IntN(20); {
	case n < 13:
		return pick(i.random, theirs)
	case n < 14:
		return strings.ToUpper(pick(i.random, theirs))
	case n < 15:
		return i.one(uuid.NewString(), uuid.Nil.String(), "nonsense", pick(i.random, theirs)+" ")
	}
	return pick(i.random, others)()
}

func (i *intruder) from(list []string) func() string {
	return func() string { return pick(i.random, list) }
}

func (i *intruder) chat() string { return i.mostly(i.theirs.chats, i.message, i.from(i.own)) }

func (i *intruder) message() string {
	return i.mostly(i.theirs.messages, i.from(i.theirs.chats), i.from(i.theirs.clientIDs))
}

func (i *intruder) memory() string {
	return i.mostly(i.theirs.memories, i.from(i.theirs.entities), i.message)
}

// topic may be the chat's current one.
func (i *intruder) topic() string {
	return i.mostly(i.theirs.topics, i.from([]string{"current"}), i.chat)
}

// entity returns what the graph may be asked for: the owners' things, without the canary, or an id of theirs.
func (i *intruder) entity() string {
	return i.one("User", "harbour", "HARBOUR", pick(i.random, i.theirs.entities), pick(i.random, i.theirs.memories))
}

func (i *intruder) hash() string { return pick(i.random, i.theirs.hashes) }

func (i *intruder) number() string {
	return i.rarely(i.one("-1", "0", "x", "9223372036854775807"), i.one("1", "2", "5", "20", "100"))
}

// words returns the owners' subjects, without the canary.
func (i *intruder) words() string {
	return i.one("What is the harbour code?", "harbour", "code file", `"harbour code" or again`, "again -holds")
}

// values draws parameters by their names in the OpenAPI document.
func (i *intruder) values() map[string]func() string {
	moment := func() string { return i.rarely("yesterday", i.one("2020-01-01T00:00:00Z", "2040-01-01T00:00:00Z")) }
	truth := func() string { return i.rarely("perhaps", i.one("true", "false")) }
	return map[string]func() string{
		"chat_id": i.chat, "message_id": i.message, "call_id": func() string { return i.one("call_1", i.message()) }, "sha256": i.hash, "memory_id": i.memory,
		"type": func() string {
			return i.rarely("opinion", i.one("preference", "fact", "pattern", "context", "tool", "place"))
		},
		"status": func() string { return i.rarely("lost", i.one("active", "inbox", "superseded", "archived")) },
		"since":  moment, "until": moment, "by": func() string { return i.rarely("week", i.one("day", "purpose", "variant")) },
		"as_of": moment, "also": func() string { return i.rarely("everything", "summaries") }, "keep_memories": truth,
		"entity": i.entity, "relationship": func() string { return i.rarely("Keeps it", i.one("keeps", "likes")) }, "depth": i.number,
		"cursor":        func() string { return i.rarely(pick(i.random, i.theirs.chats), pick(i.random, i.theirs.cursors)) },
		"Last-Event-ID": func() string { return i.message() + ":" + i.rarely("x", i.one("0", "3", "end", "999")) },
		"after":         func() string { return i.rarely("x", i.one("0", "2", "end", moment())) }, // in a reply, or in time
		"before_seq":    i.number, "after_seq": i.number, "before_version": i.number, "limit": i.number,
		"q": func() string { return i.one(i.words(), i.chat()) }, "role": func() string { return i.rarely("nobody", i.one("user", "assistant", "system")) },
		"before": moment, "versions": func() string { return i.rarely("one", "all") },
		"tag": func() string { return i.one("harbour", "expired", "") }, "include_expired": truth,
		"include":  func() string { return i.rarely("everything", "content") },
		"format":   func() string { return i.rarely("x", i.one("json", "jsonl", "markdown", "mermaid", "dot")) },
		"topic_id": i.topic, "state": func() string { return i.rarely("gone", i.one("active", "archived", "merged")) }, "include_compressed": truth,
		"content": i.words, "mode": func() string { return i.rarely("none", i.one("all", "any")) },
		"model_variant":                 func() string { return i.rarely("x", i.one("arco", "deep-dive")) },
		"protocol":                      func() string { return i.rarely("x", i.one("events", "ui")) },
		"X-Vercel-Ai-Ui-Message-Stream": func() string { return i.rarely("v2", "v1") },
		"Accept":                        func() string { return i.one("application/json", "text/event-stream", "*/*") },
		"Idempotency-Key": func() string {
			return i.one(pick(i.random, i.theirs.clientIDs), "key")
		},
	}
}

// members draws the fields of bodies and the arguments of tools.
func (i *intruder) members() map[string]func() any {
	text := func() any { return i.words() }
	chat := func() any { return i.chat() }
	whole := func() any { return i.random.IntN(40) + 1 }
	truth := func() any { return i.chance(0.5) }
	return map[string]func() any{
		"chat_id": chat, "continuation_id": chat, "content": text, "prompt": text, "query": text, "title": text, "text": text, "system_prompt": text,
		"client_message_id": func() any { return i.one(pick(i.random, i.theirs.clientIDs), uuid.NewString()) },
		"metadata":          func() any { return testkit.Body{"note": i.words()} },
		"sources":           func() any { return []testkit.Body{{"title": i.words(), "url": "https://example.com/harbour"}} },
		"files":             func() any { return []testkit.Body{{"path": "harbour.txt", "content": i.words()}} },
		"messages": func() any {
			said := testkit.Body{"role": i.one("user", "tool"), "content": i.words(),
				"client_message_id": i.one(pick(i.random, i.theirs.clientIDs), uuid.NewString())}
			if i.odd {
				said[i.one("content", "tool_calls", "tool_call_id", "name", "metadata", "client_message_id")] = oddPlace
			}
			return []testkit.Body{said}
		},
		"tools": func() any {
			return []testkit.Body{{"type": i.rarely("mcp", i.one("function", "server")), "name": i.one("harbour", "order_taxi")}}
		},
		"tool_choice": func() any { return i.rarely("always", i.one("auto", "none")) },
		"output":      func() any { return testkit.Body{"said": i.words()} }, "error": text, "reason": text, "approved": truth,
		"claim":      func() any { return i.one(i.message(), uuid.NewString()) },
		"message_id": func() any { return i.message() },
		"replaces":   func() any { return i.one(i.message(), pick(i.random, i.theirs.clientIDs)) },
		"last_message_id": func() any {
			if i.chance(0.2) {
				return nil
			}
			return i.message()
		},
		"memory_id": func() any { return i.memory() },
		"id":        func() any { return i.memory() },
		"token":     func() any { return pick(i.random, i.theirs.forgetTokens) },
		"type":      func() any { return i.rarely("opinion", i.one("preference", "fact", "pattern", "context")) },
		"status":    func() any { return i.rarely("lost", i.one("active", "inbox", "archived")) },
		"subject":   func() any { return i.entity() },
		"time_zone": func() any { return i.rarely("Mars/Olympus", "Europe/Berlin") },
		"language":  func() any { return i.one("en", "de") },
		"excluded":  func() any { return []string{"harbour"} },
		"enabled":   func() any { return true },
		"remember":  truth, "durable": truth,
		"cursor":          func() any { return pick(i.random, i.theirs.cursors) },
		"model_variant":   func() any { return i.rarely("x", i.one("arco", "arco-pro")) },
		"tool_name":       func() any { return i.one("chat", "debug") },
		"tags":            func() any { return []string{"harbour"} },
		"memory_strategy": func() any { return i.rarely("x", i.one("summary", "simple", "hybrid")) },
		"importance":      func() any { return i.random.Float64() },
		"into":            func() any { return i.topic() },
		"rating":          func() any { return i.random.IntN(3) - 1 },
		"topics":          func() any { return i.rarely("x", i.one("auto", "on", "off")) },
		"recall":          func() any { return i.rarely("x", i.one("all", "chat")) },
		"revive":          truth, "pinned": truth, "dry_run": truth, "include_expired": truth, "ttl_hours": whole, "max_turns": whole,
		"older_than_days": whole, "limit": whole,
	}
}

// body draws the body of a route from its fields in the document.
func (i *intruder) body(to route) (body, kind string, err error) {
	switch {
	case to.path == "/mcp":
		body, err = i.call()
		return body, "application/json", err
	case to.path == "/v1/chats/import", to.path == "/v1/import":
		return i.file(), pick(i.random, to.types), nil
	case to.path == "/v1/memories/import":
		return i.remembered(), pick(i.random, to.types), nil
	case len(to.types) == 0:
		return "", "", nil
	case len(to.fields) == 0:
		return "", "", fmt.Errorf("%s: nothing draws its body: give it one in intruder.body", to.name())
	}
	found, err := i.object(to.name(), to.fields)
	return marshal(found), "application/json", err
}

func (i *intruder) object(of string, fields []string) (testkit.Body, error) {
	found, drawn := testkit.Body{}, i.members()
	for _, name := range fields {
		value, known := drawn[name]
		if !known {
			return nil, fmt.Errorf("%s: nothing draws the field %s: give it a value in intruder.members", of, name)
		}
		// What a body must have is there most of the time, what it may have now and then.
		needed := name == "content" || name == "token" || name == "chat_id" || name == "prompt" || name == "query" || name == "text" || name == "subject" ||
			name == "older_than_days" || name == "messages" || name == "message_id" || name == "into" || name == "rating"
		if needed && i.chance(0.97) || i.chance(0.3) && !i.odd {
			found[name] = value()
		}
	}
	if i.odd && len(fields) > 0 { // one, so that nothing else is a reason to refuse it
		found[pick(i.random, fields)] = oddPlace
		maps.DeleteFunc(found, func(_ string, value any) bool { return strings.Contains(of, "forget") && value != oddPlace })
	}
	return found, nil
}

// call draws a call of a tool, sometimes of an unknown one.
func (i *intruder) call() (string, error) {
	name := pick(i.random, slices.Sorted(maps.Keys(i.tools)))
	arguments, err := i.object("the tool "+name, i.tools[name])
	if i.odd && i.chance(0.3) {
		return i.oddCall(), err
	}
	if i.chance(0.1) {
		name = i.one("nothing", i.chat())
	}
	return marshal(rpc("tools/call", testkit.Body{"name": name, "arguments": arguments})), err
}

// oddCall draws a message of the tools' protocol with a place for an odd value.
func (i *intruder) oddCall() string {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`
	return i.one(
		`["ODD"]`, `{"jsonrpc":"2.0","id":"ODD","method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"ODD"}`, `{"jsonrpc":"ODD","id":1,"method":"ping"}`,
		call+`"ODD"}`, call+`{"name":"ODD"}}`, call+`{"name":"list_threads","_meta":"ODD"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":"ODD"}`,
	)
}

// file draws a bundle that uses others' ids.
func (i *intruder) file() string {
	if i.odd && i.chance(0.3) { // plain lines, and another program's file
		return i.one(`{"role":"user","content":"ODD"}`, `[{"title":"a","mapping":"ODD"}]`,
			`[{"title":"ODD","create_time":1,"mapping":{"a":{"id":"a","message":null,"parent":null,"children":[]}},"current_node":"a"}]`)
	}
	asked, hash := i.message(), i.hash()
	lines := []testkit.Body{
		{"type": "bundle", "format": "throughline", "version": 1, "exported_at": "2026-11-21T15:04:05Z"},
		{"type": "chat", "id": i.chat(), "title": "Harbour", "created_at": "2026-11-20T10:00:00Z"},
		{"type": "message", "id": asked, "seq": 1, "role": "user", "content": "The harbour?", "created_at": "2026-11-20T10:00:01Z"},
		{"type": "message", "id": i.message(), "seq": 2, "role": "assistant", "content": "By the sea.", "reply_to": asked, "created_at": "2026-11-20T10:00:03Z"},
		{"type": "end", "files": 0, "messages": 2, "revisions": 0},
	}
	if i.chance(0.3) {
		lines[2]["files"] = []testkit.Body{{"path": "main.go", "sha256": hash}} // a content that is not in the file
	}
	if i.odd {
		pick(i.random, lines)[i.one("type", "title", "metadata", "tags", "system_prompt", "files", "tool_calls", "reply_to", "content")] = oddPlace
	}
	var file strings.Builder
	for _, line := range lines {
		file.WriteString(marshal(line) + "\n")
	}
	return file.String()
}

// remembered draws an export of memories that uses others' ids.
func (i *intruder) remembered() string {
	return marshal(testkit.Body{
		"type": "memory", "id": i.memory(), "content": i.words(), "memory_type": "fact", "source_session_id": i.chat(), "superseded_by": i.memory(),
		"sources": []testkit.Body{{"message_id": i.message(), "chat_id": i.chat(), "seq": 1, "quote": i.words(), "said_at": "2026-11-20T10:00:00Z"}},
	}) + "\n"
}

func rpc(method string, params any) testkit.Body {
	return testkit.Body{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
}

// listTools reads all tools and their arguments from the server.
func (i *intruder) listTools() map[string][]string {
	answer := i.Call(http.MethodPost, "/mcp", rpc("tools/list", testkit.Body{}), "Accept", "application/json, text/event-stream")
	_, data, _ := strings.Cut(answer.Text, "data: ")
	var listed struct {
		Result struct {
			Tools []struct {
				Name        string
				InputSchema struct{ Properties map[string]any }
			}
		}
	}
	err := json.Unmarshal([]byte(data), &listed)
	require.Truef(i.T, err == nil && len(listed.Result.Tools) != 0, "%v in %d %q", err, answer.Status, answer.Text)
	found := map[string][]string{}
	for _, tool := range listed.Result.Tools {
		for name := range tool.InputSchema.Properties {
			found[tool.Name] = append(found[tool.Name], name)
		}
		slices.Sort(found[tool.Name])
	}
	return found
}

func marshal(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		panic("a body of a test cannot be encoded: " + strconv.Quote(err.Error()))
	}
	return string(raw)
}
