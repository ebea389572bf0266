package httpapi

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// shortTime is the timeout of everything at an edge. It is no measure of speed: what must end ends after it, what
// must not end is over long before it is tried again.
const shortTime = 5 * time.Second

// edge is a harness that is attacked over sockets: the server is the one that the product runs, with short timeouts.
type edge struct {
	*harness
	address string
	tight   bool // its connections take in little of what nobody reads

	mu   sync.Mutex
	open map[net.Conn]bool
}

func newEdge(t *testing.T, model chat.Model, change ...func(*Config)) *edge {
	t.Helper()
	return serveEdge(t, false, model, change...)
}

// serveEdge is newEdge, tight or not.
func serveEdge(t *testing.T, tight bool, model chat.Model, change ...func(*Config)) *edge {
	t.Helper()
	h := newQuietHarness(t, model, append([]func(*Config){func(c *Config) {
		c.HeaderTimeout, c.BodyTimeout, c.IdleTimeout, c.WriteTimeout = shortTime, shortTime, shortTime, shortTime
		c.Tools = standIn(echoBody)
	}}, change...)...)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &edge{harness: h, address: listener.Addr().String(), tight: tight, open: map[net.Conn]bool{}}
	server := h.server.HTTPServer()
	server.ConnState = e.note
	done := make(chan error, 1)
	go func() { done <- server.Serve(edgeListener{listener, tight}) }()
	t.Cleanup(func() {
		h.closeChat()
		_ = server.Close() // what the test left open
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return e
}

type edgeListener struct {
	net.Listener
	tight bool
}

func (l edgeListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil && l.tight {
		_ = conn.(*net.TCPConn).SetWriteBuffer(4096) // a hint to the kernel
	}
	return conn, err
}

// note counts connections. Each has one goroutine, or two while a handler runs.
func (e *edge) note(conn net.Conn, state http.ConnState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(e.open, conn)
	} else {
		e.open[conn] = true
	}
}

func (e *edge) connections() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.open)
}

// turns counts what is stored.
func (e *edge) turns() int {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	return len(e.store.turns)
}

// checkServed holds that an honest user's message is answered.
func (e *edge) checkServed() {
	e.t.Helper()
	s := e.dial()
	s.send(e.post(firstPath, hello, "Accept: application/json"))
	if answer, body := s.answer(); answer.StatusCode != http.StatusOK || !strings.Contains(body, `"completion"`) && !strings.Contains(body, `"content":"x"`) {
		e.t.Errorf("an honest user gets %s %s", answer.Status, body)
	}
	s.hangUp()
}

// post is a request as text. headers are whole lines.
func (e *edge) post(path, body string, headers ...string) string {
	lines := append([]string{"Content-Type: application/json"}, headers...)
	return e.head("POST", path, append(lines, "Content-Length: "+itoa(len(body)))...) + body
}

// head is a request of the edge's user, without its body.
func (e *edge) head(method, path string, headers ...string) string {
	lines := append([]string{method + " " + path + " HTTP/1.1", "Host: test", "Authorization: " + token(e.user)}, headers...)
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// socket is a client of bytes.
type socket struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

func (e *edge) dial() *socket {
	e.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(e.t.Context(), "tcp", e.address)
	if err != nil {
		e.t.Fatal(err)
	}
	if e.tight {
		_ = conn.(*net.TCPConn).SetReadBuffer(4096) // a hint to the kernel
	}
	_ = conn.SetDeadline(time.Now().Add(testkit.Patience)) // so that no test hangs
	e.t.Cleanup(func() { _ = conn.Close() })               // more than once is no harm
	return &socket{e.t, conn, bufio.NewReader(conn)}
}

func (s *socket) hangUp() { _ = s.conn.Close() }

func (s *socket) send(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.conn, text); err != nil {
		s.t.Error(err)
	}
}

// trySend sends what the server may refuse to take.
func (s *socket) trySend(text string) bool {
	_, err := io.WriteString(s.conn, text)
	return err == nil
}

// dribble sends byte after byte, each long before the server would be out of patience for it alone, until the server
// has had enough of the whole.
func (s *socket) dribble(piece string) {
	tick := time.NewTicker(shortTime / 20)
	defer tick.Stop()
	for s.trySend(piece) {
		<-tick.C
	}
}

func (s *socket) answer() (*http.Response, string) {
	s.t.Helper()
	answer, err := http.ReadResponse(s.reader, nil)
	if err != nil {
		s.t.Fatalf("no answer: %v", err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatalf("half an answer: %v", err)
	}
	_ = answer.Body.Close()
	return answer, string(body)
}

// answers reads statuses up to the end of the connection.
func (s *socket) answers() []int {
	var statuses []int
	for {
		answer, err := http.ReadResponse(s.reader, nil)
		if err != nil {
			return statuses
		}
		_, _ = io.Copy(io.Discard, answer.Body) // how it ends shows in the next answer
		_ = answer.Body.Close()
		statuses = append(statuses, answer.StatusCode)
	}
}
