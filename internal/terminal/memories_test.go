package terminal

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/client"
)

// remembered is a talk with a server that answers each request by its method and path, and keeps the requests.
func remembered(t *testing.T, answers map[string]string) (shown *talk, out *strings.Builder, asked *[]string) {
	t.Helper()
	asked = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*asked = append(*asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(bytes.TrimSpace(body))))
		_, _ = io.WriteString(w, answers[r.Method+" "+r.URL.Path])
	}))
	t.Cleanup(server.Close)
	c := client.New(server.URL, "a token")
	t.Cleanup(c.Close)
	out = &strings.Builder{}
	return &talk{Options: Options{Client: c, Out: out}}, out, asked
}

func TestMemoriesAreShownRememberedAndForgotten(t *testing.T) {
	t.Parallel()
	id := uuid.NewString()
	shown, out, asked := remembered(t, map[string]string{
		"GET /v1/memories": `{"memories": [{"id": "` + id +
			`", "content": "Plays\n the \u001b[2Jcello.", "memory_type": "preference", "status": "inbox", "pinned": true}, {"content": "Has a dog.", ` +
			`"memory_type": "fact", "status": "active"}], "next_cursor": "x"}`,
		"POST /v1/memories":        `{"id": "` + id + `", "content": "Prefers oat milk.", "memory_type": "fact", "status": "active"}`,
		"POST /v1/memories/forget": `{"candidates": [], "token": "t"}`,
	})
	for _, line := range []string{"/memories", "/memories the cello", "/remember Prefers oat milk.", "/forget 1", "/forget unicorns and bees"} {
		if err := shown.run(t.Context(), line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	list := "  1  Plays the cello.  (preference, inbox, pinned)\n  2  Has a dog.  (fact)\n     … and more: `throughline memories list` shows all of them.\n"
	want := list + list + "Remembered in all chats: Prefers oat milk.  (fact)\n1 memory was forgotten.\nNothing is remembered of that.\n"
	if got := out.String(); got != want {
		t.Errorf("%q", got)
	}
	requests := []string{
		"GET /v1/memories?limit=50", "GET /v1/memories?limit=50&q=the+cello", `POST /v1/memories {"content":"Prefers oat milk."}`,
		"DELETE /v1/memories/" + id, `POST /v1/memories/forget {"query":"unicorns and bees"}`,
	}
	if got := strings.Join(*asked, "\n"); got != strings.Join(requests, "\n") {
		t.Errorf("asked %s", got)
	}
}

func TestNothingIsRememberedYet(t *testing.T) {
	t.Parallel()
	shown, out, _ := remembered(t, map[string]string{"GET /v1/memories": `{"memories": [], "next_cursor": null}`})
	for _, line := range []string{"/memories", "/memories bees"} {
		if err := shown.run(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); got != "Nothing is remembered yet.\nNothing was found.\n" {
		t.Errorf("%q", got)
	}
	for line, want := range map[string]string{"/remember": "wants a sentence", "/forget 1": "one of the last /memories",
		"/new soon": "wants nothing, or temporary"} {
		if err := shown.run(t.Context(), line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestTemporaryChatsAreBegun(t *testing.T) {
	t.Parallel()
	shown, out, _ := remembered(t, nil)
	for line, temporary := range map[string]bool{"/new temporary": true, "/new": false} {
		if err := shown.run(t.Context(), line); err != nil || shown.Temporary != temporary {
			t.Errorf("%s: temporary is %v, %v", line, shown.Temporary, err)
		}
	}
	if !strings.Contains(out.String(), "nothing of it is remembered in others") {
		t.Errorf("%q", out)
	}
}
