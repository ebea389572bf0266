package page

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestThePageIsServed holds that / names the page, and /app leads to it.
func TestThePageIsServed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, nil)
	got := r.Call(http.MethodGet, "/", nil).JSON(t)["page"]
	assert.Truef(t, got == "/app/", "/ names the page as %v", got)
	for _, path := range []string{"/app", "/app/", "/app/chats/new"} { // /app leads on
		got := r.Call(http.MethodGet, path, nil)
		assert.Truef(t, got.Status == http.StatusOK && strings.HasPrefix(got.Header.Get("Content-Type"), "text/html"),
			"%s: %d %v", path, got.Status, got.Header)
	}
	assert.Equal(t, http.StatusMethodNotAllowed, r.Call(http.MethodPost, "/app/", nil).Status, "POST")
}
