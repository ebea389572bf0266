package clients_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// startCues lets a script tell the test that it is time for something: POST <URL>/<name> runs the function
// of that name and answers when it is done. For scripts that runNode runs; it listens until the test ends.
func startCues(t *testing.T, cues map[string]func()) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cue, known := cues[r.URL.Path[1:]]
		if !known || r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		cue()
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
