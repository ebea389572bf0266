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

// The token of an OAuth client has the audience of every token of the project, whatever else an access token hook adds.
func TestAudienceOfOAuthClients(t *testing.T) {
	t.Parallel()
	const tools = "https://api.example.com/mcp"
	p := newProject(t, ecJWK(t, "ec", ecKey()))
	for name, c := range map[string]struct {
		aud  any
		want fault.Code
	}{
		"the project":               {authenticated, ""},
		"the tools and the project": {[]string{tools, authenticated}, ""},
		"the tools alone":           {tools, fault.BadJWT},
		"none":                      {nil, fault.BadJWT},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantCode(t, p.verifier(t), es256(t, "ec", ecKey(), with(oauthClaims(p.url), map[string]any{"aud": c.aud})), c.want)
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
