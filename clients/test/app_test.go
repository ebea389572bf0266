package clients_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
)

// seen is what an app's user sees.
type seen struct {
	Turn struct {
		ChatID    string `json:"chatId"`
		MessageID string `json:"messageId"`
		Content   string `json:"content"`
		Text      string `json:"text"`
		Cursor    string `json:"cursor"`
		Status    string `json:"status"`
		Failure   struct {
			Code      string `json:"code"`
			Retryable bool   `json:"retryable"`
		} `json:"failure"`
	} `json:"turn"`
	Ends      int `json:"ends"`     // of the turn since it was sent
	Renewals  int `json:"renewals"` // of the access token
	Cancelled *struct {
		Status string `json:"status"`
	} `json:"cancelled"`
}

// phone is one app that the stage script runs.
type phone struct {
	t     *testing.T
	stage *stage
	name  string
	given int // orders since it was launched
}

// launch starts an app. It calls the server at base, with the first of the tokens until it
// is refused.
func (s *stage) launch(t *testing.T, base string, tokens ...string) *phone {
	t.Helper()
	return s.launchWith(t, map[string]any{"baseUrl": base, "tokens": tokens})
}

func (s *stage) launchWith(t *testing.T, api map[string]any) *phone {
	t.Helper()
	p := &phone{t: t, stage: s, name: uuid.NewString()}
	p.do("launch", api)
	t.Cleanup(func() { p.do("kill", nil) })
	return p
}

func (p *phone) do(what string, with map[string]any) {
	p.t.Helper()
	p.given++
	p.stage.give(p.t, order{App: p.name, Do: what, With: with})
}

// send sends a message, to a chat or as the first of one, and gives its client_message_id.
func (p *phone) send(chatID, content string) string {
	p.t.Helper()
	id := uuid.NewString()
	p.sendAs(id, chatID, content)
	return id
}

func (p *phone) sendAs(clientMessageID, chatID, content string) {
	p.t.Helper()
	message := map[string]any{"clientMessageId": clientMessageID, "content": content}
	if chatID != "" {
		message["chatId"] = chatID
	}
	p.do("send", message)
}

// kill ends the app at once, and returns when it has ended: an order only waits for the app.
func (p *phone) kill() {
	p.t.Helper()
	p.do("kill", nil)
	p.given = 0
	awaitApp(p, "the app is killed", func(now struct{ Killed bool }) bool { return now.Killed })
}

// await waits until the app has done what it was told and its user sees something.
func (p *phone) await(what string, holds func(seen) bool) seen {
	p.t.Helper()
	return awaitApp(p, what, holds)
}

// awaitApp waits until an app has done what it was told and shows something.
func awaitApp[State any](p *phone, what string, holds func(State) bool) (now State) {
	p.t.Helper()
	p.stage.await(p.t, what, p.name, func(latest report) bool {
		var did struct{ Done int } // orders
		now = *new(State)
		return json.Unmarshal(latest, &did) == nil && did.Done >= p.given && json.Unmarshal(latest, &now) == nil && holds(now)
	})
	return now
}

// awaitText waits until so much of the reply is there.
func (p *phone) awaitText(text string) seen {
	p.t.Helper()
	return p.await("the app shows the first part of the reply", func(now seen) bool { return now.Turn.Text == text })
}

// awaitEnd waits until the turn is over, wants a status and a text, and that the app saw one end.
func (p *phone) awaitEnd(status, text string) seen {
	p.t.Helper()
	now := p.await("the turn is over", func(now seen) bool {
		return now.Turn.Status != "waiting" && now.Turn.Status != "streaming" && now.Turn.Status != ""
	})
	assert.Truef(p.t, now.Turn.Status == status && now.Turn.Text == text,
		"the turn ended as %s %v with\n%q\nwant %s with\n%q", now.Turn.Status, now.Turn.Failure, now.Turn.Text, status, text)
	assert.Truef(p.t, now.Ends == 1, "the app saw %d ends, want 1", now.Ends)
	return now
}
