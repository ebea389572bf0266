package httpapi

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
)

const webApp = "https://app.example.com"

func lets(origins ...string) func(*Config) {
	return func(c *Config) { c.CORSOrigins = origins }
}

// preflight asks what a page may do, as a browser does before a request with a token.
func (h *harness) preflight(path, origin, method, headers string) answered {
	h.t.Helper()
	request := h.request(http.MethodOptions, path, "", "Authorization", "", "Origin", origin,
		"Access-Control-Request-Method", method, "Access-Control-Request-Headers", headers)
	response, err := h.http.Client().Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
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
		if answer.status != 204 || header.Get("Access-Control-Allow-Origin") != webApp || header.Get("Access-Control-Max-Age") != "7200" {
			t.Errorf("%s: %d %v", path, answer.status, header)
		}
		if header.Get("Access-Control-Allow-Credentials") != "" || !slices.Contains(header.Values("Vary"), "Origin") {
			t.Errorf("%s: %v", path, header)
		}
		for _, method := range []string{"get", "post", "delete", "patch", "put", "options"} {
			if !slices.Contains(listed(header.Get("Access-Control-Allow-Methods")), method) {
				t.Errorf("%s: no %s in %v", path, method, header)
			}
		}
		for _, name := range []string{"authorization", "content-type", "accept", "last-event-id", "idempotency-key", "x-request-id",
			"x-vercel-ai-ui-message-stream", "mcp-protocol-version"} {
			if !slices.Contains(listed(header.Get("Access-Control-Allow-Headers")), name) {
				t.Errorf("%s: no %s in %v", path, name, header)
			}
		}
	}
}

func TestPreflightOfAStranger(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), lets(webApp))
	for _, origin := range []string{"https://evil.example.com", "https://app.example.com.evil.org", "http://app.example.com",
		"https://app.example.com:8443", "https://appxexample.com", "null"} {
		if answer := h.preflight(firstPath, origin, "POST", "authorization"); answer.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", origin, answer.header)
		}
		answer := h.first("a", "Origin", origin)
		if answer.status != 200 || answer.header.Get("Access-Control-Allow-Origin") != "" || !slices.Contains(answer.header.Values("Vary"), "Origin") {
			t.Errorf("%s: %d %v", origin, answer.status, answer.header)
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
		if answer.status != c.want || answer.header.Get("Access-Control-Allow-Origin") != webApp {
			t.Errorf("%s %s: %d %v", c.method, c.path, answer.status, answer.header)
		}
		for _, name := range []string{"x-request-id", "www-authenticate", "retry-after", "content-disposition", "location", "x-vercel-ai-ui-message-stream"} {
			if !slices.Contains(listed(answer.header.Get("Access-Control-Expose-Headers")), name) {
				t.Errorf("%s %s does not show %s", c.method, c.path, name)
			}
		}
	}
}

func TestPanicAllowsTheWebApp(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), lets(webApp), func(c *Config) { c.Auth = nil })
	if answer := h.first("a", "Origin", webApp); answer.status != 500 || answer.header.Get("Access-Control-Allow-Origin") != webApp {
		t.Errorf("%d %v", answer.status, answer.header)
	}
}

func TestEveryOrigin(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), lets("*"))
	for _, origin := range []string{webApp, "http://localhost:3000", "null"} {
		if got := h.preflight(firstPath, origin, "POST", "authorization").header.Get("Access-Control-Allow-Origin"); got != "*" {
			t.Errorf("%s: %q", origin, got)
		}
	}
	for _, path := range []string{"/metrics", "/healthz"} {
		if got := h.call(http.MethodGet, path, "", "Origin", webApp).header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestNoOrigins(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"))
	if answer := h.first("a", "Origin", webApp); answer.status != 200 || answer.header.Get("Access-Control-Allow-Origin")+answer.header.Get("Vary") != "" {
		t.Errorf("%d %v", answer.status, answer.header)
	}
	if answer := h.preflight(firstPath, webApp, "POST", "authorization"); answer.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%v", answer.header)
	}
}
