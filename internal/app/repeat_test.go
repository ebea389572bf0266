package app

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/offline"
)

func TestSameMessageAgain(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	r := newRig(t, gateReplies(gate), nil)
	message := body{"content": "Speak.", "client_message_id": uuid.NewString()}
	s := r.openMessage(r.node, "", message)
	s.until(func(e event) bool { return e.name == "content.delta" })

	joined := r.openMessage(r.node, "", message) // while it runs
	joined.until(func(e event) bool { return e.name == "message.started" && e.data["resumed"] == true })
	close(gate)
	first, second := s.rest(), joined.rest()
	third := r.openMessage(r.node, "", message).rest() // after it ended
	fourth := r.openMessage(r.node, first.chatID, message).rest()
	for _, got := range []said{second, third, fourth} {
		if got.text != first.text || got.messageID != first.messageID || got.userMessageID != first.userMessageID || got.end.name != "completion" {
			t.Errorf("again: %+v, first %+v", got, first)
		}
	}
	done := r.call(r.node, http.MethodPost, "/v1/message/first", message, "Last-Event-ID", first.end.id)
	if done.status != http.StatusNoContent {
		t.Errorf("again after the end was seen: %d %s", done.status, done.raw)
	}
	other := r.call(r.node, http.MethodPost, "/v1/message/first", body{"content": "Something else.", "client_message_id": message["client_message_id"]})
	if other.status != http.StatusUnprocessableEntity || other.json(t)["code"] != "idempotency_mismatch" {
		t.Errorf("the same id for another message: %d %s", other.status, other.raw)
	}
	r.checkAskedOnce()
}

func (r *rig) checkAskedOnce() {
	r.t.Helper()
	if n := len(r.asked(offline.KindReply)); n != 1 {
		r.t.Errorf("the model was asked %d times", n)
	}
	if n := ask[int](r, "select count(*) from messages where role = 'user'"); n != 1 {
		r.t.Errorf("%d user messages", n)
	}
	if n := ask[int](r, "select count(*) from chats"); n != 1 {
		r.t.Errorf("%d chats", n)
	}
}

// A hundred copies of one message that arrive at once, on two servers, are one message and one reply.
func TestSameMessageHundredTimesAtOnce(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		t.Run(map[bool]string{true: "first message", false: "follow-up"}[first], func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil, nil)
			other := r.start(Role{API: true}, nil)
			chatID := ""
			if !first {
				chatID = r.say("", "Hello, I am Ada.").chatID
			}
			before := len(r.asked(offline.KindReply))
			message := body{"content": "My cello teacher is called Ilse.", "client_message_id": uuid.NewString()}
			got := make([]said, 100)
			failed := make([]error, len(got))
			var all sync.WaitGroup
			for i := range got {
				where := []*node{r.node, other}[i%2]
				all.Go(func() {
					path, payload := send(chatID, message)
					s, err := r.tryOpen(where, http.MethodPost, path, payload)
					if err == nil && s.response.StatusCode != http.StatusOK {
						err = errors.New(s.response.Status)
					}
					if err == nil {
						got[i], err = s.tryRest()
					}
					failed[i] = err
				})
			}
			all.Wait()
			if err := errors.Join(failed...); err != nil {
				t.Fatal(err)
			}
			for _, one := range got {
				if one.messageID != got[0].messageID || one.text != got[0].text || one.end.name != "completion" || !strings.Contains(one.text, "Ilse") {
					t.Fatalf("one of them got %+v, another %+v", one, got[0])
				}
			}
			if n := len(r.asked(offline.KindReply)) - before; n != 1 {
				t.Errorf("the model was asked %d times", n)
			}
			if n := ask[int](r, "select count(*) from messages where content like '%Ilse%' and role = 'user'"); n != 1 {
				t.Errorf("%d user messages", n)
			}
			if n := ask[int](r, "select count(*) from chats"); n != 1 {
				t.Errorf("%d chats", n)
			}
		})
	}
}
