package clients_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// screen is what a page with a chat of the AI SDK shows.
type screen struct {
	Ends    int         `json:"ends"`  // calls of onFinish
	Shown   [][2]string `json:"shown"` // the messages in the page: role and text
	Buttons []string    `json:"buttons"`
	Status  string      `json:"status"` // useChat's
	Error   *struct {
		Name string `json:"name"`
		Code string `json:"code"`
	} `json:"error"`
	Last struct { // metadata of the last message
		ChatID    string `json:"chat_id"`
		MessageID string `json:"message_id"`
		Status    string `json:"status"`
		Retryable bool   `json:"retryable"`
		Resumed   bool   `json:"resumed"`
	} `json:"last"`
}

// reactHooks are what an app may use: ours, or the SDK's with the transport alone.
var reactHooks = []string{"useThroughline", "usePlainly"}

// TestReactUseChat drives React's useChat in a browser, in strict mode, with each line of the AI SDK.
func TestReactUseChat(t *testing.T) {
	t.Parallel()
	requireFiles(t, aisdkFiles...)
	for _, line := range aisdkLines {
		t.Run("AI SDK "+line.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.runInBrowser("testdata/ai-sdk/react-app.js", line.aliases)
			r := recipe{newRig(t, s.origin), s}
			for _, hook := range reactHooks {
				for name, test := range map[string]func(react){
					"streams a reply":                            react.streams,
					"shows a reply once that was cut":            react.resumesAfterCut,
					"goes on when it is mounted again":           react.resumesOnMount,
					"stops the reply":                            react.stops,
					"tries a failed message again after restart": react.triesAgainAfterRestart,
				} {
					t.Run(hook+" "+name, func(t *testing.T) {
						t.Parallel()
						test(react{r.in(t), hook})
					})
				}
			}
			t.Run("the screen of the docs", func(t *testing.T) {
				t.Parallel()
				react{r.in(t), ""}.usesScreen()
			})
			t.Run("a reply that ended before it was mounted again", func(t *testing.T) {
				t.Parallel()
				react{r.in(t), "useThroughline"}.hasEndedOnMount()
			})
		})
	}
}

// react is an app with one of the hooks.
type react struct {
	recipe
	hook string
}

// page is one page of the app.
type page struct {
	*phone
}

// open opens a page on a chat, a new one without an id.
func (r react) open(base, chatID string) page {
	r.t.Helper()
	with := map[string]any{"baseUrl": base, "token": r.token, "hook": r.hook}
	if chatID != "" {
		with["id"], with["rows"] = chatID, r.rows(chatID)
	}
	return page{r.stage.launchWith(r.t, with)}
}

// rows are a chat's messages as supabase-js reads them.
func (r react) rows(chatID string) json.RawMessage {
	return testkit.Ask[json.RawMessage](r.t, r.pool, `select jsonb_agg(to_jsonb(m) order by seq) from messages m where chat_id = $1`, chatID)
}

func (p page) await(what string, holds func(screen) bool) screen {
	p.t.Helper()
	return awaitApp(p.phone, what, holds)
}

// awaitShown waits until the page shows these messages and no others, the user's first.
func (p page) awaitShown(status string, texts ...string) screen {
	p.t.Helper()
	want := messagesOf(texts)
	return p.await("the page shows the messages, status "+status, func(now screen) bool {
		return now.Status == status && slices.Equal(now.Shown, want)
	})
}

// messagesOf are messages in turn, the user's first.
func messagesOf(texts []string) [][2]string {
	messages := make([][2]string, len(texts))
	for i, text := range texts {
		messages[i] = [2]string{[]string{"user", "assistant"}[i%2], text}
	}
	return messages
}

// conversing is a page that shows the first half of a reply, over a network that can fail.
type conversing struct {
	page
	network *proxy
	content string
	chat    string
	goOn    func()
}

func (r react) converses() conversing {
	r.t.Helper()
	c := conversing{content: uuid.NewString(), network: newProxy(r.t, r.here)}
	c.goOn = r.hold(c.content, reply, half)
	c.page = r.open(c.network.base, "")
	c.do("send", map[string]any{"text": c.content})
	c.chat = c.awaitShown("streaming", c.content, said(half)).Last.ChatID
	return c
}

func (r react) endsWhole(c conversing) {
	r.t.Helper()
	assert.Equal(r.t, "complete", c.awaitShown("ready", c.content, reply).Last.Status, "the reply")
	r.once(c.content, c.chat)
}

func (r react) streams() {
	c := r.converses()
	c.goOn()
	r.endsWhole(c)
	c.do("send", map[string]any{"text": "[[offline:empty]]"})
	now := c.await("the second reply ended", func(now screen) bool { return len(now.Shown) == 4 && now.Status == "ready" })
	assert.Truef(r.t, now.Last.ChatID == c.chat && now.Error == nil,
		"the second message went to the chat %s, not %s; error %v", now.Last.ChatID, c.chat, now.Error)
}

func (r react) resumesAfterCut() {
	c := r.converses()
	c.network.CutNow()
	c.await("the page came back", func(now screen) bool { // for a moment it shows what it had, still as streaming
		return now.Ends == 1 && now.Last.Resumed && now.Status == "streaming" && slices.Equal(now.Shown, messagesOf([]string{c.content, said(half)}))
	})
	c.network.CutNow()
	c.await("the page saw the second cut", func(now screen) bool { return now.Ends == 2 })
	c.goOn()
	r.endsWhole(c)
}

func (r react) resumesOnMount() {
	c := r.converses()
	again := r.open(r.there.base, c.chat)
	again.awaitShown("streaming", c.content, said(half))
	c.goOn()
	again.awaitShown("ready", c.content, reply)
	r.endsWhole(c)
}

// hasEndedOnMount reads the messages while the reply is running, and is mounted when it has ended.
func (r react) hasEndedOnMount() {
	c := r.converses()
	rows := r.rows(c.chat)
	c.goOn()
	r.endsWhole(c)
	late := page{r.stage.launchWith(r.t, map[string]any{"baseUrl": r.there.base, "token": r.token, "hook": r.hook, "id": c.chat, "rows": rows})}
	late.awaitShown("ready", c.content, reply)
}

func (r react) stops() {
	c := r.converses()
	other := r.open(r.there.base, c.chat)
	other.awaitShown("streaming", c.content, said(half))
	other.do("stop", nil)
	for _, p := range []page{c.page, other} {
		now := p.awaitShown("ready", c.content, said(half))
		assert.Truef(r.t, now.Last.Status == "cancelled" && now.Error == nil,
			"the stopped reply is %s, error %v", now.Last.Status, now.Error)
	}
	r.once(c.content, c.chat)
}

// usesScreen stops a reply, and has another one tried again, by the screen's buttons.
func (r react) usesScreen() {
	first, second := uuid.NewString(), uuid.NewString()
	r.hold(first, reply, half)
	r.plays.add(second, offline.Answer{Text: reply, Fault: offline.FaultFailed, FaultAfter: half})
	r.plays.add(second, offline.Answer{Text: reply})
	p := r.open(r.here.base, "")
	awaitScreen := func(button string, texts ...string) {
		r.t.Helper()
		want := messagesOf(texts)
		p.await("the screen has the button "+button, func(now screen) bool {
			return slices.Equal(now.Shown, want) && strings.Join(now.Buttons, " ") == button
		})
	}
	p.do("type", map[string]any{"text": first})
	awaitScreen("Stop", first, said(half))
	p.do("press", map[string]any{"button": "Stop"})
	awaitScreen("", first, said(half))
	p.do("type", map[string]any{"text": second})
	awaitScreen("Try again", first, said(half), second, said(half))
	p.do("press", map[string]any{"button": "Try again"})
	awaitScreen("", first, said(half), second, reply)
}

// fails opens a page whose first message's reply breaks off in the middle, and is whole the next time.
func (r react) fails() (page, string, screen) {
	r.t.Helper()
	content := uuid.NewString()
	r.plays.add(content, offline.Answer{Text: reply, Fault: offline.FaultFailed, FaultAfter: half})
	r.plays.add(content, offline.Answer{Text: reply})
	p := r.open(r.here.base, "")
	p.do("send", map[string]any{"text": content})
	now := p.awaitShown("error", content, said(half))
	assert.Truef(r.t, now.Last.Status == "failed" && now.Last.Retryable, "the reply is %+v", now.Last)
	return p, content, now
}

// triesAgainAfterRestart knows the message only from its row.
func (r react) triesAgainAfterRestart() {
	_, content, failed := r.fails()
	p := r.open(r.there.base, failed.Last.ChatID)
	p.awaitShown("ready", content, said(half))
	p.do("regenerate", nil)
	p.awaitShown("ready", content, reply)
	sent := testkit.Ask[int](r.t, r.pool, `select count(*) from messages where chat_id = $1 and role = 'user'`, failed.Last.ChatID)
	assert.Truef(r.t, sent == 1, "the message is stored %d times", sent)
}
