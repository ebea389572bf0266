package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// refusing is a server that does not know some fields. It passes on the names of all fields of each call.
func refusing(t *testing.T, status int, fields ...string) (url string, calls <-chan []string) {
	sent := make(chan []string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		var names []string
		for _, field := range []string{"metadata", "store"} {
			if _, ok := body[field]; ok {
				names = append(names, field)
			}
		}
		sent <- names
		for _, field := range fields {
			if name := field; slices.Contains(names, name) || name == "input" {
				answers(status, "application/json", `{"error":{"message":"Unknown parameter: store, metadata","param":"`+name+`"}}`)(w, r)
				return
			}
		}
		if body["stream"] == true {
			sends(delta(`"a"`), completedEvent)(w, r)
			return
		}
		answers(http.StatusOK, "application/json", `{"status":"completed","output":[]}`)(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, sent
}

// A server that does not know what only describes a call is asked once more without, and from then on.
func TestFieldsThatTheServerRefusesAreLeftOut(t *testing.T) {
	t.Parallel()
	both := []string{"metadata", "store"}
	for _, c := range []struct {
		name    string
		status  int
		refused []string
		calls   [][]string // of a reply and a summary
	}{
		{"metadata", 400, []string{"metadata"}, [][]string{both, {"store"}, {"store"}}},
		{"store", 400, []string{"store"}, [][]string{both, {"metadata"}, {"metadata"}}},
		{"both", 400, both, [][]string{both, {"store"}, nil, nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, calls := refusing(t, c.status, c.refused...)
			logs := &testkit.Log{}
			asked := New(Settings{BaseURL: url, IdleTimeout: time.Minute, Logger: logs.Logger()})
			t.Cleanup(asked.Close)
			got := read(t.Context(), asked, nil)
			assert.Truef(t, got.err == nil && got.text == "a", "reply: %q, %v", got.text, got.err)
			_, err := asked.Summarize(t.Context(), inlineCall())
			assert.NoError(t, err, "summary")
			for _, want := range c.calls {
				assert.Equal(t, want, <-calls, "sent")
			}
			lines := len(logs.Lines(t, "the model's server refuses a field of calls, which are made without it from now on"))
			assert.Truef(t, lines == len(c.refused) && len(calls) == 0, "%d lines are logged, %d calls too many", lines, len(calls))
		})
	}
}

func TestOtherRefusalsAreNoReasonToLeaveFieldsOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		field  string
	}{{400, "input"}, {403, "metadata"}} {
		url, calls := refusing(t, c.status, c.field)
		asked := client(t, url, 0)
		for range 2 {
			wantFault(t, read(t.Context(), asked, nil).err, fault.UpstreamFailed)
			assert.Equalf(t, 2, len(<-calls), "%d %s: sent", c.status, c.field)
		}
		assert.Truef(t, len(calls) == 0, "%d %s: %d calls too many", c.status, c.field, len(calls))
	}
}

// A request's body can be collected while its response is still being read.
func TestRequestBodyIsReleased(t *testing.T) {
	t.Parallel()
	finish := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a broken client fails its own test
		_, _ = io.WriteString(w, "begun\n")
		_ = http.NewResponseController(w).Flush()
		<-finish
	}))
	defer server.Close()
	defer close(finish)

	collected := make(chan struct{})
	response := ask(t, server.URL, collected)
	defer func() { _ = response.Body.Close() }()
	for deadline := time.Now().Add(30 * time.Second); ; {
		runtime.GC()
		select {
		case <-collected:
			return
		case <-time.After(10 * time.Millisecond):
		}
		require.False(t, time.Now().After(deadline), "the body is kept")
	}
}

// ask sends a body and closes collected when the garbage collector has taken it.
func ask(t *testing.T, url string, collected chan<- struct{}) *http.Response {
	body := bytes.Repeat([]byte("x"), 1<<20)
	runtime.AddCleanup(&body[0], func(done chan<- struct{}) { close(done) }, collected)
	c := client(t, url, 0)
	response, err := postOnce(context.WithoutCancel(t.Context()), c.http, c.settings, "", body)
	require.NoError(t, err)
	_, err = io.ReadFull(response.Body, make([]byte, 6))
	require.NoError(t, err)
	return response
}

// A body can be sent again until the answer has begun, as net/http does when a connection it kept was closed.
func TestRequestBodyCanBeSentAgain(t *testing.T) {
	t.Parallel()
	var kept sentBody
	text := []byte("again")
	kept.Store(&text)
	for range 2 {
		body, err := kept.open()
		require.NoError(t, err)
		text, err := io.ReadAll(body)
		assert.Truef(t, err == nil && string(text) == "again", "%q, %v", text, err)
		n, err := body.Read(make([]byte, 1))
		assert.Truef(t, n == 0 && errors.Is(err, io.EOF), "after its end: %d, %v", n, err)
		assert.NoError(t, body.Close())
	}
	kept.Store(nil)
	_, err := kept.open()
	assert.Error(t, err, "it was not released")
}
