package chat

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
)

// forgetfulStore does not keep the turns that it stores.
type forgetfulStore struct{ *fakeStore }

func (forgetfulStore) StartTurn(context.Context, auth.Principal, NewTurn) (StartedTurn, error) {
	return StartedTurn{Started: true}, nil
}

// What was sent, perhaps megabytes of files, can be collected while the reply is still being generated.
func TestMessageIsReleasedWhenItsReplyBegins(t *testing.T) {
	t.Parallel()
	script := newScriptedReply()
	svc := newTestService(t, func(c *Config) { c.Store = forgetfulStore{newFakeStore()} })
	svc.model.setAnswer(script.stream)
	collected := make(chan struct{})
	reply := sendToForget(t, svc, collected)
	defer reply.Close()
	for deadline := time.Now().Add(30 * time.Second); ; {
		runtime.GC()
		select {
		case <-collected:
			script.finish()
			return
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("the message is kept")
		}
	}
}

// sendToForget sends a message and closes collected when the garbage collector has taken a part of it.
func sendToForget(t *testing.T, svc *testService, collected chan<- struct{}) *Reply {
	t.Helper()
	importance := &new([100]float64)[0] // not one of the small objects that are collected together
	runtime.AddCleanup(importance, func(done chan<- struct{}) { close(done) }, collected)
	reply, err := svc.Send(t.Context(), ada, Message{Content: "hello", Importance: importance})
	if err != nil {
		t.Fatal(err)
	}
	return reply
}
