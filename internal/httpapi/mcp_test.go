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

func TestLongBodiesOfTools(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), withTools(echoBody))
	large := `"` + strings.Repeat("x", maxMessage) + `"`
	for body, want := range map[string]int{large: http.StatusRequestEntityTooLarge, large[:maxMessage-1] + `"`: http.StatusOK} {
		if response := h.tools(body); response.StatusCode != want {
			t.Errorf("%d bytes: %d, want %d", len(body), response.StatusCode, want)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", c.name, response.StatusCode, c.status)
		}
	}
}
