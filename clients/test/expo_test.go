package clients_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func requireExpo(t *testing.T) {
	requireFiles(t, "expo/node_modules/expo", "dist/esm/react.js")
	noticeScripts(t)
}

// TestExpoTypes checks the sample against the types of Expo and React Native.
func TestExpoTypes(t *testing.T) {
	t.Parallel()
	requireExpo(t)
	runsWell(t, nil, "expo/node_modules/typescript/bin/tsc", "-p", "expo")
}

// TestExpoBundle has Metro bundle the sample, which finds our package by its exports as an app does that installed it.
func TestExpoBundle(t *testing.T) {
	t.Parallel()
	requireExpo(t)
	out := t.TempDir()
	cache := filepath.Join(os.TempDir(), fmt.Sprintf("throughline-metro-%d", os.Getuid())) // Metro's is of the user who ran it first
	require.NoError(t, os.MkdirAll(cache, 0o700))
	command := exec.CommandContext(t.Context(), "node", "node_modules/expo/bin/cli", "export",
		"--platform", "android", "--no-bytecode", "--source-maps", "--output-dir", out)
	command.Dir = "expo"
	command.Env = append(os.Environ(), "TMPDIR="+cache, "CI=1", "EXPO_OFFLINE=1", "EXPO_NO_TELEMETRY=1")
	output, err := command.CombinedOutput()
	require.Truef(t, err == nil, "%v\n%s", err, output)
	bundled := "\n" + strings.Join(sourcesOf(t, out), "\n") + "\n"
	for _, want := range []string{"\n/../dist/esm/react.js\n", "\n/../dist/esm/supabase.js\n", "\n/node_modules/react/index.js\n"} {
		assert.Containsf(t, bundled, want, "the app has no %s", want)
	}
	for _, twice := range []string{"/../dist/cjs/", "/../node_modules/react/"} {
		assert.NotContainsf(t, bundled, twice, "the app has %s as well", twice)
	}
}

// sourcesOf names the files that a bundle is made of.
func sourcesOf(t *testing.T, folder string) []string {
	found, err := filepath.Glob(filepath.Join(folder, "_expo/static/js/android/*.map"))
	require.Truef(t, err == nil && len(found) == 1, "source maps: %v, %v", found, err)
	raw, err := os.ReadFile(found[0])
	require.NoError(t, err)
	var bundle struct{ Sources []string }
	require.NoError(t, json.Unmarshal(raw, &bundle))
	return bundle.Sources
}

// newExpoStage opens the sample in a browser, with React Native for Web in the phone's place.
func newExpoStage(t *testing.T) *stage {
	t.Helper()
	s := newStage(t)
	s.runInBrowser("expo/testdata/app.js", []string{
		"react=./expo/node_modules/react", "react-dom=./expo/node_modules/react-dom",
		"react-native=./expo/node_modules/react-native-web/dist/index.js",
	}, "--disable-web-security")
	return s
}

// TestExpoApp uses the sample's screen, with React Native for Web in the phone's place: in a browser without its
// same-origin policy, which a phone does not have.
func TestExpoApp(t *testing.T) {
	t.Parallel()
	requireExpo(t)
	s := newExpoStage(t)
	r := recipe{newRig(t), s}
	for name, test := range map[string]func(sample){
		"goes on after the background":                            sample.goesOnAfterBackground,
		"goes on when it was killed":                              sample.goesOnWhenKilled,
		"sends unsent messages after a kill":                      sample.sendsUnsent,
		"stops the reply":                                         sample.stops,
		"starts another chat":                                     sample.startsAnew,
		"signs in with Supabase, and again when that has expired": sample.signsInAgain,
		"shows the memories, and forgets one":                     sample.forgets,
		"changes a message, asks again and goes back":             sample.changes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(sample{recipe: r.in(t), page: page{&phone{t: t, stage: s, name: uuid.NewString()}}})
		})
	}
}

// sampleScreen is what the app shows.
type sampleScreen struct {
	Texts  []string
	Labels []string // of fields
}

// sample is the sample app on one phone.
type sample struct {
	recipe
	page
}

func (s sample) launch(with testkit.Body) {
	s.recipe.t.Helper()
	s.do("launch", with)
	s.recipe.t.Cleanup(func() { s.do("kill", nil) })
}

// signIn launches the app and pastes the token.
func (s sample) signIn(base string) {
	s.recipe.t.Helper()
	s.launch(testkit.Body{"baseUrl": base})
	s.fill("The token that make run prints", s.token)
	s.press("Sign in")
	s.shows("Sign out")
}

// restart ends the app at once and starts it again, with what it had stored.
func (s sample) restart(base string) {
	s.recipe.t.Helper()
	s.kill()
	s.do("launch", testkit.Body{"baseUrl": base})
	s.shows("Sign out")
}

func (s sample) fill(label, text string) {
	s.recipe.t.Helper()
	s.awaits("the screen has the field "+label, func(now sampleScreen) bool { return slices.Contains(now.Labels, label) })
	s.do("type", testkit.Body{"label": label, "text": text})
}

func (s sample) press(button string) {
	s.recipe.t.Helper()
	s.shows(button)
	s.do("press", testkit.Body{"button": button})
}

func (s sample) say(content string) {
	s.recipe.t.Helper()
	s.fill("Message", content)
	s.press("Send")
}

// shows waits until the screen has these texts, one after the other. Of messages the newest comes first.
func (s sample) shows(texts ...string) {
	s.recipe.t.Helper()
	s.awaits(fmt.Sprintf("the screen shows %.60q", texts), func(now sampleScreen) bool {
		return strings.Contains("\n"+strings.Join(now.Texts, "\n")+"\n", "\n"+strings.Join(texts, "\n")+"\n")
	})
}

func (s sample) awaits(what string, holds func(sampleScreen) bool) {
	s.recipe.t.Helper()
	awaitApp(s.phone, what, holds)
}

// replied is the one chat that the app made with a message, whose reply the screen shows once.
func (s sample) replied(content string) {
	s.recipe.t.Helper()
	s.shows(reply, "Another reply", content)
	s.shows("Send")
	s.once(content, s.chatOf(content))
}

func (s sample) chatOf(content string) string {
	return testkit.Ask[string](s.recipe.t, s.pool, `select chat_id from messages where content = $1`, content)
}

// hears has the first half of a reply, over a network that can fail.
func (s sample) hears() (content string, network *proxy, goOn func()) {
	s.recipe.t.Helper()
	content, network = uuid.NewString(), newProxy(s.recipe.t, s.here)
	goOn = s.hold(content, reply, half)
	s.signIn(network.base)
	s.say(content)
	s.shows(said(half), content)
	s.shows("Stop")
	return content, network, goOn
}

func (s sample) goesOnAfterBackground() {
	content, network, goOn := s.hears()
	s.do("background", nil)
	s.shows(said(half), content)
	network.RouteTo(s.there)
	network.CutNow()
	s.do("foreground", nil)
	goOn()
	s.replied(content)
}

func (s sample) goesOnWhenKilled() {
	content, network, goOn := s.hears()
	network.RouteTo(s.there)
	s.restart(network.base)
	s.shows(said(half), content)
	goOn()
	s.replied(content)
}

// nowhere is the address of no server.
func nowhere() string {
	away := httptest.NewServer(nil)
	away.Close()
	return away.URL
}

// sendsUnsent is killed before the server has heard of the message.
func (s sample) sendsUnsent() {
	content := uuid.NewString()
	s.plays.add(content, offline.Answer{Text: reply})
	s.signIn(nowhere())
	s.say(content)
	s.shows("…", content)
	s.restart(s.here.base)
	s.replied(content)
}

func (s sample) stops() {
	content, _, _ := s.hears()
	s.press("Stop")
	s.shows(said(half), "Stopped", "Another reply", content)
	s.once(content, s.chatOf(content))
}

func (s sample) startsAnew() {
	content, _, goOn := s.hears()
	goOn()
	s.replied(content)
	s.press("New")
	s.awaits("the chat is empty", func(now sampleScreen) bool { return !slices.Contains(now.Texts, content) })
	another := uuid.NewString()
	s.plays.add(another, offline.Answer{Text: reply})
	s.say(another)
	s.replied(another)
	assert.True(s.recipe.t, s.chatOf(content) != s.chatOf(another), "both messages are in one chat")
}

// signsInAgain has a token that the server refuses, which supabase-js renews; and then a session that has ended.
func (s sample) signsInAgain() {
	t := s.recipe.t
	t.Helper()
	var stale, ended atomic.Bool // each token has expired; and cannot be renewed
	supabase := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		token := "refused"
		switch {
		case r.URL.Query().Get("grant_type") == "password":
		case ended.Load():
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(testkit.Body{"code": 400, "error_code": "refresh_token_not_found", "msg": "Invalid Refresh Token: Refresh Token Not Found"})
			return
		default:
			token = s.token
		}
		expires := time.Now().Add(time.Hour)
		if stale.Load() {
			expires = time.Now().Add(-time.Hour)
		}
		_ = json.NewEncoder(w).Encode(testkit.Body{
			"access_token": token, "refresh_token": uuid.NewString(), "token_type": "bearer", "expires_in": 3600, "expires_at": expires.Unix(),
			"user": testkit.Body{"id": s.user, "aud": "authenticated", "role": "authenticated", "email": "her@example.com"},
		})
	}))
	t.Cleanup(supabase.Close)
	signIn := func() {
		s.fill("E-mail", "her@example.com")
		s.fill("Password", "secret")
		s.press("Sign in")
		s.shows("Sign out")
	}

	launch := func(base string) { s.do("launch", testkit.Body{"baseUrl": base, "supabase": supabase.URL}) }
	relaunch := func(base string) {
		s.do("kill", nil)
		s.given = 0
		launch(base)
	}
	t.Cleanup(func() { s.do("kill", nil) })

	launch(s.here.base)
	signIn()
	content := uuid.NewString()
	s.plays.add(content, offline.Answer{Text: reply})
	s.say(content)
	s.replied(content)

	s.press("Sign out")
	s.shows("Sign in")
	stale.Store(true)
	relaunch(nowhere())
	signIn()
	unsent := uuid.NewString()
	s.plays.add(unsent, offline.Answer{Text: reply})
	s.say(unsent)
	s.shows("…", unsent)
	ended.Store(true)
	relaunch(s.here.base)
	s.shows("Sign in") // supabase-js has found that the session is no more
	ended.Store(false)
	signIn()
	s.shows(reply, "Another reply", unsent, reply, content)
	asked := s.asked(unsent)
	assert.Truef(t, asked == 1, "the model was asked %d times, want once", asked)
}

func (s sample) forgets() {
	t := s.recipe.t
	t.Helper()
	settings := maps.Clone(s.settings)
	settings["LONG_TERM_MEMORY"] = "true"
	server := startReplica(t, settings)
	fact := "The user plays the cello " + uuid.NewString()
	client := testkit.Client{T: t, Base: server.base, Token: s.token}
	kept := client.Call(http.MethodPost, "/v1/memories", testkit.Body{"content": fact})
	require.Truef(t, kept.Status < 300, "a memory is answered with %d %s", kept.Status, kept.Text)
	s.signIn(server.base)
	s.press("Memories")
	s.shows(fact)
	s.press("Forget")
	s.awaits("the memory is gone", func(now sampleScreen) bool { return !slices.Contains(now.Texts, fact) })
	left := testkit.Ask[int](t, s.pool, `select count(*) from memories where content = $1`, fact)
	assert.Truef(t, left == 0, "%d such memories are left", left)
	s.press("Done")
	s.shows("Send")
}
