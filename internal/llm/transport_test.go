package llm

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

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
		if time.Now().After(deadline) {
			t.Fatal("the body is kept")
		}
	}
}

// ask sends a body and closes collected when the garbage collector has taken it.
func ask(t *testing.T, url string, collected chan<- struct{}) *http.Response {
	t.Helper()
	body := strings.NewReader(strings.Repeat("x", 1<<20))
	runtime.AddCleanup(body, func(done chan<- struct{}) { close(done) }, collected)
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := releasingTransport{http.DefaultTransport.(*http.Transport)}.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(response.Body, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	return response
}

// A body can be sent again until the answer has begun, as net/http does when a connection it kept was closed.
func TestRequestBodyCanBeSentAgain(t *testing.T) {
	t.Parallel()
	kept := &bodySource{open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("again")), nil }}
	for range 2 {
		body, err := kept.body()
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(body); err != nil || string(text) != "again" {
			t.Errorf("%q, %v", text, err)
		}
		if n, err := body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("after its end: %d, %v", n, err)
		}
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	}
	kept.release()
	if _, err := kept.body(); err == nil {
		t.Error("it was not released")
	}
}
