package clients_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// frameworks are what the hooks work in, and esbuild's aliases for them.
var frameworks = map[string][]string{
	"React 19": nil,
	"React 18": {"react=./testdata/frameworks/node_modules/react", "react-dom=./testdata/frameworks/node_modules/react-dom"},
	"Preact": {
		"react=./testdata/frameworks/node_modules/preact/compat", "react-dom=./testdata/frameworks/node_modules/preact/compat",
	},
}

// hooked is what an app on the hooks shows.
type hooked struct {
	Lines   []string     `json:"lines"`   // of the screens of the docs
	Buttons []string     `json:"buttons"` // that can be pressed
	Refused *hookError   `json:"refused"`
	Chat    shownChat    `json:"chat"`
	Known   shownMemoirs `json:"memories"`
}

type hookError struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

type shownChat struct {
	ChatID   string      `json:"chatId"`
	Status   string      `json:"status"`
	HasOlder bool        `json:"hasOlder"`
	Error    *hookError  `json:"error"`
	Said     [][3]string `json:"said"` // role, content, status
	Keys     []string    `json:"keys"`
	Places   []*string   `json:"places"` // among the versions, as "2/3"
	Failure  *struct {
		Code string `json:"code"`
	} `json:"failure"`
	Version *int `json:"version"` // of the brief in the last reply's receipt
}

type shownMemoirs struct {
	Known       []string   `json:"known"`
	Inbox       []string   `json:"inbox"`
	Remembering *bool      `json:"remembering"`
	Status      string     `json:"status"`
	HasMore     bool       `json:"hasMore"`
	Error       *hookError `json:"error"`
}

// hooks is an app on the hooks, in one framework.
type hooks struct {
	recipe
}

func (h hooks) in(t *testing.T) hooks { return hooks{h.recipe.in(t)} }

// TestHooks shows chats and memories by the package's hooks, in strict mode.
func TestHooks(t *testing.T) {
	t.Parallel()
	for name, aliases := range frameworks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.runInBrowser("testdata/hooks-app.js", aliases)
			h := hooks{recipe{newRigWith(t, env{"LONG_TERM_MEMORY": "true"}, s.origin), s}}
			for name, test := range map[string]func(hooks){
				"begins a chat and goes on":                    hooks.begins,
				"sends before the chat is open":                hooks.sendsAtOnce,
				"comes back to a reply after it was unmounted": hooks.comesBack,
				"tries a failed message again after a restart": hooks.triesAgainAfterRestart,
				"tries again what failed before it began":      hooks.triesOverloadedAgain,
				"drops what cannot be sent":                    hooks.drops,
				"edits, asks again and goes back":              hooks.edits,
				"reads older messages, and what others wrote":  hooks.reads,
				"shows another chat":                           hooks.showsAnother,
				"says that there is no such chat":              hooks.findsNothing,
				"follows what another window says":             hooks.follows,
				"waits for the network to read a chat":         hooks.waitsForNetwork,
				"keeps unsent messages over the app's end":     hooks.keepsUnsent,
				"shows, corrects and forgets memories":         hooks.remembers,
				"is used by the screens of the docs":           hooks.usesScreens,
				"reports a memory's fault and keeps it":        hooks.refusesMemory,
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(h.in(t))
				})
			}
		})
	}
}

// shown is one app.
type shown struct{ *phone }

func (h hooks) launch(base, chatID string) shown {
	h.t.Helper()
	return h.launchWith(map[string]any{"baseUrl": base, "token": h.token, "chatId": orUndefined(chatID)})
}

func (h hooks) launchWith(with map[string]any) shown {
	h.t.Helper()
	return shown{h.stage.launchWith(h.t, with)}
}

// orUndefined is nil, which JSON leaves out in a script's eyes, for no id.
func orUndefined(id string) any {
	if id == "" {
		return nil
	}
	return id
}

func (p shown) await(what string, holds func(hooked) bool) hooked {
	p.t.Helper()
	return awaitApp(p.phone, what, holds)
}

// awaitSaid waits until the app shows these messages and no others, the user's first.
func (p shown) awaitSaid(status string, texts ...string) hooked {
	p.t.Helper()
	want := messagesOf(texts)
	return p.await(fmt.Sprintf("the app shows %d messages, status %s", len(texts), status), func(now hooked) bool {
		return now.Chat.Status == status && slices.EqualFunc(now.Chat.Said, want, func(a [3]string, b [2]string) bool {
			return a[0] == b[0] && a[1] == b[1]
		})
	})
}

func (p shown) send(content string) { p.t.Helper(); p.do("send", map[string]any{"content": content}) }

// say has one message answered, over HTTP, and gives the chat's id.
func (h hooks) say(chatID, content string) string {
	h.plays.add(content, offline.Answer{Text: "Re: " + content})
	path, body := "/v1/message/first", testkit.Body{"content": content, "client_message_id": uuid.NewString()}
	if chatID != "" {
		path, body["chat_id"] = "/v1/message", chatID
	}
	client := testkit.Client{T: h.t, Base: h.here.base, Token: h.token}
	answer := client.Call(http.MethodPost, path, body, "Accept", "application/json")
	var reply struct {
		ChatID string `json:"chat_id"`
	}
	err := json.Unmarshal([]byte(answer.Text), &reply)
	require.Truef(h.t, err == nil && answer.Status == http.StatusOK, "%d %s: %v", answer.Status, answer.Text, err)
	return reply.ChatID
}

// begins keeps its keys, so that nothing is drawn again, and takes the chat's id into its address.
func (h hooks) begins() {
	first, second := uuid.NewString(), uuid.NewString()
	goOn := h.hold(first, reply, half)
	h.plays.add(second, offline.Answer{Text: "Short."})
	p := h.launch(h.here.base, "")
	p.awaitSaid("ready")
	p.send(first)
	streaming := p.awaitSaid("streaming", first, said(half))
	p.do("adoptId", nil)
	goOn()
	whole := p.awaitSaid("ready", first, reply)
	assert.Truef(h.t, slices.Equal(whole.Chat.Keys, streaming.Chat.Keys),
		"the keys were %v and are %v", streaming.Chat.Keys, whole.Chat.Keys)
	p.send(second)
	now := p.awaitSaid("ready", first, reply, second, "Short.")
	assert.Truef(h.t, now.Chat.ChatID == streaming.Chat.ChatID && len(slices.Compact(slices.Sorted(slices.Values(now.Chat.Keys)))) == 4,
		"the chat is %+v", now.Chat)
	asked := h.asked(first) + h.asked(second)
	assert.Truef(h.t, asked == 2, "the model was asked %d times", asked)
}

// sendsAtOnce sends in an effect that runs before the one that opens the chat.
func (h hooks) sendsAtOnce() {
	content := uuid.NewString()
	h.plays.add(content, offline.Answer{Text: reply})
	p := h.launchWith(map[string]any{"baseUrl": h.here.base, "token": h.token, "says": content})
	now := p.awaitSaid("ready", content, reply)
	h.once(content, now.Chat.ChatID)
}

func (h hooks) comesBack() {
	content := uuid.NewString()
	goOn := h.hold(content, reply, half)
	network := newProxy(h.t, h.here)
	p := h.launch(network.base, "")
	p.send(content)
	chatID := p.awaitSaid("streaming", content, said(half)).Chat.ChatID
	p.do("unmount", nil)
	network.CutNow()
	p.do("mount", map[string]any{"chatId": chatID})
	p.awaitSaid("streaming", content, said(half))
	network.CutNow()
	goOn()
	p.awaitSaid("ready", content, reply)
	h.once(content, chatID)
}

// fails shows half of a reply that broke off.
func (h hooks) fails() (shown, string, hooked) {
	h.t.Helper()
	content := uuid.NewString()
	h.plays.add(content, offline.Answer{Text: reply, Fault: offline.FaultFailed, FaultAfter: half})
	h.plays.add(content, offline.Answer{Text: reply})
	p := h.launch(h.here.base, "")
	p.send(content)
	return p, content, p.awaitSaid("failed", content, said(half))
}

// triesAgainAfterRestart knows the message only as it is stored.
func (h hooks) triesAgainAfterRestart() {
	_, content, failed := h.fails()
	p := h.launch(h.there.base, failed.Chat.ChatID)
	p.awaitSaid("failed", content, said(half))
	p.do("retry", nil)
	p.awaitSaid("ready", content, reply)
	h.sentOnce(failed.Chat.ChatID)
}

func (h hooks) sentOnce(chatID string) {
	sent := testkit.Ask[int](h.t, h.pool, `select count(*) from messages where chat_id = $1 and role = 'user'`, chatID)
	assert.Truef(h.t, sent == 1, "the message is stored %d times", sent)
}

// triesOverloadedAgain meets a failure before the first event: the chat is there nevertheless.
func (h hooks) triesOverloadedAgain() {
	content := uuid.NewString()
	h.plays.add(content, offline.Answer{Fault: offline.Fault404})
	h.plays.add(content, offline.Answer{Text: reply})
	p := h.launch(h.here.base, "")
	p.send(content)
	failed := p.awaitSaid("failed", content, "")
	assert.True(h.t, failed.Chat.ChatID != "", "the chat of the failed message has no id")
	p.do("retry", nil)
	p.awaitSaid("ready", content, reply)
	h.sentOnce(failed.Chat.ChatID)
}

// drops takes away what the server refuses for good.
func (h hooks) drops() {
	chatID := h.say("", uuid.NewString())
	p := h.launch(h.here.base, chatID)
	before := p.await("the chat is read", func(now hooked) bool { return len(now.Chat.Said) == 2 }).Chat.Said
	p.send(" ")
	failed := p.awaitSaid("failed", before[0][1], before[1][1], " ", "")
	assert.Truef(h.t, failed.Chat.Failure != nil && failed.Chat.Failure.Code == "validation_failed",
		"the failure is %+v", failed.Chat.Failure)
	p.do("drop", nil)
	p.awaitSaid("ready", before[0][1], before[1][1])
}

// reads pages of four messages, and what another device has written meanwhile.
func (h hooks) reads() {
	words := []string{uuid.NewString(), uuid.NewString(), uuid.NewString()}
	var texts []string
	chatID := ""
	for _, word := range words {
		chatID = h.say(chatID, word)
		texts = append(texts, word, "Re: "+word)
	}
	p := h.launch(h.there.base, chatID)
	assert.True(h.t, p.awaitSaid("ready", texts[2:]...).Chat.HasOlder, "nothing is said of older messages")
	p.do("loadOlder", nil)
	assert.False(h.t, p.awaitSaid("ready", texts...).Chat.HasOlder, "there are no older messages")
	more := uuid.NewString()
	h.say(chatID, more)
	p.do("returns", nil)
	p.awaitSaid("ready", append(texts, more, "Re: "+more)...)
}

func (h hooks) showsAnother() {
	one, two := uuid.NewString(), uuid.NewString()
	first, second := h.say("", one), h.say("", two)
	p := h.launch(h.here.base, first)
	p.awaitSaid("ready", one, "Re: "+one)
	p.do("show", map[string]any{"chatId": second})
	p.awaitSaid("ready", two, "Re: "+two)
	p.do("show", nil)
	p.awaitSaid("ready")
}

func (h hooks) findsNothing() {
	p := h.launch(h.here.base, uuid.NewString())
	now := p.await("the chat could not be read", func(now hooked) bool { return now.Chat.Status == "failed" && now.Chat.Error != nil })
	assert.Truef(h.t, now.Chat.Error.Code == "chat_not_found" && now.Chat.Error.Status == http.StatusNotFound,
		"%+v", now.Chat.Error)
}

// follows shows in one window what another one says, and another device.
func (h hooks) follows() {
	first, second := uuid.NewString(), uuid.NewString()
	chatID := h.say("", first)
	goOn := h.hold(second, reply, half)
	one, other := h.launch(h.here.base, chatID), h.launch(h.there.base, chatID)
	for _, p := range []shown{one, other} {
		p.awaitSaid("ready", first, "Re: "+first)
	}
	one.send(second)
	other.awaitSaid("streaming", first, "Re: "+first, second, said(half))
	goOn()
	for _, p := range []shown{one, other} {
		p.awaitSaid("ready", first, "Re: "+first, second, reply)
	}
	third := uuid.NewString()
	h.say(chatID, third)
	for _, p := range []shown{one, other} {
		p.await("the app has asked by itself", func(now hooked) bool { return len(now.Chat.Said) == 6 && now.Chat.Said[5][1] == "Re: "+third })
	}
}

func (h hooks) waitsForNetwork() {
	content := uuid.NewString()
	chatID := h.say("", content)
	network := newProxy(h.t, h.here)
	network.CutAfter(1)
	p := h.launch(network.base, chatID)
	p.awaitSaid("ready", content, "Re: "+content)
}

// keepsUnsent is killed while nothing gets through, and has the message in its outbox.
func (h hooks) keepsUnsent() {
	content := uuid.NewString()
	chatID := h.say("", uuid.NewString())
	h.plays.add(content, offline.Answer{Text: reply})
	network := newProxy(h.t, h.here)
	with := map[string]any{"baseUrl": network.base, "token": h.token, "chatId": chatID, "kept": true}
	p := h.launchWith(with)
	p.await("the chat is read", func(now hooked) bool { return len(now.Chat.Said) == 2 })
	network.RouteTo(&replica{base: "http://127.0.0.1:1"})
	network.CutNow() // the browser may keep a connection open, which would still lead to the server
	p.send(content)
	p.await("the message waits", func(now hooked) bool { return now.Chat.Status == "waiting" })
	p.kill()
	network.RouteTo(h.there)
	p.do("launch", with)
	p.await("the message is answered", func(now hooked) bool {
		return now.Chat.Status == "ready" && len(now.Chat.Said) == 4 && now.Chat.Said[3][1] == reply
	})
	asked := h.asked(content)
	assert.Truef(h.t, asked == 1, "the model was asked %d times", asked)
}

// usesScreens presses the buttons of the documented screens.
func (h hooks) usesScreens() {
	h = h.ofNewUser()
	h.knows("Likes marzipan.", "inbox")
	content, broken := uuid.NewString(), uuid.NewString()
	h.hold(content, reply, half)
	h.plays.add(broken, offline.Answer{Text: reply, Fault: offline.FaultFailed, FaultAfter: half})
	h.plays.add(broken, offline.Answer{Text: reply})
	p := shown{&phone{t: h.t, stage: h.stage, name: uuid.NewString()}}
	h.t.Cleanup(func() { p.do("kill", nil) })
	p.do("document", map[string]any{"baseUrl": h.here.base, "token": h.token})
	press := func(button string) { h.t.Helper(); p.do("press", map[string]any{"button": button}) }
	await := func(button string, lines ...string) {
		h.t.Helper()
		p.await("the screen has the button "+button, func(now hooked) bool {
			return slices.Equal(now.Lines, lines) && (button == "" || slices.Contains(now.Buttons, button))
		})
	}
	await("That is right", "Likes marzipan.")
	press("That is right")
	await("Forget", "Likes marzipan.")
	p.do("type", map[string]any{"text": content})
	await("Send", "Likes marzipan.")
	press("Send")
	await("Stop", content, said(half), "Likes marzipan.")
	press("Stop")
	await("", content, said(half), "Likes marzipan.")
	p.do("type", map[string]any{"text": broken})
	await("Send", content, said(half), "Likes marzipan.")
	press("Send")
	await("Try again", content, said(half), broken, said(half), "Likes marzipan.")
	press("Try again")
	await("", content, said(half), broken, reply, "Likes marzipan.")
	press("Forget")
	await("Remember nothing", content, said(half), broken, reply)
}
