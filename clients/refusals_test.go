package clients_test

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func (r recipe) triesAgain() {
	content := uuid.NewString()
	r.plays.add(content, offline.Answer{Text: reply, Fault: offline.FaultFailed, FaultAfter: half})
	r.plays.add(content, offline.Answer{Text: reply})
	phone := r.stage.launch(r.t, r.here.base, r.token)
	phone.send("", content)
	failed := phone.awaitEnd("failed", said(half)).Turn
	if failed.Failure.Code != "upstream_failed" || !failed.Failure.Retryable {
		r.t.Errorf("the failure is %+v", failed.Failure)
	}
	phone.do("sendAgain", nil)
	if again := phone.awaitEnd("complete", reply).Turn; again.MessageID == failed.MessageID || again.ChatID != failed.ChatID {
		r.t.Errorf("tried again, the reply is %s in chat %s; it was %s in %s", again.MessageID, again.ChatID, failed.MessageID, failed.ChatID)
	}
	if asked := r.asked(content); asked != 2 {
		r.t.Errorf("the model was asked %d times, want twice", asked)
	}
}

func (r recipe) renewsToken() {
	content := uuid.NewString()
	r.plays.add(content, offline.Answer{Text: reply})
	expired, err := auth.Mint([]byte(testkit.JWTSecret), r.user, "", time.Minute, time.Now().Add(-time.Hour))
	if err != nil {
		r.t.Fatal(err)
	}
	phone := r.stage.launch(r.t, r.here.base, expired, r.token)
	phone.send("", content)
	end := phone.awaitEnd("complete", reply)
	if end.Renewals != 1 {
		r.t.Errorf("the token was renewed %d times, want once", end.Renewals)
	}
	r.once(content, end.Turn.ChatID)
}

// givesUp does not go on asking for what will never be.
func (r recipe) givesUp() {
	phone := r.stage.launch(r.t, r.here.base, r.token)
	phone.send(uuid.NewString(), "to a chat that is not there")
	end := phone.awaitEnd("failed", "")
	if end.Turn.Failure.Code != "chat_not_found" || end.Turn.Failure.Retryable {
		r.t.Errorf("the failure is %+v", end.Turn.Failure)
	}
}

func (r recipe) waitsForOtherReply() {
	first, second := uuid.NewString(), uuid.NewString()
	goOn := r.hold(first, reply, half)
	r.plays.add(second, offline.Answer{Text: reply})
	phone := r.stage.launch(r.t, r.here.base, r.token)
	phone.send("", first)
	chatID := phone.awaitText(said(half)).Turn.ChatID
	impatient := r.stage.launch(r.t, r.here.base, r.token)
	impatient.send(chatID, second)
	testkit.Eventually(r.t, "the second message is refused", func() bool {
		return strings.Contains(r.here.logs.String(), `"status":409`)
	})
	goOn()
	phone.awaitEnd("complete", reply)
	impatient.awaitEnd("complete", reply)
}

func (r recipe) keepsOrder() {
	contents := []string{uuid.NewString(), uuid.NewString(), uuid.NewString()}
	phone := r.stage.launch(r.t, r.here.base, r.token)
	r.plays.add(contents[0], offline.Answer{Text: reply})
	phone.send("", contents[0])
	chatID := phone.awaitEnd("complete", reply).Turn.ChatID
	goOn := r.hold(contents[1], reply, half)
	phone.send(chatID, contents[1])
	phone.awaitText(said(half))
	r.plays.add(contents[2], offline.Answer{Text: reply})
	phone.send(chatID, contents[2])
	phone.await("the third message waits", func(now seen) bool { return now.Turn.Content == contents[2] })
	goOn()
	phone.awaitEnd("complete", reply)
	got := testkit.Ask[[]string](r.t, r.pool, `select array_agg(content order by seq) from messages where chat_id = $1 and role = 'user'`, chatID)
	if !slices.Equal(got, contents) {
		r.t.Errorf("the messages of the chat are %v, want %v", got, contents)
	}
}
