package page

import (
	"net/http"
	"strings"
	"testing"
)

// TestThePageIsSwitched holds that / names the page, /app leads to it, and WEB_APP=false takes it away.
func TestThePageIsSwitched(t *testing.T) {
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
	off := newRig(t, nil, env{"WEB_APP": "false"})
	if _, named := off.Call(http.MethodGet, "/", nil).JSON(t)["page"]; named {
		t.Error("/ names a page that is off")
	}
	for _, path := range []string{"/app", "/app/", "/app/config.json"} {
		if got := off.Call(http.MethodGet, path, nil); got.Status != http.StatusNotFound || got.Code() != "not_found" {
			t.Errorf("%s of a page that is off: %d %s", path, got.Status, got.Text)
		}
	}
}
