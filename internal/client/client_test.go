package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/transfer"
)

// A server that is not ready is there all the same.
func TestReach(t *testing.T) {
	t.Parallel()
	status := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked %s", r.URL)
		}
		w.WriteHeader(status)
	}))
	c := New(server.URL, "a token")
	defer c.Close()
	for _, status = range []int{http.StatusOK, http.StatusServiceUnavailable} {
		if err := c.Reach(t.Context()); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
	server.Close()
	if err := c.Reach(t.Context()); err == nil || !strings.Contains(err.Error(), "no server answers at "+server.URL) {
		t.Errorf("%v", err)
	}
	nowhere := New("://", "a token")
	defer nowhere.Close()
	if err := nowhere.Reach(t.Context()); err == nil || !strings.Contains(err.Error(), "address of the server") {
		t.Errorf("%v", err)
	}
}

func TestCallTellsWhatWentWrong(t *testing.T) {
	t.Parallel()
	writes := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
	}
	c := serve(t, writes(http.StatusUnprocessableEntity, `{"code": "validation_failed", "message": "Wrong.", "details": {"title": "is too long"}}`),
		writes(http.StatusBadGateway, "<html>"), writes(http.StatusOK, "<html>"), cut, writes(http.StatusOK, `{"title": 7}`))
	for _, want := range []string{"Wrong. (422 validation_failed); title is too long", "no answer of Throughline's. (502 unknown)",
		"is this a Throughline server?", "the answer broke off", "cannot unmarshal"} {
		if _, err := c.Chat(t.Context(), uuid.New()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %s", err, want)
		}
	}
	if _, err := c.Change(t.Context(), uuid.New(), map[string]any{"title": func() {}}); err == nil || !strings.Contains(err.Error(), "encode the request") {
		t.Errorf("%v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{"3": 3 * time.Second, "0": 0, "": time.Second, "-1": time.Second, "soon": time.Second} {
		if got := retryAfter(header); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

func TestImport(t *testing.T) {
	t.Parallel()
	progress := "event: import.progress\ndata: {\"phase\":\"writing\",\"chats\":2}\n\n"
	c := serve(t,
		streams(progress+"event: import.completed\ndata: {\"imported\":2}\n\n"),
		streams(progress+"event: import.failed\ndata: {\"code\":\"import_invalid\",\"message\":\"Line 1.\"}\n\n"),
		streams(progress))
	var seen []transfer.Progress
	hear := func(far transfer.Progress) { seen = append(seen, far) }
	answer, err := c.Import(t.Context(), strings.NewReader("the file"), hear)
	if err != nil || string(answer) != `{"imported":2}` || len(seen) != 1 || seen[0].Chats != 2 {
		t.Errorf("%s, %+v, %v", answer, seen, err)
	}
	if sent, _ := io.ReadAll(c.requests()[0].Body); string(sent) != "the file" {
		t.Errorf("sent %q", sent)
	}
	if _, err := c.Import(t.Context(), strings.NewReader(""), hear); !IsCode(err, fault.ImportInvalid) {
		t.Errorf("%v", err)
	}
	if _, err := c.Import(t.Context(), strings.NewReader(""), hear); !errors.Is(err, errCut) {
		t.Errorf("%v", err)
	}
}

// Half an export is an error.
func TestExportThatBreaksOff(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
	})
	var out strings.Builder
	if err := c.Export(t.Context(), uuid.New(), "jsonl", &out); err == nil || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
