package mcptools_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func (r *rig) threadTools() {
	t := r.t
	t.Helper()
	c := r.connect(r.ann)
	older := c.call("chat", args{"prompt": "The osprey nests here.", "files": []any{args{"path": "nest.md", "content": "twigs"}}}).thread()
	newer := c.call("debug", args{"prompt": "Why is it empty?"}).thread()

	first := c.call("list_threads", args{"limit": 1})
	listed := rows(t, first, "threads")
	if len(listed) != 1 || listed[0]["continuation_id"] != newer || listed[0]["title"] != "Why is it empty?" || listed[0]["turns"] != 1.0 {
		t.Errorf("the first page: %v", first.content)
	}
	second := c.call("list_threads", args{"limit": 1, "cursor": first.field("next_cursor")})
	if listed = rows(t, second, "threads"); len(listed) != 1 || listed[0]["continuation_id"] != older {
		t.Errorf("the second page: %v", second.content)
	}

	shown := c.call("get_thread", args{"continuation_id": older, "limit": 1})
	if said := rows(t, shown, "messages"); len(said) != 1 || said[0]["role"] != "assistant" || shown.content["has_more"] != true {
		t.Errorf("the latest message: %v", shown.content)
	}
	shown = c.call("get_thread", args{"continuation_id": older})
	said := rows(t, shown, "messages")
	if paths, _ := said[0]["files"].([]any); !slices.Equal(paths, []any{"nest.md"}) || said[0]["tool_name"] != "chat" {
		t.Errorf("the message: %v", said[0])
	}
	if len(said) != 2 || said[0]["content"] != "The osprey nests here." || shown.field("title") != "The osprey nests here." {
		t.Errorf("the thread: %v", shown.content)
	}

	found := rows(t, c.call("search_history", args{"query": "osprey nesting"}), "results")
	if len(found) == 0 || found[0]["continuation_id"] != older || !strings.Contains(found[0]["snippet"].(string), "osprey nests") {
		t.Errorf("found: %v", found)
	}

	if gone := c.call("forget_thread", args{"continuation_id": older}); gone.field("forgotten") != older {
		t.Errorf("forgotten: %v", gone.content)
	}
	if n := r.count(`select count(*) from messages where chat_id = $1`, older); n != 0 {
		t.Errorf("%d messages are left of the thread that was forgotten", n)
	}
	c.try("get_thread", args{"continuation_id": older}).wants("chat_not_found", "no such thread")
	c.try("forget_thread", args{"continuation_id": older}).wants("chat_not_found")
	if found := rows(t, c.call("search_history", args{"query": "osprey"}), "results"); len(found) != 0 {
		t.Errorf("found what was forgotten: %v", found)
	}
}

// rows are the objects of one of the structured result's lists.
func rows(t *testing.T, r result, name string) []map[string]any {
	t.Helper()
	list, ok := r.content[name].([]any)
	if !ok {
		t.Fatalf("there is no list %s in %v", name, r.content)
	}
	found := make([]map[string]any, len(list))
	for i, row := range list {
		found[i] = row.(map[string]any)
	}
	return found
}

// pinnedMessage holds that a tool pins for a hybrid thread, and says where a pin does nothing yet.
func (r *rig) pinnedMessage() {
	t := r.t
	t.Helper()
	c := r.connect(r.ann)
	thread := c.call("chat", args{"prompt": "The osprey nests here."}).thread()
	shown := func() map[string]any {
		return rows(t, c.call("get_thread", args{"continuation_id": thread}), "messages")[0]
	}
	message := shown()["message_id"]

	pinned := c.call("pin_message", args{"message_id": message})
	if pinned.content["pinned"] != true || pinned.field("continuation_id") != thread || !strings.Contains(pinned.field("note"), "summary") ||
		shown()["pinned"] != true {
		t.Errorf("pinned: %v, then %v", pinned.content, shown())
	}
	r.do(`update chats set memory_strategy = 'hybrid' where id = $1`, thread)
	if again := c.call("pin_message", args{"message_id": message, "pinned": true}); again.content["note"] != nil {
		t.Errorf("pinned in a hybrid thread: %v", again.content)
	}
	if unpinned := c.call("pin_message", args{"message_id": message, "pinned": false}); unpinned.content["pinned"] != false || shown()["pinned"] != nil {
		t.Errorf("unpinned: %v, then %v", unpinned.content, shown())
	}
	r.connect(r.ben).try("pin_message", args{"message_id": message}).wants("message_not_found")
	c.try("pin_message", args{"message_id": uuid.NewString()}).wants("message_not_found")
	c.try("pin_message", args{"message_id": "the first"}).wants("validation_failed", "message_id: must be")
	r.expire(thread)
	c.try("pin_message", args{"message_id": message}).wants("chat_expired", "revive: true")
}

func (r *rig) wrongArguments() {
	t := r.t
	t.Helper()
	c := r.connect(r.ann)
	for _, wrong := range []struct {
		tool string
		with args
		says string
	}{
		{"chat", nil, "prompt"},
		{"chat", args{"prompt": "  "}, "prompt: must not be empty"},
		{"chat", args{"prompt": strings.Repeat("x", 32_001)}, "prompt: has 32001 characters"},
		{"chat", args{"prompt": "Hello", "tone": "kind"}, "tone"},
		{"debug", args{"prompt": "Hello", "files": []any{args{"path": "main.go"}}}, "content"},
		{"get_thread", args{"continuation_id": "thread-123"}, "continuation_id: must be"},
		{"forget_thread", args{"continuation_id": ""}, "continuation_id: must be"},
		{"list_threads", args{"limit": 101}, "limit"},
		{"search_history", args{"query": ""}, "query: must have 1 to 500"},
		{"search_history", args{"query": "x", "limit": -1}, "limit"},
	} {
		c.try(wrong.tool, wrong.with).wants("validation_failed", wrong.says)
	}
	c.try("chat", args{"prompt": "Hello", "model_variant": "nobody"}).wants("unknown_model_variant", "arco")
	c.try("list_threads", args{"cursor": "forged"}).wants("bad_request", "cursor")
	if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "sing"}); err == nil || !strings.Contains(err.Error(), "sing") {
		t.Errorf("a tool that does not exist: %v", err)
	}
	if n := r.stored(); n != 0 {
		t.Errorf("%d messages were stored", n)
	}
}

// listedTools holds what clients decide by: what a tool may do.
func (r *rig) listedTools() {
	t := r.t
	t.Helper()
	c := r.connect(r.ann)
	if !strings.Contains(c.InitializeResult().Instructions, "continuation_id") {
		t.Errorf("the instructions: %q", c.InitializeResult().Instructions)
	}
	type hints struct{ readOnly, destructive, idempotent, openWorld bool }
	want := map[string]hints{
		"chat": {openWorld: true}, "debug": {openWorld: true}, "codereview": {openWorld: true},
		"search_history": {readOnly: true}, "recall": {readOnly: true}, "list_threads": {readOnly: true}, "get_thread": {readOnly: true},
		"pin_message": {idempotent: true}, "forget_thread": {destructive: true, idempotent: true},
		"remember": {idempotent: true}, "list_memories": {readOnly: true}, "what_is_known": {readOnly: true}, "forget_memory": {destructive: true, idempotent: true},
	}
	for tool, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		said := tool.Annotations
		got := hints{said.ReadOnlyHint, said.DestructiveHint != nil && *said.DestructiveHint, said.IdempotentHint, said.OpenWorldHint == nil || *said.OpenWorldHint}
		if got != want[tool.Name] {
			t.Errorf("%s: %+v, want %+v", tool.Name, got, want[tool.Name])
		}
		if tool.Title == "" || tool.Description == "" || tool.InputSchema == nil || tool.OutputSchema == nil {
			t.Errorf("%s says too little of itself", tool.Name)
		}
		delete(want, tool.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}
