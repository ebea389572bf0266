package auth

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
)

// The issuers of these tests: two whose subs are texts, one of them with a slash at its end, and another project.
const (
	one   = "https://one.example"
	two   = "https://two.example/"
	other = "https://cell.example/auth/v1"
)

// world answers by address, without a network.
type world struct {
	mu    sync.Mutex
	pages map[string]string
}

func (w *world) set(address, page string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pages[address] = page
}

func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	answer := httptest.NewRecorder()
	if page := w.pages[r.URL.String()]; page != "" {
		_, _ = answer.WriteString(page) // cannot fail
	} else {
		answer.WriteHeader(http.StatusServiceUnavailable)
	}
	return answer.Result(), nil
}

// withIssuers returns a verifier of a project and of the three issuers, all of which sign with one key: only the iss tells them apart.
func withIssuers(t *testing.T) (*world, *project, *Verifier) {
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	keys := fmt.Sprintf(`{"keys": [%s]}`, jsonOf(t, ecJWK(t, "ec", ecKey())))
	w := &world{pages: map[string]string{
		p.url + "/auth/v1/.well-known/jwks.json":    keys,
		one + "/.well-known/openid-configuration":   `{"issuer": "` + one + `", "jwks_uri": "https://keys.example/one"}`,
		"https://keys.example/one":                  keys,
		"https://keys.example/two":                  keys,
		other + "/.well-known/openid-configuration": `{"issuer": "` + other + `", "jwks_uri": "` + other + `/keys"}`,
		other + "/keys":                             keys,
	}}
	return w, p, newVerifier(t, Settings{
		ProjectURL: p.url, HTTPClient: &http.Client{Transport: w}, JWTSecret: secret, Now: p.now,
		Issuers: []Issuer{{Name: one}, {Name: two, KeySetURL: "https://keys.example/two", Audience: "app"}, {Name: other}},
	})
}

// foreign returns the claims of a good token of an issuer that is not Supabase Auth.
func foreign(issuer, sub string) map[string]any {
	return map[string]any{
		"iss": issuer, "sub": sub, "role": authenticated, "aud": "app", "client_id": "of Cognito", "aal": 1, "exp": clockStart.Add(time.Hour).Unix(),
	}
}

func TestTokensOfOtherIssuers(t *testing.T) {
	t.Parallel()
	_, p, v := withIssuers(t)
	long := strings.Repeat("語", 255)
	for _, c := range []struct {
		name   string
		claims map[string]any
		user   uuid.UUID // nil for a token that is refused
	}{
		{"a text", foreign(one, "user_2x"), uuid.MustParse("93c5ac61-8cf8-8d91-8370-f0aee887c4b7")},
		{"the same of another issuer", foreign(two, "user_2x"), uuid.MustParse("aa7ebfe5-f3fe-8af8-bee2-89ef7b80f524")},
		{"any script", foreign(one, "Zoë|日本"), uuid.MustParse("cdc61b21-de12-8cc3-b2d9-87e3cbedff19")},
		{"a uuid, which is not that user", foreign(one, userID.String()), ForeignUser(one, userID.String())},
		{"255 characters", foreign(one, long), ForeignUser(one, long)},
		{"256 characters", foreign(one, long+"x"), uuid.Nil},
		{"none", foreign(one, ""), uuid.Nil},
		{"a NUL", foreign(one, "a\x00b"), uuid.Nil},
		{"a number", with(foreign(one, ""), map[string]any{"sub": 7}), uuid.Nil},
		{"no audience, where none is asked", with(foreign(one, "u"), map[string]any{"aud": nil}), ForeignUser(one, "u")},
		{"no audience, where one is", with(foreign(two, "u"), map[string]any{"aud": nil}), uuid.Nil},
		{"another audience", with(foreign(two, "u"), map[string]any{"aud": authenticated}), uuid.Nil},
		{"another role", with(foreign(one, "u"), map[string]any{"role": "service_role"}), uuid.Nil},
		{"no role", with(foreign(one, "u"), map[string]any{"role": nil}), uuid.Nil},
		{"another spelling of the issuer", foreign(one+"/", "u"), uuid.Nil},
		{"an issuer that is not listed", foreign("https://unlisted.example", "u"), uuid.Nil},
		{"another project", with(foreign(other, userID.String()), map[string]any{"aal": "aal1"}), userID},
		{"another project, capital letters", with(foreign(other, strings.ToUpper(userID.String())), map[string]any{"aal": "aal1"}), uuid.Nil},
		{"another project, a text", with(foreign(other, "u"), map[string]any{"aal": "aal1"}), uuid.Nil},
		{"the project itself", goodClaims(p.url), userID},
	} {
		got, err := v.Verify(t.Context(), es256(t, "ec", ecKey(), c.claims))
		if c.user == uuid.Nil {
			assert.Equalf(t, fault.BadJWT, fault.CodeOf(err), "%s: %v", c.name, err)
			continue
		}
		require.NoError(t, err, c.name)
		assert.Equal(t, c.user, got.UserID, c.name)
		client := ""
		if c.claims["iss"] == other {
			client = "of Cognito"
		}
		assert.Equal(t, client, got.ClientID, c.name+": client_id is an OAuth client of Supabase Auth alone")
	}
	for _, issuer := range []string{one, other} { // asymmetric algorithms only
		wantCode(t, v, hs256(t, with(foreign(issuer, userID.String()), map[string]any{"aal": "aal1"})), fault.BadJWT)
	}
	user, err := UserOf(one, "user_2x")
	assert.Equal(t, uuid.MustParse("93c5ac61-8cf8-8d91-8370-f0aee887c4b7"), user, "by hand: %v", err)
}

// Keys of one issuer that are away cost its users alone, and are found when they are back; rotated ones are seen at once.
func TestKeysOfOneIssuer(t *testing.T) {
	t.Parallel()
	discovery := one + "/.well-known/openid-configuration"
	for name, page := range map[string]string{
		"no answer":               "",
		"no document":             "<html>",
		"another issuer's":        `{"issuer": "https://evil.example", "jwks_uri": "https://keys.example/one"}`,
		"keys that are less safe": `{"issuer": "` + one + `", "jwks_uri": "http://keys.example/one"}`,
		"keys that are away":      `{"issuer": "` + one + `", "jwks_uri": "https://keys.example/none"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, p, v := withIssuers(t)
				good := w.pages[discovery]
				w.set(discovery, page)
				token := es256(t, "ec", ecKey(), foreign(one, "u"))
				wantCode(t, v, token, fault.NotReady)
				wantCode(t, v, es256(t, "ec", ecKey(), foreign(two, "u")), "")
				require.NoError(t, v.Ready(t.Context()), "the server is ready")
				w.set(discovery, good)
				p.pass(coldPause)
				wantCode(t, v, token, "")
				w.set("https://keys.example/one", fmt.Sprintf(`{"keys": [%s]}`, jsonOf(t, ecJWK(t, "new", otherKey()))))
				p.pass(unknownPause)
				wantCode(t, v, es256(t, "new", otherKey(), foreign(one, "u")), "")
				wantCode(t, v, token, fault.BadJWT)
				wantCode(t, v, es256(t, "new", otherKey(), foreign(two, "u")), fault.BadJWT)
			})
		})
	}
}
