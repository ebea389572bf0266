package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/offline"
)

// client keeps no connections, so that nothing of a test outlives it.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// post sends a message and gives the lines of its stream.
func (r *rig) post(p *process, path string, body map[string]any) *bufio.Scanner {
	r.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, p.base+path, strings.NewReader(string(raw)))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = response.Body.Close() }) // read by then
	if response.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(response.Body)
		r.t.Fatalf("%s: %s %s", path, response.Status, raw)
	}
	return bufio.NewScanner(response.Body)
}

// read reads a stream up to its end, or up to the first line that holds a text.
func read(t *testing.T, lines *bufio.Scanner, until string) string {
	t.Helper()
	var all strings.Builder
	for lines.Scan() {
		all.WriteString(lines.Text() + "\n")
		if until != "" && strings.Contains(lines.Text(), until) {
			return all.String()
		}
	}
	if until != "" {
		t.Fatalf("the stream ended without %q: %s", until, all.String())
	}
	return all.String()
}

func TestServeAndStop(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	p := start(t, r.env, "serve")
	got := read(t, r.post(p, "/v1/message/first", map[string]any{"content": "My cello teacher is called Ilse."}), "")
	if !strings.Contains(got, "event: completion") {
		t.Errorf("the stream is %s", got)
	}
	p.terminate()
	if !strings.Contains(p.logs.String(), `"msg":"stopping"`) {
		t.Errorf("the log is %s", p.logs)
	}
}

// A signal in the middle of a stream: the reader gets a terminal event, the row says what happened, and
// the exit code is 0.
func TestStopInMidStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(*offline.Request) offline.Answer {
		return offline.Answer{Text: "one two three", Gate: make(chan struct{}), GateAfter: 1}
	})
	p := start(t, r.with(env{"DRAIN_TIMEOUT": "300ms"}), "serve")
	lines := r.post(p, "/v1/message/first", map[string]any{"content": "Speak."})
	read(t, lines, "content.delta")
	p.terminate()
	if rest := read(t, lines, ""); !strings.Contains(rest, "event: message.failed") || !strings.Contains(rest, `"code":"interrupted"`) {
		t.Errorf("the stream ended with %s", rest)
	}
	if got := ask[string](r, "select status || ' ' || content from messages where role = 'assistant'"); got != "interrupted one " {
		t.Errorf("stored %q", got)
	}
}

// A server that is killed in the middle of a reply: another process ends the row, and the chat goes on.
func TestKillServeInMidStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(request *offline.Request) offline.Answer {
		if strings.Contains(request.Current, "Endless") {
			return offline.Answer{Text: "one two three", Gate: make(chan struct{}), GateAfter: 1}
		}
		return offline.Answer{}
	})
	start(t, r.env, "work")
	killed := start(t, r.env, "serve", "--no-workers")
	read(t, r.post(killed, "/v1/message/first", map[string]any{"content": "Endless."}), "content.delta")
	killed.kill()
	within(t, "the reply is interrupted", func() bool {
		return ask[int](r, "select count(*) from messages where role = 'assistant' and status = 'interrupted'") == 1
	})
	next := start(t, r.env, "serve", "--no-workers")
	chatID := ask[uuid.UUID](r, "select id from chats")
	if got := read(t, r.post(next, "/v1/message", map[string]any{"chat_id": chatID, "content": "Are you there?"}), ""); !strings.Contains(got, "event: completion") {
		t.Errorf("the stream is %s", got)
	}
	next.terminate()
}

// mark is what a message alone holds.
func mark(chat, turn int, role string) string {
	return fmt.Sprintf("<%s %d of chat %d>", role, turn, chat)
}

// fillChats stores chats that are due for one fold each, and gives their ids.
func (r *rig) fillChats(chats, turns int) []uuid.UUID {
	r.t.Helper()
	ids := make([]uuid.UUID, chats)
	for chat := range ids {
		ids[chat] = ask[uuid.UUID](r, "insert into chats (user_id, title) values ($1, '') returning id", r.user)
		for turn := range turns {
			for _, role := range []string{"user", "assistant"} {
				text := mark(chat, turn, role) + fmt.Sprintf(" We decided to practise etude %d%s.", turn, strings.Repeat(fmt.Sprintf(" slowly%d", turn), 10))
				ask[int](r, "with said as (insert into messages (chat_id, role, content, token_count) values ($1, $2, $3, $4) returning 1) select 1 from said",
					ids[chat], role, text, memory.Tokens(text))
			}
		}
	}
	return ids
}

// Two worker processes race for twenty chats, and one of them is killed in the middle of its folds: all
// chats are folded, each once, and nothing is lost.
func TestKillOneOfTwoWorkersInMidFold(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, func(*offline.Request) offline.Answer { return offline.Answer{Gate: gate} })
	const chats, turns = 20, 7
	ids := r.fillChats(chats, turns)
	small := r.with(env{"MEMORY_CHUNK_SUMMARIZE_THRESHOLD": "300", "MEMORY_K_RAW_TURNS": "2", "MEMORY_SUMMARY_TOKEN_CAP": "200", "WORKER_CONCURRENCY": "3"})
	killed, left := start(t, small, "work"), start(t, small, "work")
	within(t, "both are in the middle of folds", func() bool { return len(r.model.Requests()) == 6 })
	killed.kill()
	close(gate)
	within(t, "all chats are folded", func() bool {
		return ask[int](r, "select count(*) from conversation_briefs where version > 0 and lease_token is null") == chats
	})
	within(t, "all jobs are done", func() bool {
		return ask[int](r, "select count(*) from river.river_job where kind = 'fold_brief' and state <> 'completed'") == 0
	})
	left.terminate()
	if got := ask[int](r, "select count(*) from conversation_brief_revisions"); got != chats {
		t.Errorf("%d folds of %d chats", got, chats)
	}
	if got := ask[int](r, "select count(*) from conversation_briefs where version = 1 and covered_seq = $1 and pending_turns = 2", 2*(turns-2)); got != chats {
		t.Errorf("%d of %d chats are folded up to the right place", got, chats)
	}
	r.checkFolded(ids, turns)
}

// checkFolded wants each message that left the buffer in the input of the one fold that was written.
func (r *rig) checkFolded(ids []uuid.UUID, turns int) {
	r.t.Helper()
	whole := map[string]bool{}
	for _, request := range r.model.Requests() {
		if request.Ended && !request.HungUp {
			whole[request.PromptCacheKey+request.Text] = true
		}
	}
	for chat, id := range ids {
		read := ""
		for input := range whole {
			if strings.HasPrefix(input, id.String()) {
				read += input
			}
		}
		for turn := range turns {
			for _, role := range []string{"user", "assistant"} {
				want := 1
				if turn >= turns-2 {
					want = 0
				}
				if got := strings.Count(read, mark(chat, turn, role)); got != want {
					r.t.Errorf("%s was folded %d times, want %d", mark(chat, turn, role), got, want)
				}
			}
		}
	}
}
