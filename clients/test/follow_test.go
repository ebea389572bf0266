package clients_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// reply is what the model says in these tests: characters of one to four bytes, of one and two UTF-16 units,
// composed ones and combined ones.
var reply = strings.Repeat("Grüße, cafe\u0301 und 👩‍👩‍👧‍👦 sagen नमस्ते 🇩🇪, "+
	"日本語 too; 𝔘nicode e\u0323\u0302 ends. ", 12) + "🏁"

// half is how many pieces of it come before the model is held.
const half = 60

// said is the reply's first so many pieces.
func said(pieces int) string {
	words := strings.SplitAfter(reply, " ")
	return strings.Join(words[:pieces], "")
}

// recipe is one way to run the package, on its stage, and the servers it talks to.
type recipe struct {
	*rig
	stage *stage
}

func (r recipe) in(t *testing.T) recipe { return recipe{r.rig.in(t), r.stage} }

// TestFollowOverXHR reads streams as React Native does, in a browser without its same-origin policy: a phone has none.
func TestFollowOverXHR(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.runInBrowser("testdata/native-app.js", nil, "--disable-web-security")
	testRecipe(t, recipe{newRig(t), s})
}

func TestFollowInWebPages(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.runInBrowser("testdata/web-app.js", nil)
	testRecipe(t, recipe{newRig(t, s.origin), s})
}

func TestFollowInNode(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.runInNode("testdata/node-app.js", nil)
	testRecipe(t, recipe{newRig(t), s})
}

// TestTurn runs the tests of a turn's rules.
func TestTurn(t *testing.T) {
	t.Parallel()
	requireBuild(t)
	runsWell(t, nil, "--test", "testdata/turn.test.js", "testdata/stream.test.js", "testdata/outbox.test.js",
		"testdata/token.test.js", "testdata/network.test.js", "testdata/tools.test.js", "testdata/changes.test.js")
}

// testRecipe is what each of them has to do.
func testRecipe(t *testing.T, r recipe) {
	for name, test := range map[string]func(recipe){
		"resumes a reply that was cut":                     recipe.resumesAfterCut,
		"resumes wherever the bytes are cut":               recipe.resumesWhereverCut,
		"resumes within a character":                       recipe.resumesWithinCharacter,
		"gives up a connection that is silent":             recipe.leavesSilence,
		"comes back to the other server":                   recipe.movesInBackground,
		"is killed and comes back to the other server":     recipe.isKilled,
		"outlives the server it reads from":                recipe.outlivesServer,
		"sends a message again":                            recipe.sendsAgain,
		"is stopped by another device":                     recipe.isStopped,
		"tries a failed message again":                     recipe.triesAgain,
		"renews its token":                                 recipe.renewsToken,
		"waits while another reply is running in the chat": recipe.waitsForOtherReply,
		"sends the messages of a chat in their order":      recipe.keepsOrder,
		"gives up on a wrong turn":                         recipe.givesUp,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(r.in(t))
		})
	}
}

// once wants one call of the model and two stored messages for all that the apps did.
func (r recipe) once(content string, chatID string) {
	asked := r.asked(content)
	assert.Truef(r.t, asked == 1, "the model was asked %d times, want once", asked)
	rows := testkit.Ask[int](r.t, r.pool, `select count(*) from messages where chat_id = $1`, chatID)
	assert.Truef(r.t, rows == 2, "the chat has %d messages, want 2", rows)
}

// talking is an app that has half of a reply, over a network that can fail.
type talking struct {
	*phone
	network *proxy
	content string
	chat    string
	message string
	goOn    func() // lets the model say the rest
}

func (r recipe) talks() talking {
	r.t.Helper()
	app := talking{content: uuid.NewString(), network: newProxy(r.t, r.here)}
	app.goOn = r.hold(app.content, reply, half)
	app.phone = r.stage.launch(r.t, app.network.base, r.token)
	app.send("", app.content)
	turn := app.awaitText(said(half)).Turn
	app.chat, app.message = turn.ChatID, turn.MessageID
	return app
}

// endsWhole wants the app to have the whole reply, made once.
func (r recipe) endsWhole(app talking) {
	r.t.Helper()
	app.awaitEnd("complete", reply)
	r.once(app.content, app.chat)
}

func (r recipe) resumesAfterCut() {
	app := r.talks()
	app.network.CutNow()
	app.goOn()
	r.endsWhole(app)
}

// resumesWhereverCut cuts within the answer's head, its padding, events and characters.
func (r recipe) resumesWhereverCut() {
	const apps, first, step = 12, 300, 251
	phones, contents := make([]*phone, apps), make([]string, apps)
	networks := make([]*proxy, apps)
	for i := range apps {
		contents[i] = uuid.NewString()
		r.plays.add(contents[i], offline.Answer{Text: reply})
		networks[i] = newProxy(r.t, r.here)
		networks[i].CutAfter(first + i*step)
		phones[i] = r.stage.launch(r.t, networks[i].base, r.token)
		phones[i].send("", contents[i])
	}
	for i, phone := range phones {
		end := phone.awaitEnd("complete", reply)
		r.once(contents[i], end.Turn.ChatID)
		assert.Truef(r.t, networks[i].Cuts() != 0, "the connection was to be cut after %d bytes and was not", first+i*step)
	}
}

// family is one character to its reader: seven code points of 25 bytes.
const family = "👩‍👩‍👧‍👦"

// resumesWithinCharacter is cut within a character, and again within the same one when it comes back.
func (r recipe) resumesWithinCharacter() {
	const step = 2
	var phones []*phone
	var contents []string
	var networks []*proxy
	for after := 1; after < len(family); after += step {
		content, network := uuid.NewString(), newProxy(r.t, r.here)
		r.plays.add(content, offline.Answer{Text: reply})
		network.CutWithin(family, after, 2)
		phone := r.stage.launch(r.t, network.base, r.token)
		phone.send("", content)
		phones, contents, networks = append(phones, phone), append(contents, content), append(networks, network)
	}
	for i, phone := range phones {
		end := phone.awaitEnd("complete", reply)
		r.once(contents[i], end.Turn.ChatID)
		if networks[i].Cuts() != 2 {
			r.t.Errorf("cut %d times after %d bytes of a character", networks[i].Cuts(), 1+i*step)
		}
	}
}

// leavesSilence has a connection that is dead without knowing.
func (r recipe) leavesSilence() {
	content := uuid.NewString()
	goOn := r.hold(content, reply, half)
	network := newProxy(r.t, r.here)
	phone := r.stage.launchWith(r.t, map[string]any{"baseUrl": network.base, "tokens": []string{r.token}, "silence": 1000})
	phone.send("", content)
	phone.awaitText(said(half))
	network.Freeze()
	goOn()
	end := phone.awaitEnd("complete", reply)
	r.once(content, end.Turn.ChatID)
}

// movesInBackground lets go of its connections in the background, as phones do, and the load balancer
// takes it to the other server then.
func (r recipe) movesInBackground() {
	app := r.talks()
	app.do("background", nil)
	app.awaitText(said(half))
	app.network.RouteTo(r.there)
	app.network.CutNow()
	app.do("foreground", nil)
	app.goOn()
	r.endsWhole(app)
}

func (r recipe) isKilled() {
	app := r.talks()
	app.network.RouteTo(r.there)
	app.network.CutNow()
	app.kill()
	app.do("launch", map[string]any{"baseUrl": app.network.base, "tokens": []string{r.token}})
	app.goOn()
	r.endsWhole(app)
}

// outlivesServer reads from a server that is stopped, which ends its stream without a terminal event
// because the reply goes on at another.
func (r recipe) outlivesServer() {
	app := r.talks()
	stopping := startReplica(r.t, r.settings)
	network := newProxy(r.t, stopping)
	tablet := r.stage.launch(r.t, network.base, r.token)
	tablet.do("watch", map[string]any{"chatId": app.chat, "messageId": app.message})
	tablet.awaitText(said(half))
	network.RouteTo(r.there)
	assert.NoError(r.t, stopping.stop())
	app.goOn()
	tablet.awaitEnd("complete", reply)
	r.endsWhole(app)
}

// sendsAgain posts one message from several apps, as one app does that was killed before its first event.
func (r recipe) sendsAgain() {
	content := uuid.NewString()
	goOn := r.hold(content, reply, half)
	first := r.stage.launch(r.t, r.here.base, r.token)
	id := first.send("", content)
	chatID := first.awaitText(said(half)).Turn.ChatID
	joined := r.stage.launch(r.t, r.here.base, r.token)
	joined.sendAs(id, "", content)
	joined.awaitText(said(half))
	elsewhere := r.stage.launch(r.t, r.there.base, r.token)
	elsewhere.sendAs(id, "", content)
	elsewhere.awaitText(said(half))
	goOn()
	for _, phone := range []*phone{first, joined, elsewhere} {
		phone.awaitEnd("complete", reply)
	}
	replayed := r.stage.launch(r.t, r.there.base, r.token)
	replayed.sendAs(id, "", content)
	cursor := replayed.awaitEnd("complete", reply).Turn.Cursor
	assert.Truef(r.t, strings.HasSuffix(cursor, ":end"), "the cursor at the end is %s", cursor)
	client := testkit.Client{T: r.t, Base: r.there.base, Token: r.token}
	again := client.Call(http.MethodPost, "/v1/message/first", testkit.Body{"content": content, "client_message_id": id}, "Last-Event-ID", cursor)
	assert.Truef(r.t, again.Status == http.StatusNoContent,
		"sent again with the end as its cursor the message is answered with %d %s", again.Status, again.Text)
	r.once(content, chatID)
}

func (r recipe) isStopped() {
	content := uuid.NewString()
	r.hold(content, reply, half)
	phone := r.stage.launch(r.t, r.here.base, r.token)
	phone.send("", content)
	chatID := phone.awaitText(said(half)).Turn.ChatID
	other := r.stage.launch(r.t, r.there.base, r.token)
	other.do("cancel", map[string]any{"chatId": chatID})
	phone.awaitEnd("cancelled", said(half))
	other.await("the stop is confirmed", func(now seen) bool { return now.Cancelled != nil })
	r.once(content, chatID)
}

func (r recipe) triesAgain() {
	content := uuid.NewString()
	r.plays.add(content, offline.Answer{Text: reply, Fault: offline.FaultFailed, FaultAfter: half})
	r.plays.add(content, offline.Answer{Text: reply})
	phone := r.stage.launch(r.t, r.here.base, r.token)
	phone.send("", content)
	failed := phone.awaitEnd("failed", said(half)).Turn
	assert.Truef(r.t, failed.Failure.Code == "upstream_failed" && failed.Failure.Retryable,
		"the failure is %+v", failed.Failure)
	phone.do("sendAgain", nil)
	again := phone.awaitEnd("complete", reply).Turn
	assert.Truef(r.t, again.MessageID != failed.MessageID && again.ChatID == failed.ChatID,
		"tried again, the reply is %s in chat %s; it was %s in %s", again.MessageID, again.ChatID, failed.MessageID, failed.ChatID)
	asked := r.asked(content)
	assert.Truef(r.t, asked == 2, "the model was asked %d times, want twice", asked)
}

func (r recipe) renewsToken() {
	content := uuid.NewString()
	r.plays.add(content, offline.Answer{Text: reply})
	expired, err := auth.Mint([]byte(testkit.JWTSecret), r.user, "", time.Minute, time.Now().Add(-time.Hour))
	require.NoError(r.t, err)
	phone := r.stage.launch(r.t, r.here.base, expired, r.token)
	phone.send("", content)
	end := phone.awaitEnd("complete", reply)
	assert.Truef(r.t, end.Renewals == 1, "the token was renewed %d times, want once", end.Renewals)
	r.once(content, end.Turn.ChatID)
}

// givesUp does not go on asking for what will never be.
func (r recipe) givesUp() {
	phone := r.stage.launch(r.t, r.here.base, r.token)
	phone.send(uuid.NewString(), "to a chat that is not there")
	end := phone.awaitEnd("failed", "")
	assert.Truef(r.t, end.Turn.Failure.Code == "chat_not_found" && !end.Turn.Failure.Retryable,
		"the failure is %+v", end.Turn.Failure)
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
	assert.Truef(r.t, slices.Equal(got, contents), "the messages of the chat are %v, want %v", got, contents)
}
