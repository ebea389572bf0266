package clients_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

const (
	aisdkScenarios = "testdata/ai-sdk/scenarios.js"
	// aisdkCuts is in how many places one of the scenarios has its network cut.
	aisdkCuts = 9
)

// aisdkScenario is one of aisdkScenarios: what the model answers, and how often it is asked for a reply.
type aisdkScenario struct {
	name    string
	calls   []offline.Item // of the model's first step, before its answers
	answers []offline.Answer
	held    bool // the model waits after the first half until the app lets it go on
	asked   int
	stored  string // the replies in Postgres, as storedReplies has them, where the model calls tools
}

const (
	// dateDone is a reply whose only call the app has answered, once.
	dateDone = `complete: get_date, done "today"`
	// storedReplies are the status and the parts of the replies to a message. The server's own tool has outputs that vary.
	storedReplies = `
		select string_agg(reply.status || ': ' || (
		  select string_agg(concat_ws(' ', part->>'name', part->>'approved', part->>'reason', part->>'status',
		    case when part->'output'->'sent' is null then part->'output' end), ', ' order by place)
		  from jsonb_array_elements(reply.parts) with ordinality parts (part, place)), '; ' order by reply.seq)
		from messages reply join messages said on said.chat_id = reply.chat_id and said.content = $1 where reply.role = 'assistant'`
)

// aisdkLine is one of the AI SDK's lines, and its packages where they are not those of this folder.
type aisdkLine struct {
	name    string
	aliases []string
}

var aisdkLines = []aisdkLine{
	{name: "6", aliases: []string{"ai=./ai-sdk/node_modules/ai/dist/index.mjs", "@ai-sdk/react=./ai-sdk/node_modules/@ai-sdk/react/dist/index.mjs",
		"react=./node_modules/react"}},
	{name: "7"},
}

// TestAISDKTypes checks the transport, the hook and the documented screen against the types of each line.
func TestAISDKTypes(t *testing.T) {
	t.Parallel()
	noticeScripts(t)
	eachLine(t, func(t *testing.T, line aisdkLine) {
		runsWell(t, nil, "node_modules/typescript/bin/tsc", "-p", "testdata/ai-sdk/tsconfig."+line.name+".json")
	})
}

// TestAISDKTools answers calls of tools with the AI SDK's own chat, over streams as the server writes them.
func TestAISDKTools(t *testing.T) {
	t.Parallel()
	eachLine(t, func(t *testing.T, line aisdkLine) {
		runsWell(t, nil, "--test", bundleScript(t, "testdata/ai-sdk/tools.js", "node", line.aliases))
	})
}

// TestAISDK drives the transport with the AI SDK's own chat and readers, for text and for tools.
func TestAISDK(t *testing.T) {
	t.Parallel()
	eachLine(t, func(t *testing.T, line aisdkLine) {
		testAISDK(t, bundleScript(t, aisdkScenarios, "node", line.aliases))
	})
}

var aisdkFiles = []string{"ai-sdk/node_modules/ai", "node_modules/ai", "dist/esm/ai-sdk.js"}

// eachLine runs a test with each line of the AI SDK.
func eachLine(t *testing.T, test func(*testing.T, aisdkLine)) {
	requireFiles(t, aisdkFiles...)
	for _, line := range aisdkLines {
		t.Run(line.name, func(t *testing.T) {
			t.Parallel()
			test(t, line)
		})
	}
}

func testAISDK(t *testing.T, script string) {
	r := newToolRig(t)
	date, card := offline.Call{Name: "get_date"}, offline.Call{Name: "send_postcard", Arguments: postcard}
	whole := offline.Answer{Text: reply}
	broken := offline.Answer{Text: reply, Fault: offline.FaultFailed, FaultAfter: half}
	refused := offline.Answer{Fault: offline.Fault404}
	for _, c := range []aisdkScenario{
		{name: "streams", answers: []offline.Answer{whole}, asked: 1},
		{name: "resumes a reply that was cut", held: true, asked: 1},
		{name: "resumes a reply that ended in the meantime", held: true, asked: 1},
		{name: "comes back by itself wherever it is cut", asked: 0},
		{name: "takes no reply for whole that was cut off cleanly"},
		{name: "sends a message again of which nothing was heard", answers: []offline.Answer{whole}, asked: 1},
		{name: "has nothing to resume", answers: []offline.Answer{whole}, asked: 1},
		{name: "is killed and reopened", held: true, asked: 1},
		{name: "is stopped by another device", held: true, asked: 1},
		{name: "tells of a failure and tries again", answers: []offline.Answer{broken, whole}, asked: 2},
		{name: "tells of a refusal and tries again", answers: []offline.Answer{refused, whole}, asked: 2},
		{name: "sends a message twice", held: true, asked: 1},
		{name: "waits while no server answers"},
		{name: "gives up a connection that is silent", held: true, asked: 1},
		{name: "edits messages and has other replies", answers: []offline.Answer{whole}, asked: 6},
		{name: "edits a message that was refused", answers: []offline.Answer{whole}, asked: 1},
		{name: "is told that another device was faster", answers: []offline.Answer{whole}, asked: 1},
		{name: "renews its token", answers: []offline.Answer{whole}, asked: 1},
		{name: "runs a call and goes on", calls: []offline.Item{date}, answers: []offline.Answer{whole}, asked: 2, stored: dateDone},
		{name: "tells the model that a call failed", calls: []offline.Item{date}, answers: []offline.Answer{whole}, asked: 2,
			stored: `complete: get_date, failed {"error": "No clock."}`},
		{name: "asks before it sends a postcard", calls: []offline.Item{card}, answers: []offline.Answer{whole}, asked: 2,
			stored: "complete: send_postcard, true, done"},
		{name: "sends no postcard that is denied", calls: []offline.Item{card}, answers: []offline.Answer{whole}, asked: 2,
			stored: "complete: send_postcard, false So be it., denied null"},
		{name: "answers two calls of one step", calls: []offline.Item{date, card}, answers: []offline.Answer{whole}, asked: 2,
			stored: `complete: get_date, send_postcard, done "today", true, done`},
		{name: "runs no call again that has its answer", calls: []offline.Item{date}, held: true, asked: 2, stored: dateDone},
		{name: "comes back to a call that is open", calls: []offline.Item{date}, answers: []offline.Answer{whole}, asked: 2, stored: dateDone},
		{name: "runs a call on one of two devices", calls: []offline.Item{date}, answers: []offline.Answer{whole}, asked: 2, stored: dateDone},
		{name: "answers a call over a network that cuts", calls: []offline.Item{date}, answers: []offline.Answer{whole}, asked: 2, stored: dateDone},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(r.in(t), script)
		})
	}
}

// run plays one scenario: the script does what an app does, and asserts what its user sees.
func (c aisdkScenario) run(r *rig, script string) {
	content := uuid.NewString()
	if len(c.calls) > 0 {
		r.plays.add(content, offline.Says(append([]offline.Item{offline.Text{Text: "Let me see. "}}, c.calls...)...))
	}
	goOn := func() {}
	if c.held {
		goOn = r.hold(content, reply, half)
	}
	for _, answer := range c.answers {
		r.plays.add(content, answer)
	}
	for i := range aisdkCuts {
		r.plays.add(numbered(content, i), offline.Answer{Text: reply})
	}
	network := newProxy(r.t, r.here)
	var cuts atomic.Int64
	cues := startCues(r.t, map[string]func(){
		"goOn": goOn, "cut": network.CutNow, "freeze": network.Freeze, "cutAtOnce": func() { network.CutAfter(1) },
		// Within the answer's head, its padding, its events, its characters.
		"cutSoon": func() { network.CutAfter(int(200 + 307*cuts.Add(1))) },
	})
	r.runNode(script, env{
		"BASE_URL": network.base, "CUES": cues, "SCENARIO": c.name, "MESSAGE": content, "REPLY": reply, "HALF": said(half),
		"CUTS": strconv.Itoa(aisdkCuts),
	})
	asked := r.asked(content)
	assert.Truef(r.t, asked == c.asked, "the model was asked %d times, want %d", asked, c.asked)
	if len(c.calls) > 0 {
		testkit.Want(r.t, r.pool, c.stored, storedReplies, content)
	}
	for i := range aisdkCuts {
		asked := r.asked(numbered(content, i))
		assert.Truef(r.t, asked <= 1, "the model was asked %d times before and after cut %d", asked, i)
	}
}

// numbered is the message before the cut in one of the places.
func numbered(content string, i int) string { return content + " " + strconv.Itoa(i) }
