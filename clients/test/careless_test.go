package clients_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// careless is the state of an app that uses another library than ours, and does not configure it.
type careless struct {
	ChatID string   `json:"chatId"`
	Text   string   `json:"text"`
	Opens  int      `json:"opens"` // requests that were answered well
	Errors int      `json:"errors"`
	Ends   []string `json:"ends"`
}

// repeats is how often a message is posted, to see that repeating it is safe.
const repeats = 4

// TestOtherClientsPostAgain uses react-native-sse and @microsoft/fetch-event-source as they come: the message is posted
// again after every end. That must neither make a new reply nor send the text twice.
func TestOtherClientsPostAgain(t *testing.T) {
	t.Parallel()
	for _, library := range []string{"react-native-sse", "fetch-event-source"} {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			testPostsAgain(t, "testdata/others/"+library+".js")
		})
	}
}

func testPostsAgain(t *testing.T, script string) {
	s := newStage(t)
	s.runInBrowser(script, nil, "--disable-web-security")
	r := recipe{newRig(t), s}
	for name, test := range map[string]func(recipe){
		"after a completion": recipe.postsAgainAfterCompletion,
		"after a failure":    recipe.postsAgainAfterFailure,
		"after a cut":        recipe.postsAgainAfterCut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(r.in(t))
		})
	}
}

func (r recipe) postsAgainAfterCompletion() {
	content := uuid.NewString()
	r.plays.add(content, offline.Answer{Text: reply})
	app := r.postCarelessly(r.here.base, content)
	r.checkCareless(content, app, careless{Text: reply, Ends: []string{testkit.Completion}})
}

func (r recipe) postsAgainAfterFailure() {
	content := uuid.NewString()
	r.plays.add(content, offline.Answer{Text: reply, Fault: offline.FaultFailed, FaultAfter: half})
	app := r.postCarelessly(r.here.base, content)
	r.checkCareless(content, app, careless{Text: said(half), Ends: []string{testkit.Failed}})
}

func (r recipe) postsAgainAfterCut() {
	content := uuid.NewString()
	goOn := r.hold(content, reply, half)
	network := newProxy(r.t, r.here)
	app := r.postCarelessly(network.base, content)
	r.awaitCareless(app, "the app shows the first part", func(now careless) bool { return now.Text == said(half) })
	network.CutNow()
	goOn()
	r.checkCareless(content, app, careless{Text: reply, Ends: []string{testkit.Completion}, Errors: 1})
}

// postCarelessly posts a message and returns the app's name.
func (r recipe) postCarelessly(base, content string) string {
	r.t.Helper()
	body, err := json.Marshal(testkit.Body{"content": content, "client_message_id": uuid.NewString()})
	require.NoError(r.t, err)
	app := uuid.NewString()
	r.stage.give(r.t, order{App: app, Do: "post", With: map[string]any{
		"url": base + "/v1/message/first", "token": r.token, "body": string(body), "pollingInterval": 50,
	}})
	r.t.Cleanup(func() { r.stage.give(r.t, order{App: app, Do: "kill"}) })
	return app
}

func (r recipe) awaitCareless(app, what string, holds func(careless) bool) careless {
	r.t.Helper()
	var now careless
	r.stage.await(r.t, what, app, func(latest report) bool {
		now = careless{}
		return json.Unmarshal(latest, &now) == nil && holds(now)
	})
	return now
}

// checkCareless waits until the message was posted often repeats, and wants it answered once and told once.
func (r recipe) checkCareless(content, app string, want careless) {
	r.t.Helper()
	got := r.awaitCareless(app, "the message was posted several times", func(now careless) bool { return now.Opens >= repeats && len(now.Ends) > 0 })
	r.once(content, got.ChatID)
	assert.Truef(r.t, got.Text == want.Text && slices.Equal(got.Ends, want.Ends) && got.Errors == want.Errors,
		"the app shows %q with the ends %v and %d errors, want %q with %v and %d", got.Text, got.Ends, got.Errors, want.Text, want.Ends, want.Errors)
}
