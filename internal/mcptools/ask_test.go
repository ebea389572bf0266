package mcptools_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

const fileText = "package spline\n\nfunc Reticulate(n int) int { return n / 0 }\n"

// TestThreadAcrossTools holds that what one tool was told the next one knows: the point of it all.
func TestThreadAcrossTools(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	for _, version := range []string{"", "2025-11-25", "2025-03-26"} {
		t.Run("protocol "+version, func(t *testing.T) {
			c := r.connectWith(r.ann, version)
			c.t = t
			mark := uuid.NewString()
			first := c.call("chat", args{"prompt": "The splines are reticulated by Ilse. " + mark, "files": []any{args{"path": "spline.go", "content": fileText}}})
			thread := first.thread()
			if first.content["started_new"] != true || first.content["note"] != nil || first.field("finish_reason") != "stop" {
				t.Errorf("the first call: %v", first.content)
			}
			if receipt, ok := first.content["memory"].(map[string]any); !ok || receipt["brief_version"] == nil {
				t.Errorf("no receipt: %v", first.content["memory"])
			}
			if first.field("reply") == "" || !strings.HasPrefix(first.text, first.field("reply")) {
				t.Errorf("the text does not begin with the reply: %q", first.text)
			}
			second := c.call("debug", args{"prompt": "Why does it panic? " + mark, "continuation_id": thread})
			third := c.call("codereview", args{"prompt": "Review it. " + mark, "continuation_id": thread})
			if second.thread() != thread || third.thread() != thread || second.content["started_new"] != false {
				t.Errorf("the thread changed: %v, %v", second.content, third.content)
			}
			for prompt, before := range map[string][]string{
				"Why does it panic? " + mark: {"reticulated by Ilse. " + mark, first.field("reply")},
				"Review it. " + mark:         {"reticulated by Ilse. " + mark, first.field("reply"), "Why does it panic? " + mark, second.field("reply")},
			} {
				asked := r.prompt(prompt).Text
				for _, said := range before {
					if !strings.Contains(asked, said) {
						t.Errorf("the prompt of %q does not hold %q:\n%s", prompt, said, asked)
					}
				}
			}
		})
	}
}

// TestFilesOnce holds that each prompt of a thread shows each content once, however often it was sent.
func TestFilesOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	c := r.connect(r.ann)
	file := func(path string) []any { return []any{args{"path": path, "content": fileText}} }
	thread := c.call("chat", args{"prompt": "One.", "files": file("spline.go")}).thread()
	c.call("debug", args{"prompt": "Two.", "continuation_id": thread, "files": file("spline.go")})
	c.call("codereview", args{"prompt": "Three.", "continuation_id": thread, "files": file("copy/spline.go")})
	for _, prompt := range []string{"One.", "Two.", "Three."} {
		asked := r.prompt(prompt)
		if n := strings.Count(asked.Text, "func Reticulate(n int)"); n != 1 {
			t.Errorf("the prompt of %q holds the file %d times:\n%s", prompt, n, asked.Text)
		}
	}
}

func TestInstructionsOfTools(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	c := r.connect(r.ann)
	for tool, says := range map[string]string{
		"chat": `the tool "chat"`, "debug": `the tool "debug"`, "codereview": `the tool "codereview"`,
	} {
		thread := c.call(tool, args{"prompt": "Hello " + tool})
		if asked := r.prompt("Hello " + tool); !strings.Contains(asked.Instructions, says) {
			t.Errorf("the instructions for %s: %q", tool, asked.Instructions)
		}
		if n := r.count(`select count(*) from chats where id = $1 and tool_name = $2 and ttl_hours = 3 and max_turns = 50`, thread.thread(), tool); n != 1 {
			t.Errorf("the chat that %s began is not a tool's", tool)
		}
	}
}

// TestThreadsThatAreGone holds that a call whose thread cannot be continued is answered in a new one, and
// says so.
func TestThreadsThatAreGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	ann, ben := r.connect(r.ann), r.connect(r.ben)
	foreign := ann.call("chat", args{"prompt": "The code word is osprey."}).thread()
	expired := ben.call("chat", args{"prompt": "The code word is heron."}).thread()
	r.do(`update chats set ttl_hours = 1, last_message_at = now() - interval '2 hours', created_at = now() - interval '3 hours' where id = $1`, expired)
	for _, c := range []struct{ name, thread, note string }{
		{"malformed", "thread-123", "not the id of a thread"},
		{"unknown", uuid.NewString(), "no thread with this continuation_id"},
		{"the nil uuid", uuid.Nil.String(), "not the id of a thread"},
		{"of somebody else", foreign, "no thread with this continuation_id"},
		{"expired", expired, "with revive: true"},
	} {
		answer := ben.call("debug", args{"prompt": "Which word? " + c.name, "continuation_id": c.thread})
		if answer.content["started_new"] != true || answer.thread() == c.thread {
			t.Errorf("%s: no new thread: %v", c.name, answer.content)
		}
		if !strings.Contains(answer.field("note"), c.note) || !strings.Contains(answer.text, "note: "+answer.field("note")) {
			t.Errorf("%s: the note is %q, the text %q", c.name, answer.content["note"], answer.text)
		}
		asked := r.prompt("Which word? " + c.name).Text
		if strings.Contains(asked, "osprey") || strings.Contains(asked, "heron") {
			t.Errorf("%s: the prompt knows too much: %s", c.name, asked)
		}
	}
	if n := r.count(`select count(*) from messages where chat_id = any($1)`, []string{foreign, expired}); n != 4 {
		t.Errorf("the threads that were not to be continued have %d messages, want 4", n)
	}
}

func TestRevivedThread(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	c := r.connect(r.ann)
	thread := c.call("chat", args{"prompt": "The code word is osprey."}).thread()
	r.do(`update chats set ttl_hours = 1, last_message_at = now() - interval '2 hours', created_at = now() - interval '3 hours' where id = $1`, thread)
	answer := c.call("debug", args{"prompt": "Which word?", "continuation_id": thread, "revive": true})
	if answer.content["started_new"] != false || answer.thread() != thread || answer.content["note"] != nil {
		t.Errorf("the thread did not come back: %v", answer.content)
	}
	if asked := r.prompt("Which word?").Text; !strings.Contains(asked, "osprey") {
		t.Errorf("the prompt has forgotten: %s", asked)
	}
	c.call("get_thread", args{"continuation_id": thread})
}

func TestEmptyContinuationID(t *testing.T) {
	t.Parallel()
	c := newRig(t, nil, nil)
	session := c.connect(c.ann)
	for _, none := range []any{nil, "", " "} {
		answer := session.call("chat", args{"prompt": "Hello", "continuation_id": none})
		if answer.content["started_new"] != true || answer.content["note"] != nil {
			t.Errorf("%q: %v", none, answer.content)
		}
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, testkit.HeldReply("one two three", 2, gate), nil)
	c := r.connect(r.ann)
	done := make(chan result, 1)
	go func() {
		params := &mcp.CallToolParams{Name: "chat", Arguments: args{"prompt": "Count."}}
		params.SetProgressToken("p1")
		found, err := c.CallTool(t.Context(), params)
		if err != nil {
			t.Error(err)
			found = &mcp.CallToolResult{}
		}
		done <- read(t, found)
	}()
	heard := testkit.Receive(t, "progress", c.progress) // while the model is held
	if heard.ProgressToken != "p1" || heard.Progress <= 0 || heard.Progress > float64(len("one two ")) || heard.Message == "" {
		t.Errorf("progress: %+v", heard)
	}
	close(gate)
	if answer := testkit.Receive(t, "the result", done); answer.field("reply") != "one two three" {
		t.Errorf("the reply is %q", answer.field("reply"))
	}
}

// TestClientGone holds that a reply is stored whose client went away, and that it counts as open until then.
func TestClientGone(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, testkit.HeldReply("one two three", 1, gate), env{"MAX_STREAMS_PER_USER": "1"})
	c := r.connect(r.ann)
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "chat", Arguments: args{"prompt": "Count."}})
		done <- err
	}()
	r.model.AwaitRequest(t, "the reply runs", func(q offline.Request) bool { return q.Sent != "" })
	leave()
	if err := testkit.Receive(t, "the call's end", done); !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	c.try("chat", args{"prompt": "Another."}).wants("over_request_rate_limit", "max_streams: 1")
	close(gate)
	testkit.Eventually(t, "the reply is stored", func() bool {
		return r.count(`select count(*) from messages where role = 'assistant' and status = 'complete' and content = 'one two three'`) == 1
	})
	testkit.Eventually(t, "its place is free", func() bool { return !c.try("chat", args{"prompt": "And now?"}).failed })
}

// TestBusyThread holds that a call waits for the reply that its thread is busy with.
func TestBusyThread(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, func(q *offline.Request) offline.Answer {
		if q.Current == "Slowly." {
			return offline.Answer{Text: "slow reply", Gate: gate, GateAfter: 1}
		}
		return offline.Answer{}
	}, nil)
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
	close(gate)
	for range 2 {
		if answer := testkit.Receive(t, "an answer", answers); answer.failed || answer.thread() != thread {
			t.Errorf("an answer: %v %s", answer.failed, answer.text)
		}
	}
	if asked := r.prompt("Next.").Text; !strings.Contains(asked, "slow reply") {
		t.Errorf("the prompt does not hold the reply it waited for: %s", asked)
	}
}

func TestModelFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t, testkit.InOrder(offline.Answer{Text: "half of it", Fault: offline.FaultFailed, FaultAfter: 1}, offline.Answer{}), nil)
	c := r.connect(r.ann)
	answer := c.try("chat", args{"prompt": "Try."})
	answer.wants("upstream_failed", "go on with this continuation_id", "continuation_id: ", "message_id: ")
	_, thread, _ := strings.Cut(answer.text, "continuation_id: ")
	thread, _, _ = strings.Cut(thread, "\n")
	if again := c.call("chat", args{"prompt": "Again.", "continuation_id": thread}); again.thread() != thread {
		t.Errorf("the thread that it named is not the one of the failure: %v", again.content)
	}
}

func TestReplyCutOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(*offline.Request) offline.Answer {
		return offline.Answer{Text: "one two three", Fault: offline.FaultIncomplete, FaultAfter: 2}
	}, nil)
	answer := r.connect(r.ann).call("chat", args{"prompt": "Count."})
	if answer.field("finish_reason") != "length" || !strings.Contains(answer.text, "note: ") || !strings.Contains(answer.field("note"), "limit of length") {
		t.Errorf("%v %q", answer.content, answer.text)
	}
}

func TestCancelledReply(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	r := newRig(t, testkit.HeldReply("one two three", 1, gate), nil)
	c := r.connect(r.ann)
	answers := make(chan result, 1)
	go func() { answers <- c.try("chat", args{"prompt": "Count."}) }()
	r.model.AwaitRequest(t, "the reply runs", func(q offline.Request) bool { return q.Sent != "" })
	var chatID string
	if err := r.pool.QueryRow(t.Context(), `select id::text from chats`).Scan(&chatID); err != nil {
		t.Fatal(err)
	}
	person := testkit.Client{T: t, Base: r.base, Token: r.ann.token}
	if stopped := person.Cancel(chatID); stopped.Status != 200 {
		t.Fatalf("cancel: %d %s", stopped.Status, stopped.Text)
	}
	answer := testkit.Receive(t, "the answer", answers)
	if answer.failed || answer.field("finish_reason") != "cancelled" || !strings.Contains(answer.field("note"), "stopped") {
		t.Errorf("%v %q", answer.content, answer.text)
	}
}
