package chat

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/arcoscribe/throughline/internal/metrics"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/uuid"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	text.Tokens("the tokenizer is built once") // and not on some test's synthetic clock
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

var ada = auth.Principal{UserID: uuid.MustParse("8f14e45f-ceea-467f-a0e6-1b2c3d4e5f60")}

// testService is a service with a fake store and a fake model. internal/postgres tests the real store.
type testService struct {
	*Service
	store *fakeStore
	model *fakeModel
	logs  *testkit.Log
}

// newTestService returns a service that is closed with the test. What runs then is interrupted.
func newTestService(t *testing.T, change ...func(*Config)) *testService {
	t.Helper()
	svc := &testService{store: newFakeStore(), model: &fakeModel{answer: answering("Fine.")}, logs: &testkit.Log{}}
	config := Config{
		Store: svc.store, Model: svc.model, Metrics: metrics.New(),
		Logger:       svc.logs.Logger(),
		Variants:     []Variant{{Name: "arco", Model: "gpt-small"}, {Name: "arco-pro", Model: "gpt-large"}},
		Instructions: "Be kind.", Limits: memory.DefaultLimits(), ReplyTimeout: 10 * time.Minute,
	}
	for _, f := range change {
		f(&config)
	}
	svc.Service = New(config)
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		svc.Close(now)
	})
	return svc
}

// inService plays with a service on a synthetic clock.
func inService(t *testing.T, play func(*testing.T, *testService), change ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		play(t, newTestService(t, change...))
	})
}

// scripted makes the model answer with a reply that the test emits.
func (svc *testService) scripted() *scriptedReply {
	script := newScriptedReply()
	svc.model.setAnswer(script.stream)
	return script
}

// send sends a message that must be accepted. The reply is closed with the test.
func (svc *testService) send(t *testing.T, message Message) *Reply {
	t.Helper()
	reply, err := svc.Send(t.Context(), ada, message)
	if err != nil {
		t.Fatalf("send: %v", err)
	}
	t.Cleanup(reply.Close)
	return reply
}

// readToEnd reads a reply to its end.
func readToEnd(t *testing.T, reply *Reply) (text string, end streaming.Terminal) {
	t.Helper()
	for {
		chunk, err := reply.Next(t.Context())
		if err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		if chunk.End != nil {
			return text, *chunk.End
		}
		text += string(chunk.Text)
	}
}

// failureCode returns the code of a message.failed, "" for another end.
func failureCode(end streaming.Terminal) fault.Code {
	if end.Failed == nil {
		return ""
	}
	return fault.Code(end.Failed.Code)
}

func wantFault(t *testing.T, err error, want fault.Code) {
	t.Helper()
	if fault.CodeOf(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// value returns the value of a counter or a gauge.
func value(t *testing.T, metric any) float64 {
	t.Helper()
	return testkit.Measured(t, metric)
}
