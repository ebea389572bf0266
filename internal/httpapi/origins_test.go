package httpapi

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
)

// standIn is a protocol that does with each request what the test says.
type standIn func(w http.ResponseWriter, r *http.Request, user auth.Principal, admit func(bool) (func(), error))

func (s standIn) ServeMCP(w http.ResponseWriter, r *http.Request, user auth.Principal, admit func(bool) (leave func(), err error)) {
	s(w, r, user, admit)
}

func withTools(tools standIn) func(*Config) {
	return func(c *Config) { c.Tools = tools }
}

// echoBody answers with the request's body.
func echoBody(w http.ResponseWriter, r *http.Request, _ auth.Principal, _ func(bool) (func(), error)) {
	_, _ = io.Copy(w, r.Body) // the client reads it
}

func (h *harness) tools(body string, headers ...string) *http.Response {
	response, err := h.http.Client().Do(h.request(http.MethodPost, pathMCP, body, headers...))
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func TestLongBodiesOfTools(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), withTools(echoBody))
	large := `"` + strings.Repeat("x", maxMessage) + `"`
	for body, want := range map[string]int{large: http.StatusRequestEntityTooLarge, large[:maxMessage-1] + `"`: http.StatusOK} {
		assert.Equalf(t, want, h.tools(body).StatusCode, "%d bytes", len(body))
	}
}

// TestSilenceOfTools holds that a stream on which a reply is awaited does not look dead to a proxy.
func TestSilenceOfTools(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	h := newHarness(t, says("x"), withTools(func(w http.ResponseWriter, _ *http.Request, _ auth.Principal, admit func(bool) (func(), error)) {
		w.Header().Set("Content-Type", "text/event-stream")
		leave, err := admit(false)
		if err != nil {
			t.Error(err)
			return
		}
		defer leave()
		<-heard
		if _, err := io.WriteString(w, "data: {}\n\n"); err != nil {
			t.Error(err)
		}
	}), func(c *Config) { c.PingInterval = time.Millisecond })
	response := h.tools("{}")
	lines := bufio.NewScanner(response.Body)
	for pings := 0; pings < 3 && lines.Scan(); {
		if lines.Text() == ": ping" {
			pings++
		}
	}
	close(heard)
	var events []string
	for lines.Scan() {
		if line := lines.Text(); line != "" && line != ": ping" {
			events = append(events, line)
		}
	}
	err := lines.Err()
	assert.Truef(t, err == nil && slices.Equal(events, []string{"data: {}"}), "%q %v", events, err)
	assert.Equal(t, "no", response.Header.Get("X-Accel-Buffering"), "X-Accel-Buffering")
}

// TestLimitsOfTools holds that a tool's messages count as the user's, together with those of apps.
func TestLimitsOfTools(t *testing.T) {
	t.Parallel()
	refusals := make(chan error, 10)
	h := newHarness(t, says("x"), withTools(func(_ http.ResponseWriter, _ *http.Request, _ auth.Principal, admit func(bool) (func(), error)) {
		first, err := admit(false)
		refusals <- err
		_, err = admit(false) // a second reply at once
		refusals <- err
		first()
		third, err := admit(false)
		refusals <- err
		third()
	}), func(c *Config) { c.MaxStreamsPerUser, c.MessagesPerMinute = 1, 3 })
	h.tools("{}")
	for i, want := range []string{"<nil>", "over_request_rate_limit: Too many replies are open at once.", "<nil>"} {
		assert.Equalf(t, want, fmt.Sprint(<-refusals), "message %d", i)
	}
	assert.Equal(t, http.StatusTooManyRequests, h.first("Hello").status, "an app's message after three of a tool")
}

// TestOriginsOfTools holds which requests of /mcp come from a page that may send them. A page whose name was made to
// point to this server is of the same origin, but its name is not the server's.
func TestOriginsOfTools(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, host, origin, site string
		listed                   []string
		status                   int
	}{
		{name: "no browser", host: "api.example.com", status: 200},
		{name: "no browser, any host", host: "evil.example", status: 200},
		{name: "rebound", host: "evil.example:8080", origin: "http://evil.example:8080", status: 403},
		{name: "rebound where every origin is let in", host: "evil.example:8080", origin: "http://EVIL.example:8080", listed: []string{"*"}, status: 403},
		{name: "rebound where one is listed", host: "evil.example", origin: "http://evil.example", listed: []string{webApp}, status: 403},
		{name: "rebound to a name like ours", host: "localhost.evil.example", origin: "http://localhost.evil.example", status: 403},
		{name: "another site", host: "127.0.0.1:8080", origin: "https://evil.example", site: "cross-site", status: 403},
		{name: "another site that is an address", host: "127.0.0.1:8080", origin: "http://192.0.2.1", status: 403},
		{name: "another site where all are let in", host: "127.0.0.1:8080", origin: "https://evil.example", site: "cross-site", listed: []string{"*"}, status: 200},
		{name: "another port", host: "localhost:8080", origin: "http://localhost:3000", site: "same-site", status: 403},
		{name: "a frame without an origin", host: "localhost:8080", origin: "null", status: 403},
		{name: "no url", host: "localhost:8080", origin: "http://%", status: 403},
		{name: "a listed app", host: "api.example.com", origin: webApp, site: "same-site", listed: []string{webApp}, status: 200},
		{name: "a listed app of the same origin", host: "app.example.com", origin: webApp, listed: []string{webApp}, status: 200},
		{name: "the same origin behind a proxy", host: "app.example.com", origin: webApp, site: "same-origin", status: 200},
		{name: "the same origin behind a proxy that changes the host", host: "127.0.0.1:8080", origin: webApp, site: "same-origin", status: 200},
		{name: "localhost", host: "localhost:8080", origin: "http://localhost:8080", status: 200},
		{name: "a name below localhost", host: "app.localhost:8080", origin: "http://app.localhost:8080", status: 200},
		{name: "loopback", host: "127.0.0.1:8080", origin: "http://127.0.0.1:8080", status: 200},
		{name: "loopback, IPv6", host: "[::1]:8080", origin: "http://[::1]:8080", status: 200},
		{name: "an address in the local network", host: "192.168.1.5", origin: "http://192.168.1.5", status: 200},
	} {
		h := newHarness(t, says("x"), withTools(echoBody), lets(c.listed...))
		headers := []string{"Origin", c.origin}
		if c.site != "" {
			headers = append(headers, "Sec-Fetch-Site", c.site)
		}
		request := h.request(http.MethodPost, pathMCP, "{}", headers...)
		request.Host = c.host
		response, err := h.http.Client().Do(request)
		require.NoError(t, err)
		_ = response.Body.Close()
		assert.Equalf(t, c.status, response.StatusCode, "%s", c.name)
	}
}

const (
	authServer  = "https://abc.supabase.co/auth/v1"
	oauthClient = "9a8b7c6d-5e4f-4a2b-8c0d-9e8f7a6b5c4d"
)

func signsInAt(server, public string, clients ...string) func(*Config) {
	return func(c *Config) { c.AuthServer, c.PublicURL, c.OAuthAPIClients = server, public, clients }
}

// oauthToken is a token that the harness's user gave to that client.
func (h *harness) oauthToken(client string) string {
	now := time.Now()
	signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"sub": h.user.String(), "aud": "authenticated", "role": "authenticated", "client_id": client, "scope": "email", "iat": now.Unix(),
		"exp": now.Add(time.Hour).Unix(),
	}).SignedString(testSecret)
	require.NoError(h.t, err)
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
		err := json.Unmarshal(answer.body, &got)
		assert.Truef(t, err == nil && answer.status == http.StatusOK && cmp.Diff(want, got) == "",
			"%s: %d %s %v", path, answer.status, answer.body, err)
		assert.Truef(t, answer.header.Get("Cache-Control") == "no-store" && strings.HasPrefix(answer.header.Get("Content-Type"), "application/json"),
			"%s: %v", path, answer.header)
		head := h.call(http.MethodHead, path, "", "Authorization", "")
		assert.Truef(t, head.status == http.StatusOK && len(head.body) == 0, "HEAD %s: %d %s", path, head.status, head.body)
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
			err := json.Unmarshal(answer.body, &got)
			assert.Truef(t, err == nil && got.Resource == want+"/mcp", "%s, %v; want %s", answer.body, err, want)
			metadata := `resource_metadata="` + want + `/.well-known/oauth-protected-resource/mcp"`
			none := h.tools("{}", append(c.forwarded, "Authorization", "")...)
			if got := none.Header.Get("WWW-Authenticate"); none.StatusCode != http.StatusUnauthorized || got != "Bearer "+metadata {
				t.Errorf("%d %s", none.StatusCode, got)
			}
			expired := h.tools("{}", append(c.forwarded, "Authorization", tokenAt(h.user, time.Now().Add(-2*time.Hour)))...)
			assert.Equalf(t, `Bearer error="invalid_token", error_description="The token has expired.", `+metadata, expired.Header.Get("WWW-Authenticate"),
				"%d", expired.StatusCode)
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
	refused := h.tools("{}", "Authorization", "")
	assert.Equalf(t, "Bearer", refused.Header.Get("WWW-Authenticate"), "%v", refused.Header)
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
	got := h.call(http.MethodGet, pathToolMetadata, "", "Authorization", "", "Origin", anywhere)
	assert.Equalf(t, "*", got.header.Get("Access-Control-Allow-Origin"), "%d %v", got.status, got.header)
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
			assert.Equal(t, http.StatusOK, h.tools("{}", "Authorization", given).StatusCode, "the tools")
			answer := h.call(http.MethodPost, firstPath, hello, "Authorization", given)
			assert.Truef(t, answer.status == c.api && (answer.status != http.StatusForbidden || errorCode(answer.body) == "forbidden_client"),
				"the API: %d %s", answer.status, answer.body)
			own := h.call(http.MethodPost, firstPath, hello)
			assert.Truef(t, own.status == http.StatusOK, "a session of the user's own: %d %s", own.status, own.body)
			lines := h.logs.Lines(t, "request")
			assert.Truef(t, len(lines) == 3 && lines[0]["client_id"] == oauthClient && lines[1]["client_id"] == oauthClient && lines[2]["client_id"] == nil,
				"the log: %v", lines)
		})
	}
}

const webApp = "https://app.example.com"

func lets(origins ...string) func(*Config) {
	return func(c *Config) { c.CORSOrigins = origins }
}

// preflight asks what a page may do, as a browser does before a request with a token.
func (h *harness) preflight(path, origin, method, headers string) answered {
	request := h.request(http.MethodOptions, path, "", "Authorization", "", "Origin", origin,
		"Access-Control-Request-Method", method, "Access-Control-Request-Headers", headers)
	response, err := h.http.Client().Do(request)
	require.NoError(h.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(h.t, err)
	return answered{status: response.StatusCode, header: response.Header, body: body}
}

func listed(header string) []string {
	return strings.FieldsFunc(strings.ToLower(header), func(r rune) bool { return r == ',' || r == ' ' })
}

func TestPreflight(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), lets("http://localhost:3000", webApp))
	for _, path := range []string{firstPath, nextPath, "/v1/message/" + uuid.NewString() + "/stream", "/v1/not/yet", pathMCP} {
		answer := h.preflight(path, webApp, "POST", "authorization,content-type")
		header := answer.header
		assert.Truef(t, answer.status == 204 && header.Get("Access-Control-Allow-Origin") == webApp && header.Get("Access-Control-Max-Age") == "7200",
			"%s: %d %v", path, answer.status, header)
		assert.Truef(t, header.Get("Access-Control-Allow-Credentials") == "" && slices.Contains(header.Values("Vary"), "Origin"),
			"%s: %v", path, header)
		for _, method := range []string{"get", "post", "delete", "patch", "put", "options"} {
			assert.Truef(t, slices.Contains(listed(header.Get("Access-Control-Allow-Methods")), method),
				"%s: no %s in %v", path, method, header)
		}
		for _, name := range []string{"authorization", "content-type", "accept", "last-event-id", "idempotency-key", "x-request-id",
			"x-vercel-ai-ui-message-stream", "mcp-protocol-version"} {
			assert.Truef(t, slices.Contains(listed(header.Get("Access-Control-Allow-Headers")), name),
				"%s: no %s in %v", path, name, header)
		}
	}
}

// A browser shows a page no answer that does not allow it, and so no error either.
func TestEveryAnswerAllowsTheWebApp(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), lets(webApp), func(c *Config) { c.MessagesPerMinute = 3 })
	chat := "/v1/message/" + uuid.NewString()
	for _, c := range []struct {
		method, path, body string
		headers            []string
		want               int
	}{
		{http.MethodPost, firstPath, hello, nil, 200},
		{http.MethodPost, firstPath + "?protocol=ui", hello, nil, 200},
		{http.MethodPost, firstPath, "{", nil, 400},
		{http.MethodPost, firstPath, hello, nil, 429},
		{http.MethodPost, firstPath, hello, []string{"Authorization", ""}, 401},
		{http.MethodGet, chat + "/stream", "", []string{"Authorization", "Bearer nonsense"}, 401},
		{http.MethodGet, chat + "/stream", "", nil, 404},
		{http.MethodGet, "/v1/nothing", "", nil, 404},
		{http.MethodGet, nextPath, "", nil, 405},
	} {
		answer := h.call(c.method, c.path, c.body, append([]string{"Origin", webApp}, c.headers...)...)
		assert.Truef(t, answer.status == c.want && answer.header.Get("Access-Control-Allow-Origin") == webApp,
			"%s %s: %d %v", c.method, c.path, answer.status, answer.header)
		for _, name := range []string{"x-request-id", "www-authenticate", "retry-after", "content-disposition", "location", "x-vercel-ai-ui-message-stream"} {
			assert.Truef(t, slices.Contains(listed(answer.header.Get("Access-Control-Expose-Headers")), name),
				"%s %s does not show %s", c.method, c.path, name)
		}
	}
	broken := newHarness(t, says("x"), lets(webApp), func(c *Config) { c.Auth = nil })
	if answer := broken.first("a", "Origin", webApp); answer.status != 500 || answer.header.Get("Access-Control-Allow-Origin") != webApp {
		t.Errorf("a panic: %d %v", answer.status, answer.header)
	}
}

// Of a page from an origin that is not listed a browser shows nothing, whatever its name looks like.
func TestOrigins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		listed, origins []string
		allowed         string
	}{
		"strangers": {[]string{webApp}, []string{"https://evil.example.com", "https://app.example.com.evil.org", "http://app.example.com",
			"https://app.example.com:8443", "https://appxexample.com", "null"}, ""},
		"every origin": {[]string{"*"}, []string{webApp, "http://localhost:3000", "null"}, "*"},
		"no origins":   {nil, []string{webApp}, ""},
	} {
		h := newHarness(t, says("x"), lets(c.listed...))
		for _, origin := range c.origins {
			answer := h.first("a", "Origin", origin)
			for _, header := range []http.Header{answer.header, h.preflight(firstPath, origin, "POST", "authorization").header} {
				got := header.Get("Access-Control-Allow-Origin")
				assert.Truef(t, got == c.allowed && answer.status == 200, "%s, %s: %d %q", name, origin, answer.status, got)
			}
			assert.Equalf(t, (len(c.listed) > 0), slices.Contains(answer.header.Values("Vary"), "Origin"),
				"%s, %s: %v", name, origin, answer.header)
		}
	}
	h := newHarness(t, says("x"), lets("*"))
	for _, path := range []string{"/metrics", "/healthz"} {
		assert.Equalf(t, "", h.call(http.MethodGet, path, "", "Origin", webApp).header.Get("Access-Control-Allow-Origin"),
			"%s", path)
	}
}
