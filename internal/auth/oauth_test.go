package auth

import (
	"testing"

	"github.com/arcoscribe/throughline/internal/fault"
)

func TestTokenOfAnOAuthClientNamesIt(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	for name, c := range map[string]struct {
		claims map[string]any
		want   string
	}{
		"a session":       {goodClaims(p.url), ""},
		"an OAuth client": {oauthClaims(p.url), oauthClient},
		"no client":       {with(oauthClaims(p.url), map[string]any{"client_id": ""}), ""},
	} {
		got, err := p.verifier(t).Verify(t.Context(), es256(t, "ec", ecKey(), c.claims))
		if err != nil || got.ClientID != c.want || got.UserID != userID {
			t.Errorf("%s: %q of %s, %v", name, got.ClientID, got.UserID, err)
		}
	}
}

// An access token hook can give the tokens of OAuth clients an audience of their own. Then no other is good, and none of
// theirs passes for a session.
func TestAudienceOfOAuthClients(t *testing.T) {
	t.Parallel()
	const tools = "https://api.example.com/mcp"
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	v := newVerifier(t, Config{ProjectURL: p.url, HTTPClient: p.web(), OAuthAudience: tools, Now: p.now})
	for _, c := range []struct {
		name   string
		claims map[string]any
		aud    any
		want   fault.Code
	}{
		{"the tools", oauthClaims(p.url), tools, ""},
		{"the tools and the project", oauthClaims(p.url), []string{authenticated, tools}, ""},
		{"the project alone", oauthClaims(p.url), authenticated, fault.BadJWT},
		{"other tools", oauthClaims(p.url), "https://other.example.com/mcp", fault.BadJWT},
		{"longer", oauthClaims(p.url), tools + "/", fault.BadJWT},
		{"none", oauthClaims(p.url), nil, fault.BadJWT},
		{"a session", goodClaims(p.url), authenticated, ""},
		{"a session for the tools", goodClaims(p.url), tools, fault.BadJWT},
		{"another role", with(oauthClaims(p.url), map[string]any{"role": "service_role"}), tools, fault.BadJWT},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wantCode(t, v, es256(t, "ec", ecKey(), with(c.claims, map[string]any{"aud": c.aud})), c.want)
		})
	}
}

// The ID token that OpenID Connect adds says who signed in. It is signed with the same key and opens nothing.
func TestIDTokenIsNoAccessToken(t *testing.T) {
	t.Parallel()
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	good := goodClaims(p.url)
	identity := map[string]any{
		"iss": good["iss"], "sub": good["sub"], "aud": oauthClient, "client_id": oauthClient, "iat": good["iat"], "exp": good["exp"], "auth_time": good["iat"],
	}
	wantCode(t, p.verifier(t), es256(t, "ec", ecKey(), identity), fault.BadJWT)
	wantCode(t, p.verifier(t), es256(t, "ec", ecKey(), with(identity, map[string]any{"aud": authenticated})), fault.BadJWT)
}
