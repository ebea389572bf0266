package system

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// Postgres stays away. After a bounded time the reader gets a retryable failure, because the reply could not be stored.
// When Postgres is back after all, the row does not stay streaming, and the message can be sent again.
func TestPostgresStaysAway(t *testing.T) {
	t.Parallel()
	server := testkit.NewServer(t)
	gate := make(chan struct{})
	r := newStoppedRig(t, server.Database, func(request *offline.Request) offline.Answer {
		if strings.Contains(request.Current, "Speak") {
			return offline.Answer{Text: unicodeReply, Gate: gate, GateAfter: 4}
		}
		return offline.Answer{}
	}, nil)
	r.newUser()
	impatient := app.Doubles{SavePatience: 2 * time.Second}
	r.node = r.start(app.Role{API: true}, nil, impatient)
	other := r.start(app.Role{API: true}, nil, impatient)
	message := testkit.Body{"content": "Speak.", "client_message_id": uuid.NewString()}
	asked := r.Send("", message)
	asked.UntilText(firstWords(unicodeReply, 4))
	follower := other.follow(asked, 4)

	server.Crash()
	close(gate)
	got := asked.Rest()
	if got.Text != unicodeReply || got.End.Name != testkit.Failed || got.End.Code() != "not_ready" || got.End.Data["retryable"] != true {
		t.Errorf("the reader has %q, %s %v", got.Text, got.End.Name, got.End.Data)
	}
	if length := got.End.Data["content_length"]; length != 0.0 {
		t.Errorf("%v characters are said to be stored", length)
	}
	if _, err := follower.TryRest(); err == nil {
		t.Error("the follower was told of an end that nobody knows")
	}

	server.Start()
	row := r.awaitEnded(got.MessageID) // its server could still record what it said, or some of that
	if row.status != "interrupted" || !strings.HasPrefix(row.content, firstWords(unicodeReply, 4)) || !strings.HasPrefix(unicodeReply, row.content) {
		t.Errorf("stored %+v", row)
	}
	r.awaitNoDeltas()
	again := other.Send("", message).Rest()
	if again.End.Name != testkit.Completion || again.Text != unicodeReply || again.UserMessageID != got.UserMessageID {
		t.Errorf("again: %+v", again)
	}
	got.Text = row.content
	r.checkSuperseded(got, again)
}

// A server that is stopped while Postgres is away does not wait long: its readers get their terminal events, and Run
// returns nil.
func TestStopWhilePostgresIsAway(t *testing.T) {
	t.Parallel()
	server := testkit.NewServer(t)
	r := newStoppedRig(t, server.Database, testkit.HeldReply(unicodeReply, 4, make(chan struct{})), nil)
	r.drain = 200 * time.Millisecond
	r.newUser()
	r.node = r.replica()
	asked := r.startReply(4)
	server.Crash()
	began := time.Now()
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	if got := asked.Rest(); got.End.Name != testkit.Failed || got.End.Data["retryable"] != true {
		t.Errorf("ended with %s %v", got.End.Name, got.End.Data)
	}
	if err := testkit.Receive(t, "the server has ended", stopped); err != nil {
		t.Errorf("run: %v", err)
	}
	if took := time.Since(began); took > testkit.Patience/2 {
		t.Errorf("the stop took %s", took)
	}
}
