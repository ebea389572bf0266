package clients_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// startCues starts a server that lets a script of runNode run functions of the test: POST <URL>/<name> runs the
// function of that name and answers when it is done. It listens until the test ends.
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
