package page

import (
	"net/http"
	"strings"
	"testing"
)

// TestThePageIsServed holds that / names the page, and /app leads to it.
func TestThePageIsServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	if got := r.Call(http.MethodGet, "/", nil).JSON(t)["page"]; got != "/app/" {
		t.Errorf("/ names the page as %v", got)
	}
	for _, path := range []string{"/app", "/app/", "/app/chats/new"} { // /app leads on
		if got := r.Call(http.MethodGet, path, nil); got.Status != http.StatusOK || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d %v", path, got.Status, got.Header)
		}
	}
	if got := r.Call(http.MethodPost, "/app/", nil); got.Status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", got.Status)
	}
}
