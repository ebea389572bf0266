package httpapi

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
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
	require.NoError(t, err)
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
	conn, err := (&net.Dialer{}).DialContext(e.t.Context(), "tcp", e.address)
	require.NoError(e.t, err)
	if e.tight {
		_ = conn.(*net.TCPConn).SetReadBuffer(4096) // a hint to the kernel
	}
	_ = conn.SetDeadline(time.Now().Add(testkit.Patience)) // so that no test hangs
	e.t.Cleanup(func() { _ = conn.Close() })               // more than once is no harm
	return &socket{e.t, conn, bufio.NewReader(conn)}
}

func (s *socket) hangUp() { _ = s.conn.Close() }

func (s *socket) send(text string) {
	_, err := io.WriteString(s.conn, text)
	assert.NoError(s.t, err)
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
	answer, err := http.ReadResponse(s.reader, nil)
	require.NoError(s.t, err, "no answer")
	body, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err, "half an answer")
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

func itoa(n int) string { return strconv.Itoa(n) }

// silent are clients that send so much, and then wait for as long as they can.
var silent = map[string]struct {
	sends func(e *edge) string
	want  []int
}{
	"says nothing":           {func(*edge) string { return "" }, nil},
	"never ends its headers": {func(e *edge) string { return strings.TrimSuffix(e.head("GET", "/v1/chats"), "\r\n") }, nil},
	"never begins its body": {func(e *edge) string {
		return e.head("POST", firstPath, "Content-Type: application/json", "Content-Length: 100")
	}, []int{http.StatusBadRequest}},
	"sends a body without an end": {func(e *edge) string {
		return e.head("POST", firstPath, "Content-Type: application/json", "Transfer-Encoding: chunked") + "5\r\n{\"con\r\n"
	}, []int{http.StatusBadRequest}},
	"sends a tool's body without an end": {func(e *edge) string {
		return e.head("POST", pathMCP, "Content-Type: application/json", "Transfer-Encoding: chunked") + "1\r\n{\r\n"
	}, []int{http.StatusBadRequest}},
	"never sends the body that it asked leave for": {func(e *edge) string {
		return e.head("POST", firstPath, "Content-Type: application/json", "Content-Length: 100", "Expect: 100-continue")
	}, []int{http.StatusContinue, http.StatusBadRequest}},
	"brings a stream's request a body without an end": {func(e *edge) string {
		return e.head("GET", "/v1/message/"+uuid.NewString()+"/stream", "Transfer-Encoding: chunked") + "1\r\na\r\n"
	}, []int{http.StatusBadRequest}},
	"brings a message's stop a body without an end": {func(e *edge) string {
		return e.head("POST", "/v1/message/"+uuid.NewString()+"/cancel", "Transfer-Encoding: chunked") + "1\r\na\r\n"
	}, nil}, // net/http gives up on the body before it sends what the handler said
	"stays after its answer":              {func(e *edge) string { return e.head("GET", "/healthz") }, []int{http.StatusOK}},
	"begins a second request and no more": {func(e *edge) string { return e.head("GET", "/healthz") + "GET /he" }, []int{http.StatusOK, http.StatusBadRequest}},
}

// busy are clients that hold a connection by what they do.
var busy = map[string]func(e *edge, s *socket){
	"sends its headers byte by byte": func(_ *edge, s *socket) {
		s.send("GET /healthz HTTP/1.1\r\nHost: test\r\nX-Long: ")
		s.dribble("a")
	},
	"sends its body byte by byte": func(e *edge, s *socket) {
		s.send(e.head("POST", firstPath, "Content-Type: application/json", "Content-Length: 100000"))
		s.dribble("{")
	},
	"asks again and again and reads nothing": func(e *edge, s *socket) {
		for s.trySend(e.head("GET", "/openapi.json")) {
			continue // until the server has stopped to take anything, and then has closed
		}
	},
	"asks for little, again and again, and reads nothing": func(e *edge, s *socket) {
		for s.trySend(e.head("GET", "/nothing")) {
			continue
		}
	},
	"has tools write what it does not read": func(e *edge, s *socket) {
		s.send(e.post(pathMCP, "{}"))
		e.waitFor("the request of the tools", func() bool { return strings.Contains(e.logs.String(), `"route":"/mcp","status":200`) })
	},
}

// TestSlowClients holds a server's connections in every way there is, many times at once. Each is let go, whoever is
// honest is answered meanwhile, and nothing is stored.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a long answer ", 1<<20)
	e := serveEdge(t, true, says("x"), withTools(func(w http.ResponseWriter, _ *http.Request, _ auth.Principal, _ func(bool) (func(), error)) {
		_, _ = io.WriteString(w, long) // how far it gets is the test
	}))
	var all sync.WaitGroup
	for range 4 {
		for name, client := range silent {
			s := e.dial()
			all.Go(func() {
				s.send(client.sends(e))
				got := s.answers()
				assert.Truef(t, client.want == nil || slices.Equal(got, client.want),
					"one that %s got %v, want %v", name, got, client.want)
				s.hangUp()
			})
		}
		for _, hold := range busy {
			s := e.dial()
			all.Go(func() {
				hold(e, s)
				s.hangUp()
			})
		}
	}
	for range 3 {
		e.checkServed()
	}
	all.Wait()
	testkit.Eventually(t, "no connection is left", func() bool { return e.connections() == 0 })
	n := e.turns()
	assert.Truef(t, n == 3, "%d messages are stored, want the honest user's 3", n)
	n = e.places()
	assert.Truef(t, n == 0, "%d places are taken", n)
}

// A body may take its time as long as it ends within it, and the stream that follows may take any.
func TestSlowBodyInTime(t *testing.T) {
	t.Parallel()
	model := newConductor()
	e := newEdge(t, model, func(c *Config) { c.BodyTimeout = testkit.Patience })
	model.accept()
	s := e.dial()
	s.send(e.head("POST", firstPath, "Content-Type: application/json", "Accept: application/json", "Content-Length: "+itoa(len(hello))))
	for _, char := range hello {
		s.send(string(char))
	}
	e.waitFor("the model to be asked", func() bool { return model.calls.Load() == 1 })
	model.say("x")
	model.finish()
	if answer, body := s.answer(); answer.StatusCode != http.StatusOK {
		t.Errorf("%s %s", answer.Status, body)
	}
}

// A message with files over a slow network may take longer than one without.
func TestLargeBodyMayTakeLonger(t *testing.T) {
	t.Parallel()
	e := newEdge(t, says("x"))
	files := make([]string, 8)
	for i := range files {
		files[i] = `{"path": "notes` + itoa(i) + `.txt", "content": "` + strings.Repeat("a long file ", 1<<14) + `"}`
	}
	body := `{"content": "What is in them?", "files": [` + strings.Join(files, ",") + `]}`
	s := e.dial()
	s.send(e.head("POST", firstPath, "Content-Type: application/json", "Accept: application/json", "Content-Length: "+itoa(len(body))))
	s.send(body[:maxBody])
	time.Sleep(shortTime + shortTime/4) // an ordinary body would be late by now
	s.send(body[maxBody:])
	if answer, text := s.answer(); answer.StatusCode != http.StatusOK {
		t.Errorf("%s %s", answer.Status, text)
	}
}

// A long answer may take longer than the time for one piece of it, as long as each piece is taken.
func TestLongAnswerToASlowReader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a long answer ", 1<<16) // a megabyte
	e := newEdge(t, says(long))
	s := e.dial()
	s.send(e.post(firstPath, hello, "Accept: application/json"))
	answer, err := http.ReadResponse(s.reader, nil)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	read, tick := int64(0), time.NewTicker(shortTime/40) // four of them take what may take shortTime
	defer tick.Stop()
	for ; err == nil; <-tick.C {
		var n int64
		n, err = io.CopyN(io.Discard, answer.Body, maxPiece/4)
		read += n
	}
	assert.Truef(t, errors.Is(err, io.EOF) && read >= int64(len(long)), "%d bytes came, then %v", read, err)
}
