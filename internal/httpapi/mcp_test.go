package httpapi

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
)

// standIn is a protocol that does with each request what the test says.
type standIn func(w http.ResponseWriter, r *http.Request, user auth.Principal, admit func() (func(), error))

func (s standIn) ServeMCP(w http.ResponseWriter, r *http.Request, user auth.Principal, admit func() (leave func(), err error)) {
	s(w, r, user, admit)
}

func withTools(tools standIn) func(*Config) {
	return func(c *Config) { c.Tools = tools }
}

// echoBody answers with the request's body.
func echoBody(w http.ResponseWriter, r *http.Request, _ auth.Principal, _ func() (func(), error)) {
	_, _ = io.Copy(w, r.Body) // the client reads it
}

func (h *harness) tools(body string, headers ...string) *http.Response {
	h.t.Helper()
	response, err := h.http.Client().Do(h.request(http.MethodPost, pathMCP, body, headers...))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func TestToolsOfUser(t *testing.T) {
	t.Parallel()
	users := make(chan auth.Principal, 1)
	h := newHarness(t, says("x"), withTools(func(w http.ResponseWriter, r *http.Request, user auth.Principal, admit func() (func(), error)) {
		users <- user
		echoBody(w, r, user, admit)
	}))
	response := h.tools(`{"a": 1}`)
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != `{"a": 1}` || response.Header.Get("X-Request-Id") == "" {
		t.Errorf("%q %v %v", body, response.Header, err)
	}
	if user := <-users; user.UserID != h.user {
		t.Errorf("the tools were asked for %s", user.UserID)
	}
}

func TestToolsRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), withTools(echoBody))
	large := `"` + strings.Repeat("x", maxMessage) + `"`
	for _, c := range []struct {
		name, body string
		headers    []string
		status     int
	}{
		{"no token", "{}", []string{"Authorization", ""}, http.StatusUnauthorized},
		{"a bad token", "{}", []string{"Authorization", "Bearer x"}, http.StatusUnauthorized},
		{"no JSON", "{}", []string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
		{"too large", large, nil, http.StatusRequestEntityTooLarge},
		{"as large as may be", large[:maxMessage-1] + `"`, nil, http.StatusOK},
	} {
		response := h.tools(c.body, c.headers...)
		if response.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", c.name, response.StatusCode, c.status)
		}
		if c.status == http.StatusUnauthorized && !strings.HasPrefix(response.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: %v", c.name, response.Header)
		}
	}
}

func TestToolsFromTheWebApp(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), withTools(echoBody), lets(webApp))
	header := h.preflight(pathMCP, webApp, "POST", "authorization,content-type,mcp-protocol-version").header
	if header.Get("Access-Control-Allow-Origin") != webApp || !slices.Contains(listed(header.Get("Access-Control-Allow-Headers")), "mcp-protocol-version") {
		t.Errorf("%v", header)
	}
	if refused := h.tools("{}", "Authorization", "", "Origin", webApp); refused.Header.Get("Access-Control-Allow-Origin") != webApp {
		t.Errorf("%v", refused.Header)
	}
}

// TestSilenceOfTools holds that a stream on which a reply is awaited does not look dead to a proxy.
func TestSilenceOfTools(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	h := newHarness(t, says("x"), withTools(func(w http.ResponseWriter, _ *http.Request, _ auth.Principal, admit func() (func(), error)) {
		w.Header().Set("Content-Type", "text/event-stream")
		leave, err := admit()
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
	if err := lines.Err(); err != nil || !slices.Equal(events, []string{"data: {}"}) {
		t.Errorf("%q %v", events, err)
	}
	if buffering := response.Header.Get("X-Accel-Buffering"); buffering != "no" {
		t.Errorf("X-Accel-Buffering: %q", buffering)
	}
}

// TestLimitsOfTools holds that a tool's messages count as the user's, together with those of apps.
func TestLimitsOfTools(t *testing.T) {
	t.Parallel()
	refusals := make(chan error, 10)
	h := newHarness(t, says("x"), withTools(func(_ http.ResponseWriter, _ *http.Request, _ auth.Principal, admit func() (func(), error)) {
		first, err := admit()
		refusals <- err
		_, err = admit() // a second reply at once
		refusals <- err
		first()
		third, err := admit()
		refusals <- err
		third()
	}), func(c *Config) { c.MaxStreamsPerUser, c.MessagesPerMinute = 1, 3 })
	h.tools("{}")
	for i, want := range []string{"", "over_request_rate_limit: Too many replies are open at once.", ""} {
		err := <-refusals
		if got := errorText(err); got != want {
			t.Errorf("message %d: %q, want %q", i, got, want)
		}
	}
	if answer := h.first("Hello"); answer.status != http.StatusTooManyRequests {
		t.Errorf("an app's message after three of a tool: %d", answer.status)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
