package clients_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/dev/offline"
)

const (
	aisdkScenarios = "testdata/ai-sdk/scenarios.js"
	// aisdkCuts is in how many places one of the scenarios has its network cut.
	aisdkCuts = 9
)

// aisdkScenario is one of aisdkScenarios: what the model answers, and how often it is asked for a reply.
type aisdkScenario struct {
	name    string
	answers []offline.Answer
	held    bool // the model waits after the first half until the app lets it go on
	asked   int
}

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
	requireAISDK(t)
	noticeScripts(t)
	for _, line := range aisdkLines {
		t.Run(line.name, func(t *testing.T) {
			t.Parallel()
			project := "testdata/ai-sdk/tsconfig." + line.name + ".json"
			out, err := nodeCommand(t.Context(), nil, "node_modules/typescript/bin/tsc", "-p", project).CombinedOutput()
			assert.Truef(t, err == nil, "%v\n%s", err, out)
		})
	}
}

// TestAISDKTools answers calls of tools with the AI SDK's own chat, over streams as the server writes them.
func TestAISDKTools(t *testing.T) {
	t.Parallel()
	requireAISDK(t)
	for _, line := range aisdkLines {
		t.Run(line.name, func(t *testing.T) {
			t.Parallel()
			script := bundleScript(t, "testdata/ai-sdk/tools.js", "node", line.aliases)
			out, err := nodeCommand(t.Context(), nil, "--test", script).CombinedOutput()
			assert.Truef(t, err == nil, "%v\n%s", err, out)
		})
	}
}

// TestAISDK drives the transport with the AI SDK's own chat and readers.
func TestAISDK(t *testing.T) {
	t.Parallel()
	requireAISDK(t)
	for _, line := range aisdkLines {
		t.Run(line.name, func(t *testing.T) {
			t.Parallel()
			testAISDK(t, bundleScript(t, aisdkScenarios, "node", line.aliases))
		})
	}
}

func requireAISDK(t *testing.T) {
	t.Helper()
	requireFiles(t, "ai-sdk/node_modules/ai", "node_modules/ai", "dist/esm/ai-sdk.js")
}

func testAISDK(t *testing.T, script string) {
	r := newRig(t)
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
	for i := range aisdkCuts {
		asked := r.asked(numbered(content, i))
		assert.Truef(r.t, asked <= 1, "the model was asked %d times before and after cut %d", asked, i)
	}
}

// numbered is the message before the cut in one of the places.
func numbered(content string, i int) string { return content + " " + strconv.Itoa(i) }
