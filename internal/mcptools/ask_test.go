package mcptools_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

const fileText = "package spline\n\nfunc Reticulate(n int) int { return n / 0 }\n"

// threadAcrossTools holds that what one tool was told the next one knows: the point of it all.
func (r *rig) threadAcrossTools() {
	t := r.t
	for _, version := range []string{"", "2025-11-25", "2025-03-26"} {
		t.Run("protocol "+version, func(t *testing.T) {
			c := r.connectWith(r.ann, version)
			c.t = t
			mark := uuid.NewString()
			first := c.call("chat", args{"prompt": "The splines are reticulated by Ilse. " + mark, "files": []any{args{"path": "spline.go", "content": fileText}}})
			thread := first.thread()
			assert.Truef(t, first.content["started_new"] == true && first.content["note"] == nil && first.field("finish_reason") == "stop",
				"the first call: %v", first.content)
			receipt, ok := first.content["memory"].(map[string]any)
			assert.Truef(t, ok && receipt["brief_version"] != nil, "no receipt: %v", first.content["memory"])
			assert.Truef(t, first.field("reply") != "" && strings.HasPrefix(first.text, first.field("reply")),
				"the text does not begin with the reply: %q", first.text)
			assert.Equal(t, 1, r.count(`select count(*) from chats where id = $1 and tool_name = 'chat' and ttl_hours = 3 and max_turns = 50`, thread),
				"the chat is not a tool's")
			file := []any{args{"path": "copy/spline.go", "content": fileText}} // once more
			second := c.call("debug", args{"prompt": "Why does it panic? " + mark, "continuation_id": thread, "files": file})
			third := c.call("codereview", args{"prompt": "Review it. " + mark, "continuation_id": thread})
			assert.Truef(t, second.thread() == thread && third.thread() == thread && second.content["started_new"] == false,
				"the thread changed: %v, %v", second.content, third.content)
			told := "User: The splines are reticulated by Ilse. " + mark
			for prompt, before := range map[string][]string{
				"Why does it panic? " + mark: {told, first.field("reply")},
				"Review it. " + mark:         {told, first.field("reply"), "Why does it panic? " + mark, second.field("reply")},
			} {
				asked := r.prompt(prompt)
				for _, said := range append(before, fileText) {
					assert.Equalf(t, 1, strings.Count(asked.Text, said),
						"the prompt of %q does not hold %q once:\n%s", prompt, said, asked.Text)
				}
				says := map[bool]string{true: "debug", false: "codereview"}[strings.HasPrefix(prompt, "Why")]
				assert.Containsf(t, asked.Instructions, `the tool "`+says+`"`,
					"the instructions for %s: %q", says, asked.Instructions)
			}
		})
	}
}

// threadsThatAreGone holds that a call whose thread cannot be continued is answered in a new one, and
// says so.
func (r *rig) threadsThatAreGone() {
	t := r.t
	ann, ben := r.connect(r.ann), r.connect(r.ben)
	foreign := ann.call("chat", args{"prompt": "The code word is osprey."}).thread()
	expired := ben.call("chat", args{"prompt": "The code word is heron."}).thread()
	r.expire(expired)
	for _, c := range []struct{ name, thread, note string }{
		{"malformed", "thread-123", "not the id of a thread"},
		{"unknown", uuid.NewString(), "no thread with this continuation_id"},
		{"the nil uuid", uuid.Nil.String(), "not the id of a thread"},
		{"of somebody else", foreign, "no thread with this continuation_id"},
		{"expired", expired, "with revive: true"},
	} {
		answer := ben.call("debug", args{"prompt": "Which word? " + c.name, "continuation_id": c.thread})
		assert.Truef(t, answer.content["started_new"] == true && answer.thread() != c.thread,
			"%s: no new thread: %v", c.name, answer.content)
		assert.Truef(t, strings.Contains(answer.field("note"), c.note) && strings.Contains(answer.text, "note: "+answer.field("note")),
			"%s: the note is %q, the text %q", c.name, answer.content["note"], answer.text)
		asked := r.prompt("Which word? " + c.name).Text
		assert.Truef(t, !strings.Contains(asked, "osprey") && !strings.Contains(asked, "heron"),
			"%s: the prompt knows too much: %s", c.name, asked)
	}
	for _, none := range []any{nil, "", " "} {
		answer := ben.call("chat", args{"prompt": "Hello", "continuation_id": none})
		assert.Truef(t, answer.content["started_new"] == true && answer.content["note"] == nil,
			"%q: %v", none, answer.content)
	}
	n := r.count(`select count(*) from messages where chat_id = any($1)`, []string{foreign, expired})
	assert.Truef(t, n == 4, "the threads that were not to be continued have %d messages, want 4", n)
}

func (r *rig) revivedThread() {
	t := r.t
	t.Helper()
	c := r.connect(r.ann)
	thread := c.call("chat", args{"prompt": "The code word is osprey."}).thread()
	r.expire(thread)
	c.try("get_thread", args{"continuation_id": thread}).wants("chat_expired", "The thread has expired.", "revive: true", "continuation_id: "+thread)
	found := rows(t, c.call("search_history", args{"query": "osprey"}), "results")
	assert.Equalf(t, 0, len(found), "found: %v", found)
	if listed := rows(t, c.call("list_threads", nil), "threads"); len(listed) != 0 {
		t.Errorf("listed: %v", listed)
	}
	listed := rows(t, c.call("list_threads", args{"include_expired": true}), "threads")
	assert.Truef(t, len(listed) == 1 && listed[0]["continuation_id"] == thread && listed[0]["expired"] == true,
		"listed with those that have expired: %v", listed)
	answer := c.call("debug", args{"prompt": "Which word comes back?", "continuation_id": thread, "revive": true})
	assert.Truef(t, answer.content["started_new"] == false && answer.thread() == thread && answer.content["note"] == nil,
		"the thread did not come back: %v", answer.content)
	asked := r.prompt("Which word comes back?").Text
	assert.Containsf(t, asked, "osprey", "the prompt has forgotten: %s", asked)
	r.expire(thread)
	c.call("forget_thread", args{"continuation_id": thread}) // erasure always works
}

func (r *rig) progress() {
	t := r.t
	t.Helper()
	const prompt = "Count slowly."
	goOn := r.hold(prompt, "one two three", 2)
	c := r.connect(r.ann)
	done := make(chan result, 1)
	go func() {
		params := &mcp.CallToolParams{Name: "chat", Arguments: args{"prompt": prompt}}
		params.SetProgressToken("p1")
		found, err := c.CallTool(t.Context(), params)
		if err != nil {
			t.Error(err)
			found = &mcp.CallToolResult{}
		}
		done <- read(t, found)
	}()
	heard := testkit.Receive(t, "progress", c.progress) // while the model is held
	assert.Truef(t, heard.ProgressToken == "p1" && heard.Progress > 0 && heard.Progress <= float64(len("one two ")) && heard.Message != "",
		"progress: %+v", heard)
	goOn()
	answer := testkit.Receive(t, "the result", done)
	assert.Equal(t, "one two three", answer.field("reply"), "the reply")
}

// TestClientGone holds that a reply is stored whose client went away, and that it counts as open until then.
func TestClientGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, env{"MAX_STREAMS_PER_USER": "1"})
	goOn := r.hold("Count.", "one two three", 1)
	c := r.connect(r.ann)
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "chat", Arguments: args{"prompt": "Count."}})
		done <- err
	}()
	r.model.AwaitRequest(t, "the reply runs", func(q offline.Request) bool { return q.Sent != "" })
	leave()
	err := testkit.Receive(t, "the call's end", done)
	assert.ErrorIsf(t, err, context.Canceled, "the call ended with %v", err)
	c.try("chat", args{"prompt": "Another."}).wants("over_request_rate_limit", "max_streams: 1")
	goOn()
	testkit.Eventually(t, "the reply is stored", func() bool {
		return r.count(`select count(*) from messages where role = 'assistant' and status = 'complete' and content = 'one two three'`) == 1
	})
	testkit.Eventually(t, "its place is free", func() bool { return !c.try("chat", args{"prompt": "And now?"}).failed })
}

// TestBusyThread holds that a call waits for the reply that its thread is busy with.
func TestBusyThread(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	goOn := r.hold("Slowly.", "slow reply", 1)
	c := r.connect(r.ann)
	thread := c.call("chat", args{"prompt": "Begin."}).thread()
	answers := make(chan result, 2)
	go func() { answers <- c.try("chat", args{"prompt": "Slowly.", "continuation_id": thread}) }()
	r.model.AwaitRequest(t, "the reply runs", func(q offline.Request) bool { return q.Current == "Slowly." && q.Sent != "" })
	go func() { answers <- c.try("debug", args{"prompt": "Next.", "continuation_id": thread}) }()
	metrics := testkit.Client{T: t, Base: r.base}
	testkit.Eventually(t, "the second call is let in", func() bool {
		return strings.Contains(metrics.Call("GET", "/metrics", nil).Text, "\nthroughline_open_streams 2\n")
	})
	goOn()
	for range 2 {
		answer := testkit.Receive(t, "an answer", answers)
		assert.Truef(t, !answer.failed && answer.thread() == thread, "an answer: %v %s", answer.failed, answer.text)
	}
	asked := r.prompt("Next.").Text
	assert.Containsf(t, asked, "slow reply", "the prompt does not hold the reply it waited for: %s", asked)
}

func (r *rig) modelFailure() {
	r.plays.Store("Try.", offline.Answer{Text: "half of it", Fault: offline.FaultFailed, FaultAfter: 1})
	c := r.connect(r.ann)
	answer := c.try("chat", args{"prompt": "Try."})
	answer.wants("upstream_failed", "go on with this continuation_id", "continuation_id: ", "message_id: ")
	_, thread, _ := strings.Cut(answer.text, "continuation_id: ")
	thread, _, _ = strings.Cut(thread, "\n")
	again := c.call("chat", args{"prompt": "Again.", "continuation_id": thread})
	assert.Equalf(r.t, thread, again.thread(), "the thread that it named is not the one of the failure: %v", again.content)
}

func (r *rig) replyCutOff() {
	r.t.Helper()
	r.plays.Store("Count to three.", offline.Answer{Text: "one two three", Fault: offline.FaultIncomplete, FaultAfter: 2})
	answer := r.connect(r.ann).call("chat", args{"prompt": "Count to three."})
	if answer.field("finish_reason") != "length" || !strings.Contains(answer.text, "note: ") || !strings.Contains(answer.field("note"), "limit of length") {
		r.t.Errorf("%v %q", answer.content, answer.text)
	}
}

func (r *rig) cancelledReply() {
	t := r.t
	t.Helper()
	const prompt = "Count for ever."
	r.hold(prompt, "one two three", 1)
	c := r.connect(r.ann)
	answers := make(chan result, 1)
	go func() { answers <- c.try("chat", args{"prompt": prompt}) }()
	r.model.AwaitRequest(t, "the reply runs", func(q offline.Request) bool { return q.Current == prompt && q.Sent != "" })
	chatID := testkit.Ask[string](t, r.pool, `select id::text from chats where user_id = $1`, r.ann.id)
	person := testkit.Client{T: t, Base: r.base, Token: r.ann.token}
	stopped := person.Cancel(chatID)
	require.Truef(t, stopped.Status == 200, "cancel: %d %s", stopped.Status, stopped.Text)
	answer := testkit.Receive(t, "the answer", answers)
	assert.Truef(t, !answer.failed && answer.field("finish_reason") == "cancelled" && strings.Contains(answer.field("note"), "stopped"),
		"%v %q", answer.content, answer.text)
}
