package httpapi

import (
	"net/http"
	"testing"
)

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
