package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// recovery bounds how long after a crash anybody is left in the dark. The promise is 30 s, which make crash measures;
// a loaded machine may take longer.
const recovery = testkit.Patience / 2

// spoken is what endless replies begin with; heard is all of it that is ever said.
const spoken, heard = "Grüße aus 世界 👩‍👩‍👧 und noch viel mehr, aber das sagt er nie.", "Grüße aus 世界 👩‍👩‍👧 "

// endless makes replies to what asks for it stop in the middle of a text and go on never. All others are
// the built-in model's.
func endless(request *offline.Request) offline.Answer {
	if strings.Contains(request.Current, "Endless") {
		return offline.Answer{Text: spoken, Gate: make(chan struct{}), GateAfter: 4}
	}
	return offline.Answer{}
}

// A server is killed in the middle of a reply. Who reads it there sees the connection break and reads on
// at another one, where somebody else reads as well: both learn within the promised time that it was
// interrupted, with every word of it, and the chat goes on.
func TestKillServeInMidStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, endless)
	killed := r.start(nil, "serve", "--no-workers")
	left := r.start(nil, "serve", "--no-workers") // nobody sweeps
	message := testkit.Body{"content": "Endless.", "client_message_id": uuid.NewString()}
	asked := killed.Send("", message)
	asked.UntilText(heard)
	follower := left.Resume(asked.ChatID(), "")
	follower.UntilText(heard)

	killed.kill()
	began := time.Now()
	if _, err := asked.TryRest(); !errors.Is(err, testkit.ErrCut) {
		t.Errorf("the reader there: %v", err)
	}
	phone := left.Resume(asked.ChatID(), "", "Last-Event-ID", asked.LastID())
	if got := left.Call(http.MethodPost, "/v1/message", testkit.Body{"chat_id": asked.ChatID(),
		"content": "Are you there?"}); got.Code() != "generation_in_progress" {
		t.Errorf("before anybody can know: %d %s", got.Status, got.Text)
	}
	for name, got := range map[string]testkit.Said{"follower": follower.Rest(), "phone": phone.Rest()} {
		if got.End.Name != testkit.Failed || got.End.Code() != "interrupted" || got.End.Data["retryable"] != true ||
			got.End.Data["content_length"] != float64(len([]rune(heard))) || name == "phone" && got.Text != "" {
			t.Errorf("the %s has %q and %s %v", name, got.Text, got.End.Name, got.End.Data)
		}
	}
	if took := time.Since(began); took > recovery {
		t.Errorf("it took %s", took)
	}
	if got := testkit.Ask[string](t, r.pool, "select status || ' ' || content from messages where role = 'assistant'"); got != "interrupted "+heard {
		t.Errorf("stored %q", got)
	}
	if n := testkit.Ask[int](t, r.pool, "select count(*) from message_deltas"); n != 0 {
		t.Errorf("%d deltas are left over", n)
	}
	left.Say(asked.ChatID(), "Are you there?")
	left.terminate()
}
