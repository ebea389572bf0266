package proxies

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	cells "github.com/arcoscribe/throughline/internal/dev/haproxy"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/testkit/program"
)

// pair is two cells behind HAProxy, of which a admits new users.
type pair struct {
	t     testing.TB
	a, b  *rig
	at    place
	proxy *cells.Proxy
	phone testkit.Client // of a's user
}

func newPair(t testing.TB) *pair {
	t.Helper()
	beforeCells.find(t)
	p := &pair{t: t, a: newRig(t, program.Settings{"CELL": "a", "CELL_ADMITS_NEW": "true", "CORS_ORIGINS": "*"})}
	p.b = newRig(t, program.Settings{"CELL": "b", "CORS_ORIGINS": "*"})
	p.at = place{t: t, dir: t.TempDir(), listen: testkit.FreeAddress(t)}
	client := newClient(p.at.certify())
	config := p.at.cells(p.a.network.Addr(), p.b.network.Addr())
	var err error
	p.proxy, err = cells.Start(t.Context(), p.at.dir, config, p.at.listen)
	require.NoError(t, err)
	t.Cleanup(p.proxy.Stop)
	t.Cleanup(client.CloseIdleConnections)
	p.phone = testkit.Client{T: t, Base: "https://" + p.at.listen, Token: p.a.token, HTTP: client}
	return p
}

// moved runs what an operator gives to --then.
func (p *pair) moved(user, cell string) error {
	cmd := exec.Command("../../../deploy/haproxy/moved")
	cmd.Env = append(os.Environ(), "THROUGHLINE_USER="+user, "THROUGHLINE_CELL="+cell,
		"HAPROXY_MAP="+p.mapFile(), "HAPROXY_SOCKET="+filepath.Join(p.at.dir, "moves.sock"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Logf("moved: %s", out)
	}
	return err
}

func (p *pair) mapFile() string { return filepath.Join(p.at.dir, "cells.map") }

// cellOf returns the cell that answers a request with an Authorization header.
func (p *pair) cellOf(header string) string {
	return p.phone.Call(http.MethodGet, "/v1/chats", nil, "Authorization", header).Header.Get("X-Throughline-Cell")
}

// unsigned is a token that no cell takes. The proxy reads it all the same.
func unsigned(claims jwt.MapClaims) string {
	return signed("not the secret of any project at all", claims)
}

func signed(secret string, claims jwt.MapClaims) string {
	text, _ := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret)) // of any bytes
	return text
}

func TestTheDirectory(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	const foreign, home = "https://clerk.example.com", "https://x.supabase.co/auth/v1"
	moved, texts := uuid.NewString(), []string{"user_2abc", "Zoë|世界", `quo"te\d`}
	require.NoError(t, p.moved(moved, "b"))
	for _, sub := range texts {
		require.NoError(t, p.moved(auth.ForeignUser(foreign, sub).String(), "b"))
	}
	at := func(cell string) jwt.MapClaims { return jwt.MapClaims{"cell": cell} }
	for name, c := range map[string]struct {
		claims jwt.MapClaims
		want   string
	}{
		"new":                      {jwt.MapClaims{"sub": uuid.NewString(), "iss": home}, "a"},
		"the claim":                {jwt.MapClaims{"sub": uuid.NewString(), "iss": home, "app_metadata": at("b")}, "b"},
		"users can write this":     {jwt.MapClaims{"sub": uuid.NewString(), "iss": home, "user_metadata": at("b"), "cell": "b"}, "a"},
		"a cell that is not there": {jwt.MapClaims{"sub": uuid.NewString(), "iss": home, "app_metadata": at("any")}, "a"},
		"moved":                    {jwt.MapClaims{"sub": moved, "iss": home, "app_metadata": at("a")}, "b"},
		"moved, without issuer":    {jwt.MapClaims{"sub": moved}, "b"},
		"moved, foreign":           {jwt.MapClaims{"sub": texts[0], "iss": foreign}, "b"},
		"moved, another script":    {jwt.MapClaims{"sub": texts[1], "iss": foreign}, "b"},
		"moved, escaped":           {jwt.MapClaims{"sub": texts[2], "iss": foreign}, "b"},
		"the same of another":      {jwt.MapClaims{"sub": texts[0], "iss": foreign + "/"}, "a"},
		"nothing":                  {jwt.MapClaims{}, "a"},
		"no text":                  {jwt.MapClaims{"sub": 1, "iss": foreign, "app_metadata": "b"}, "a"},
	} {
		assert.Equal(t, c.want, p.cellOf("Bearer "+unsigned(c.claims)), name)
	}
	for i := range 24 { // of all kinds of digits
		sub := "user_" + strconv.Itoa(i)
		require.NoError(t, p.moved(auth.ForeignUser(foreign, sub).String(), "b"))
		assert.Equal(t, "b", p.cellOf("Bearer "+unsigned(jwt.MapClaims{"sub": sub, "iss": foreign})), sub)
	}
	token := unsigned(jwt.MapClaims{"sub": moved})
	for _, header := range []string{"bearer " + token, "Bearer  " + token} {
		assert.Equal(t, "b", p.cellOf(header), header)
	}
	for _, header := range []string{"Bearer", "Bearer a.b.c", "Bearer ..", "Basic " + token, "Bearer " + strings.Repeat("x", 9000)} {
		assert.Equal(t, "a", p.cellOf(header), header)
	}
	assert.NoError(t, p.moved(moved, "a"))
	assert.Equal(t, "a", p.cellOf("Bearer "+token), "moved back")
	known, err := os.ReadFile(p.mapFile())
	require.NoError(t, err)
	assert.Error(t, p.moved("somebody", "b"), "no id")
	assert.Error(t, p.moved(moved, "B b"), "no cell")
	after, err := os.ReadFile(p.mapFile())
	require.NoError(t, err)
	assert.Equal(t, string(known), string(after), "what is refused is not in the file")
}

// The map's file has what the running proxy has, also when several users move at once.
func TestMovesOutliveAReload(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	users := make([]string, 8)
	var all sync.WaitGroup
	for i := range users {
		users[i] = uuid.NewString()
		all.Go(func() { assert.NoError(t, p.moved(users[i], "b")) })
	}
	all.Wait()
	require.NoError(t, p.moved(users[0], "a"))
	check := func() {
		for i, user := range users {
			assert.Equal(t, map[bool]string{true: "a", false: "b"}[i == 0], p.cellOf("Bearer "+unsigned(jwt.MapClaims{"sub": user})))
		}
	}
	check()
	text, err := os.ReadFile(p.mapFile())
	require.NoError(t, err)
	assert.Equal(t, len(users), strings.Count(string(text), "\n"), "%s", text)
	p.reload()
	check()
}

// reload reloads the proxy, and returns when new requests go by the files.
func (p *pair) reload() {
	marker := uuid.NewString()
	file, err := os.OpenFile(p.mapFile(), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(p.t, err)
	_, err = file.WriteString(marker + " b\n")
	require.NoError(p.t, err)
	require.NoError(p.t, file.Close())
	require.NoError(p.t, p.proxy.Reload())
	testkit.Eventually(p.t, "it is reloaded", func() bool {
		p.phone.HTTP.CloseIdleConnections() // an open connection is the old process's
		got, err := p.phone.TryCall(http.MethodGet, "/v1/chats", nil, "Authorization", "Bearer "+unsigned(jwt.MapClaims{"sub": marker}))
		require.NoError(p.t, err, "a reload refuses none")
		return got.Header.Get("X-Throughline-Cell") == "b"
	})
}

// A reload in mid-stream cuts no stream, and its user goes on where they are.
func TestReloadInMidStream(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	release := p.a.hold("Speak.")
	running := p.phone.Send("", testkit.Body{"content": "Speak."})
	running.UntilText(heard)
	left := p.phone.Resume(running.ChatID(), "", "Last-Event-ID", running.LastID())
	left.Until(func(e testkit.Event) bool { return e.Name == testkit.Started })
	p.reload()
	left.Close()
	resumed := p.phone.Resume(running.ChatID(), "", "Last-Event-ID", running.LastID())
	release()
	before := running.Text
	assert.Equal(t, spoken, running.Rest().Text)
	assert.Equal(t, spoken, before+resumed.Rest().Text)
}

// A cell that is dead is 503 for its users and for no one else, and gets no row anywhere.
func TestADeadCell(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	user := testkit.NewUser(t, p.b.db)
	other := p.phone
	other.Token = signed(testkit.JWTSecret, jwt.MapClaims{
		"sub": user, "aud": "authenticated", "role": "authenticated", "exp": time.Now().Add(time.Hour).Unix(), "app_metadata": map[string]string{"cell": "b"},
	})
	first := other.Say("", "Hello?")
	p.b.network.Down()
	for range 8 {
		got := other.Call(http.MethodPost, "/v1/message/first", testkit.Body{"content": "Hello?"})
		assert.Truef(t, got.Status == http.StatusServiceUnavailable && got.Code() == "not_ready" && got.Header.Get("Retry-After") != "" &&
			got.Header.Get("X-Throughline-Cell") == "", "%d %s %v", got.Status, got.Text, got.Header)
		p.phone.Say("", "Hello?")
		for _, path := range []string{"/", "/app/", "/openapi.json", "/.well-known/oauth-protected-resource"} {
			got := other.Call(http.MethodGet, path, nil)
			assert.NotEqual(t, http.StatusServiceUnavailable, got.Status, path)
			assert.Equal(t, "a", got.Header.Get("X-Throughline-Cell"), path)
		}
		preflight := other.Call(http.MethodOptions, "/v1/message", nil, "Origin", "https://app.example.com", "Access-Control-Request-Method", "POST")
		assert.Equalf(t, http.StatusNoContent, preflight.Status, "%s", preflight.Text)
	}
	p.b.network.Up()
	testkit.Eventually(t, "it is back", func() bool {
		got, err := other.TryCall(http.MethodGet, "/v1/chats/"+first.ChatID+"/messages", nil)
		return err == nil && got.Status == http.StatusOK
	})
	testkit.Want(t, testkit.NewPool(t, p.a.db.DSN), 0, "select count(*) from chats where user_id = $1", user)
}

func TestWhatIsInsideIsNotThere(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/river", "/river/", "/river/api/jobs", "//metrics", "/%6detrics", "/metrics?a=b"} {
		for _, token := range []string{"", p.a.token} {
			phone := p.phone
			phone.Token = token
			got := phone.Call(http.MethodGet, path, nil)
			assert.Truef(t, got.Status == http.StatusNotFound && got.Code() == "not_found" && got.Header.Get("X-Throughline-Cell") == "",
				"%s: %d %s", path, got.Status, got.Text)
		}
	}
}
