package clients_test

import (
	"net/http"
	"slices"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// ofNewUser is the same app of somebody of whom nothing is remembered yet.
func (h hooks) ofNewUser() hooks {
	own := *h.rig
	own.user = testkit.NewUser(h.t, h.db)
	own.token = testkit.Token(h.t, own.user)
	return hooks{recipe{&own, h.stage}}
}

func (h hooks) launchMemories(base string) shown {
	h.t.Helper()
	p := shown{&phone{t: h.t, stage: h.stage, name: uuid.NewString()}}
	p.do("remember", map[string]any{"baseUrl": base, "token": h.token})
	h.t.Cleanup(func() { p.do("kill", nil) })
	return p
}

// knows adds a memory over HTTP.
func (h hooks) knows(content, status string) {
	client := testkit.Client{T: h.t, Base: h.here.base, Token: h.token}
	answer := client.Call(http.MethodPost, "/v1/memories", testkit.Body{"content": content, "status": status})
	require.Truef(h.t, answer.Status == http.StatusCreated, "%d %s", answer.Status, answer.Text)
}

func (p shown) awaitKnown(what string, known, inbox []string) hooked {
	p.t.Helper()
	return p.await(what, func(now hooked) bool {
		return now.Known.Status == "ready" && slices.Equal(now.Known.Known, known) && slices.Equal(now.Known.Inbox, inbox)
	})
}

func (h hooks) remembers() {
	h = h.ofNewUser()
	h.knows("Plays the cello.", "active")
	h.knows("Likes marzipan.", "inbox")
	p := h.launchMemories(h.there.base)
	now := p.awaitKnown("both are shown", []string{"Plays the cello."}, []string{"Likes marzipan."})
	assert.Truef(h.t, now.Known.Remembering != nil && *now.Known.Remembering && !now.Known.HasMore, "%+v", now.Known)
	p.do("confirm", map[string]any{"content": "Likes marzipan."})
	p.awaitKnown("the inbox is confirmed", []string{"Likes marzipan.", "Plays the cello."}, []string{})
	p.do("correct", map[string]any{"content": "Plays the cello.", "to": "Plays the viola."})
	p.do("pin", map[string]any{"content": "Plays the viola."})
	p.awaitKnown("it is corrected in its place", []string{"Likes marzipan.", "Plays the viola.!"}, []string{})
	p.do("forget", map[string]any{"content": "Likes marzipan."})
	p.do("add", map[string]any{"content": "Lives in Porto."})
	p.awaitKnown("one is forgotten and one is new", []string{"Lives in Porto.", "Plays the viola.!"}, []string{})
	p.do("setRemembering", map[string]any{"enabled": false})
	p.await("the switch is off", func(now hooked) bool { return now.Known.Remembering != nil && !*now.Known.Remembering })

	tablet := h.launchMemories(h.here.base)
	again := tablet.await("another device sees the same", func(now hooked) bool { return now.Known.Status == "ready" })
	if slices.Sort(again.Known.Known); !slices.Equal(again.Known.Known, []string{"Lives in Porto.", "Plays the viola.!"}) || *again.Known.Remembering {
		h.t.Errorf("%+v", again.Known)
	}
	stored := testkit.Ask[int](h.t, h.pool, `select count(*) from memories where user_id = $1`, h.user)
	assert.Truef(h.t, stored == 2, "%d memories are stored, want 2", stored)
}

func (h hooks) refusesMemory() {
	h = h.ofNewUser()
	h.knows("Plays the cello.", "active")
	p := h.launchMemories(h.here.base)
	p.awaitKnown("it is shown", []string{"Plays the cello."}, []string{})
	p.do("correct", map[string]any{"content": "Plays the cello.", "to": " "})
	now := p.awaitKnown("it is kept", []string{"Plays the cello."}, []string{})
	assert.Truef(h.t, now.Refused != nil && now.Refused.Status == http.StatusUnprocessableEntity && now.Refused.Code == "validation_failed",
		"the app was told %+v", now.Refused)
}
