package webui

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
)

var build = fstest.MapFS{
	"index.html":          {Data: []byte("<!doctype html><script type=module src=/app/assets/index-abc.js></script>")},
	"assets/index-abc.js": {Data: []byte("start()")},
	"licenses.md":         {Data: []byte("# Licenses")},
}

func ask(handler http.Handler, method, path string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
	return recorder
}

func TestWhatIsServed(t *testing.T) {
	t.Parallel()
	page := handlerOf(build, Settings{Version: "1.2.3", SupabaseURL: "https://abc.supabase.co", SupabaseKey: "sb_publishable_x", Models: []string{"arco"}})
	const fresh, forever = "no-cache", "public, max-age=31536000, immutable"
	for _, c := range []struct {
		method, path         string
		status               int
		kind, caching, begin string
	}{
		{"GET", "/app/", 200, "text/html", fresh, "<!doctype"},
		{"GET", "/app/chats/0198a1f2-7c11-4d3e-9a44-5b0e6f1c2d31/memory", 200, "text/html", fresh, "<!doctype"},
		{"GET", "/app/../app/anything.php", 200, "text/html", fresh, "<!doctype"},
		{"HEAD", "/app/", 200, "text/html", fresh, ""},
		{"GET", "/app/assets/index-abc.js", 200, "text/javascript", forever, "start()"},
		{"HEAD", "/app/assets/index-abc.js", 200, "text/javascript", forever, ""},
		{"GET", "/app/assets/index-old.js", 404, "text/plain", "", "There is no such file"},
		{"GET", "/app/assets/../index.html", 200, "text/html", fresh, "<!doctype"},
		{"GET", "/app/assets", 200, "text/html", fresh, "<!doctype"},
		{"GET", "/app/assets/", 200, "text/html", fresh, "<!doctype"},
		{"GET", "/app/licenses.md", 200, "text/", fresh, "# Licenses"},
		{"GET", "/app/config.json", 200, "application/json", fresh,
			`{"version":"1.2.3","supabase_url":"https://abc.supabase.co","supabase_key":"sb_publishable_x","model_variants":["arco"]}`},
		{"POST", "/app/", 405, "text/plain", "", "The page is only read"},
		{"DELETE", "/app/config.json", 405, "text/plain", "", "The page is only read"},
	} {
		got := ask(page, c.method, c.path)
		header := got.Header()
		if got.Code != c.status || !strings.HasPrefix(header.Get("Content-Type"), c.kind) || header.Get("Cache-Control") != c.caching ||
			!strings.HasPrefix(got.Body.String(), c.begin) ||
			c.method == http.MethodHead && got.Body.Len() > 0 {
			t.Errorf("%s %s: %d %v %q", c.method, c.path, got.Code, header, got.Body)
		}
		if c.status == http.StatusMethodNotAllowed && header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s allows %q", c.method, c.path, header.Get("Allow"))
		}
		if header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Referrer-Policy") != "no-referrer" || header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s %s: %v", c.method, c.path, header)
		}
	}
}

// TestThePolicy holds that the page runs its own files alone, and talks to its server and the project's.
func TestThePolicy(t *testing.T) {
	t.Parallel()
	const begin = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src "
	const end = "; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	for project, connect := range map[string]string{
		"":                               "'self'",
		"https://abc.supabase.co":        "'self' https://abc.supabase.co",
		"http://127.0.0.1:54321":         "'self' http://127.0.0.1:54321",
		"https://example.com/supabase":   "'self' https://example.com",
		"https://user:pass@example.com/": "'self' https://example.com",
	} {
		assert.Equalf(t, begin+connect+end, policy(project), "%q", project)
	}
}

// Assistants that wait for the window of the question would take it for closed.
func TestTheQuestionStaysTiedToWhoAsks(t *testing.T) {
	t.Parallel()
	page := handlerOf(build, Settings{})
	for path, want := range map[string]string{"/app/": "same-origin", "/app/oauth/consent?authorization_id=a": "", "/app/oauth/consent/": ""} {
		assert.Equalf(t, want, ask(page, http.MethodGet, path).Header().Get("Cross-Origin-Opener-Policy"), "%s", path)
	}
}

func TestWithoutABuild(t *testing.T) {
	t.Parallel()
	page := handlerOf(fstest.MapFS{}, Settings{})
	got := ask(page, http.MethodGet, "/app/")
	assert.Truef(t, got.Code == http.StatusOK && strings.Contains(got.Body.String(), "scripts/setup page"),
		"%d %s", got.Code, got.Body)
	got = ask(page, http.MethodGet, "/app/assets/index-abc.js")
	assert.Truef(t, got.Code == http.StatusNotFound, "%d %s", got.Code, got.Body)
}
