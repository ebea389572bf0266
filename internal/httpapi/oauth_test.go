package httpapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
)

const (
	authServer  = "https://abc.supabase.co/auth/v1"
	oauthClient = "9a8b7c6d-5e4f-4a2b-8c0d-9e8f7a6b5c4d"
)

func signsInAt(server, public string, clients ...string) func(*Config) {
	return func(c *Config) { c.AuthServer, c.PublicURL, c.OAuthAPIClients = server, public, clients }
}

// oauthToken is a token that the harness's user gave to that client.
func (h *harness) oauthToken(client string) string {
	h.t.Helper()
	now := time.Now()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"sub": h.user.String(), "aud": "authenticated", "role": "authenticated", "client_id": client, "scope": "email", "iat": now.Unix(),
		"exp": now.Add(time.Hour).Unix(),
	}).SignedString(testSecret)
	if err != nil {
		h.t.Fatal(err)
	}
	return "Bearer " + signed
}

func TestToolMetadata(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), withTools(echoBody), signsInAt(authServer, ""))
	for _, path := range []string{pathToolMetadata, pathMetadata} {
		answer := h.call(http.MethodGet, path, "", "Authorization", "")
		want := map[string]any{
			"resource": h.http.URL + "/mcp", "authorization_servers": []any{authServer}, "scopes_supported": []any{"email"},
			"bearer_methods_supported": []any{"header"}, "resource_name": "Throughline",
		}
		var got map[string]any
		if err := json.Unmarshal(answer.body, &got); err != nil || answer.status != http.StatusOK || cmp.Diff(want, got) != "" {
			t.Errorf("%s: %d %s %v", path, answer.status, answer.body, err)
		}
		if answer.header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(answer.header.Get("Content-Type"), "application/json") {
			t.Errorf("%s: %v", path, answer.header)
		}
		head := h.call(http.MethodHead, path, "", "Authorization", "")
		if head.status != http.StatusOK || len(head.body) != 0 {
			t.Errorf("HEAD %s: %d %s", path, head.status, head.body)
		}
	}
}

// The addresses are those at which the client reaches the server, or the configured ones.
func TestToolsNameTheAddressThatClientsSee(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		public    string
		forwarded []string
		want      string
	}{
		"as asked":                       {want: "http://HOST"},
		"behind a proxy with TLS":        {forwarded: []string{"X-Forwarded-Proto", "https"}, want: "https://HOST"},
		"behind two":                     {forwarded: []string{"X-Forwarded-Proto", "HTTPS, http"}, want: "https://HOST"},
		"another scheme":                 {forwarded: []string{"X-Forwarded-Proto", "javascript"}, want: "http://HOST"},
		"a host that anybody can invent": {forwarded: []string{"X-Forwarded-Host", "evil.example"}, want: "http://HOST"},
		"configured": {public: "https://api.example.com/chat", forwarded: []string{"X-Forwarded-Proto", "http"},
			want: "https://api.example.com/chat"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, says("x"), withTools(echoBody), signsInAt(authServer, c.public))
			want := strings.Replace(c.want, "HOST", strings.TrimPrefix(h.http.URL, "http://"), 1)
			answer := h.call(http.MethodGet, pathToolMetadata, "", append(c.forwarded, "Authorization", "")...)
			var got toolMetadata
			if err := json.Unmarshal(answer.body, &got); err != nil || got.Resource != want+"/mcp" {
				t.Errorf("%s, %v; want %s", answer.body, err, want)
			}
			metadata := `resource_metadata="` + want + `/.well-known/oauth-protected-resource/mcp"`
			none := h.tools("{}", append(c.forwarded, "Authorization", "")...)
			if got := none.Header.Get("WWW-Authenticate"); none.StatusCode != http.StatusUnauthorized || got != "Bearer "+metadata {
				t.Errorf("%d %s", none.StatusCode, got)
			}
			expired := h.tools("{}", append(c.forwarded, "Authorization", tokenAt(h.user, time.Now().Add(-2*time.Hour)))...)
			if got := expired.Header.Get("WWW-Authenticate"); got != `Bearer error="invalid_token", error_description="The token has expired.", `+metadata {
				t.Errorf("%d %s", expired.StatusCode, got)
			}
		})
	}
}

func TestToolsWithoutAnAuthServer(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), withTools(echoBody))
	for _, path := range []string{pathToolMetadata, pathMetadata} {
		if answer := h.call(http.MethodGet, path, "", "Authorization", ""); answer.status != http.StatusNotFound || errorCode(answer.body) != "not_found" {
			t.Errorf("%s: %d %s", path, answer.status, answer.body)
		}
	}
	if refused := h.tools("{}", "Authorization", ""); refused.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%v", refused.Header)
	}
	h = newHarness(t, says("x"), withTools(echoBody), signsInAt(authServer, "")) // which names none to apps: they have a place to sign in
	if answer := h.call(http.MethodPost, firstPath, hello, "Authorization", ""); answer.header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%v", answer.header)
	}
}

// Clients that run in a browser read it, from wherever they are; and what a 401 of the tools says, from where they may
// use the tools.
func TestPagesReadTheToolMetadata(t *testing.T) {
	t.Parallel()
	const anywhere = "https://assistant.example"
	h := newHarness(t, says("x"), withTools(echoBody), signsInAt(authServer, ""), lets(webApp))
	header := h.preflight(pathToolMetadata, anywhere, "GET", "mcp-protocol-version").header
	if header.Get("Access-Control-Allow-Origin") != "*" || !slices.Contains(listed(header.Get("Access-Control-Allow-Headers")), "mcp-protocol-version") {
		t.Errorf("preflight: %v", header)
	}
	if got := h.call(http.MethodGet, pathToolMetadata, "", "Authorization", "", "Origin", anywhere); got.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%d %v", got.status, got.header)
	}
	refused := h.tools("{}", "Authorization", "", "Origin", webApp).Header
	if refused.Get("Access-Control-Allow-Origin") != webApp || !slices.Contains(listed(refused.Get("Access-Control-Expose-Headers")), "www-authenticate") {
		t.Errorf("401: %v", refused)
	}
}

// What a user gave to an assistant opens the tools and not the rest, unless the owner of the app says so.
func TestTokensOfOAuthClients(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		listed []string
		api    int
	}{
		"none listed":    {nil, http.StatusForbidden},
		"another listed": {[]string{"0c1d2e3f-0000-4000-8000-000000000000"}, http.StatusForbidden},
		"listed":         {[]string{"x", oauthClient}, http.StatusOK},
		"all":            {[]string{"*"}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, says("x"), withTools(echoBody), signsInAt(authServer, "", c.listed...))
			given := h.oauthToken(oauthClient)
			if tools := h.tools("{}", "Authorization", given); tools.StatusCode != http.StatusOK {
				t.Errorf("the tools: %d", tools.StatusCode)
			}
			answer := h.call(http.MethodPost, firstPath, hello, "Authorization", given)
			if answer.status != c.api || answer.status == http.StatusForbidden && errorCode(answer.body) != "forbidden_client" {
				t.Errorf("the API: %d %s", answer.status, answer.body)
			}
			if own := h.call(http.MethodPost, firstPath, hello); own.status != http.StatusOK {
				t.Errorf("a session of the user's own: %d %s", own.status, own.body)
			}
			lines := h.logs.Lines(t, "request")
			if len(lines) != 3 || lines[0]["client_id"] != oauthClient || lines[1]["client_id"] != oauthClient || lines[2]["client_id"] != nil {
				t.Errorf("the log: %v", lines)
			}
		})
	}
}
