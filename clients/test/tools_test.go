package clients_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/dev/tools"
	"github.com/arcoscribe/throughline/internal/testkit"
)

var postcard = map[string]string{"to": "Ada", "text": "Hello"}

// newToolRig starts servers with the demo tools: send_postcard has to be approved.
func newToolRig(t *testing.T) *rig {
	t.Helper()
	server, err := tools.Start(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	file := filepath.Join(t.TempDir(), "tools.json")
	require.NoError(t, os.WriteFile(file, server.Declarations(), 0o600))
	return newRigWith(t, env{"TOOLS_FILE": file})
}

// callsFirst has the model call a tool for a message, and say the reply when it has the result.
func (r *rig) callsFirst(content, name string, arguments any) {
	r.plays.add(content, offline.Says(offline.Text{Text: "Let me see. "}, offline.Call{Name: name, Arguments: arguments}))
	r.plays.add(content, offline.Answer{Text: reply})
}

// TestCalls has calls of tools run by the store that apps use: on one of two phones, after a kill, over a network that cuts, and when a
// user has approved.
func TestCalls(t *testing.T) {
	t.Parallel()
	requireBuild(t)
	noticeScripts(t)
	r := newToolRig(t)
	for i := range *rounds {
		r.callsFirst("What day is it? "+strconv.Itoa(i), "get_date", nil)
	}
	for _, content := range []string{"What day is it now?", "What day is it here?", "What day is it there?"} {
		r.callsFirst(content, "get_date", nil)
	}
	for _, approved := range []bool{true, false} {
		r.callsFirst("A postcard, please: "+strconv.FormatBool(approved), "send_postcard", postcard)
	}
	network := newProxy(t, r.here)
	cues := startCues(t, map[string]func(){"cutAtOnce": func() { network.CutAfter(1) }})
	t.Log(r.runNode("testdata/tools.js", env{"NETWORK": network.base, "CUES": cues, "REPLY": reply, "ROUNDS": strconv.Itoa(*rounds)}))
}

// TestExpoTools uses the sample's tools: the phone's date, and a card for a tool of the server that is still there after a kill.
func TestExpoTools(t *testing.T) {
	t.Parallel()
	requireExpo(t)
	st := newExpoStage(t)
	s := sample{recipe: recipe{newToolRig(t), st}, page: page{&phone{t: t, stage: st, name: uuid.NewString()}}}
	day, card := "What day is it? "+uuid.NewString(), "A postcard, please. "+uuid.NewString()
	s.callsFirst(day, "get_date", nil)
	s.callsFirst(card, "send_postcard", postcard)
	with := testkit.Body{"baseUrl": s.here.base, "serverTools": []string{"send_postcard"}}
	s.launch(with)
	s.fill("The token that make run prints", s.token)
	s.press("Sign in")
	s.say(day)
	s.shows("Let me see. "+reply, "get_date: done", "Another reply", day)
	zone := testkit.Ask[string](t, s.pool, `select parts->1->'output'->>'zone' from messages where role = 'assistant' and chat_id = $1`, s.chatOf(day))
	assert.NotEmpty(t, zone)
	s.say(card)
	s.shows("send_postcard: waits", "send_postcard")
	s.kill()
	s.do("launch", with)
	s.press("Approve")
	s.shows("Let me see. "+reply, "send_postcard: done", "Another reply", card)
}
