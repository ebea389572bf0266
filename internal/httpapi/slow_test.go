package httpapi

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/testkit"
)

func itoa(n int) string { return strconv.Itoa(n) }

// slowClients hold a connection as long as they can. Each gives the statuses that it saw.
var slowClients = map[string]struct {
	hold func(e *edge, s *socket) []int
	want []int
}{
	"says nothing": {
		func(_ *edge, s *socket) []int { return s.answers() }, nil,
	},
	"never ends its headers": {
		func(e *edge, s *socket) []int {
			s.send(strings.TrimSuffix(e.head("GET", "/v1/chats"), "\r\n"))
			return s.answers()
		}, nil,
	},
	"sends its headers byte by byte": {
		func(_ *edge, s *socket) []int {
			s.send("GET /healthz HTTP/1.1\r\nHost: test\r\nX-Long: ")
			s.dribble("a")
			return s.answers()
		}, nil,
	},
	"never begins its body": {
		func(e *edge, s *socket) []int {
			s.send(e.head("POST", firstPath, "Content-Type: application/json", "Content-Length: 100"))
			return s.answers()
		}, []int{http.StatusBadRequest},
	},
	"sends its body byte by byte": {
		func(e *edge, s *socket) []int {
			s.send(e.head("POST", firstPath, "Content-Type: application/json", "Content-Length: 100000"))
			s.dribble("{")
			return s.answers()
		}, nil, // its own bytes that arrive too late may take the answer away
	},
	"sends a body without an end": {
		func(e *edge, s *socket) []int {
			s.send(e.head("POST", firstPath, "Content-Type: application/json", "Transfer-Encoding: chunked") + "5\r\n{\"con\r\n")
			return s.answers()
		}, []int{http.StatusBadRequest},
	},
	"sends a tool's body without an end": {
		func(e *edge, s *socket) []int {
			s.send(e.head("POST", pathMCP, "Content-Type: application/json", "Transfer-Encoding: chunked") + "1\r\n{\r\n")
			return s.answers()
		}, []int{http.StatusBadRequest},
	},
	"never sends the body that it asked leave for": {
		func(e *edge, s *socket) []int {
			s.send(e.head("POST", firstPath, "Content-Type: application/json", "Content-Length: 100", "Expect: 100-continue"))
			return s.answers()
		}, []int{http.StatusContinue, http.StatusBadRequest},
	},
	"brings a stream's request a body without an end": {
		func(e *edge, s *socket) []int {
			s.send(e.head("GET", "/v1/message/"+uuid.NewString()+"/stream", "Transfer-Encoding: chunked") + "1\r\na\r\n")
			return s.answers()
		}, []int{http.StatusBadRequest},
	},
	"brings a message's stop a body without an end": {
		func(e *edge, s *socket) []int {
			s.send(e.head("POST", "/v1/message/"+uuid.NewString()+"/cancel", "Transfer-Encoding: chunked") + "1\r\na\r\n")
			return s.answers()
		}, nil, // net/http gives up on the body before it sends what the handler said
	},
	"stays after its answer": {
		func(e *edge, s *socket) []int {
			s.send(e.head("GET", "/healthz"))
			return s.answers()
		}, []int{http.StatusOK},
	},
	"begins a second request and no more": {
		func(e *edge, s *socket) []int {
			s.send(e.head("GET", "/healthz") + "GET /he")
			return s.answers()
		}, []int{http.StatusOK, http.StatusBadRequest},
	},
	"asks again and again and reads nothing": {
		func(e *edge, s *socket) []int {
			for s.trySend(e.head("GET", "/openapi.json")) {
				continue // until the server has stopped to take anything, and then has closed
			}
			return nil
		}, nil,
	},
	"asks for little, again and again, and reads nothing": {
		func(e *edge, s *socket) []int {
			for s.trySend(e.head("GET", "/nothing")) {
				continue
			}
			return nil
		}, nil,
	},
	"has tools write what it does not read": {
		func(e *edge, s *socket) []int {
			s.send(e.post(pathMCP, "{}"))
			e.waitFor("the request of the tools", func() bool { return strings.Contains(e.logs.String(), `"route":"/mcp","status":200`) })
			s.hangUp()
			return nil
		}, nil,
	},
}

// TestSlowClients holds a server's connections in every way there is, many times at once. Each is let go, whoever is
// honest is answered meanwhile, and nothing is stored.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a long answer ", 1<<20)
	e := serveEdge(t, true, says("x"), withTools(func(w http.ResponseWriter, _ *http.Request, _ auth.Principal, _ func() (func(), error)) {
		_, _ = io.WriteString(w, long) // how far it gets is the test
	}))
	var all sync.WaitGroup
	for name, client := range slowClients {
		for range 4 {
			s := e.dial()
			all.Go(func() {
				if got := client.hold(e, s); client.want != nil && !slices.Equal(got, client.want) {
					t.Errorf("one that %s got %v, want %v", name, got, client.want)
				}
				s.hangUp()
			})
		}
	}
	for range 3 {
		e.checkServed()
	}
	all.Wait()
	testkit.Eventually(t, "no connection is left", func() bool { return e.connections() == 0 })
	if n := e.turns(); n != 3 {
		t.Errorf("%d messages are stored, want the honest user's 3", n)
	}
	if n := e.places(); n != 0 {
		t.Errorf("%d places are taken", n)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	read, tick := int64(0), time.NewTicker(shortTime/40) // four of them take what may take shortTime
	defer tick.Stop()
	for ; err == nil; <-tick.C {
		var n int64
		n, err = io.CopyN(io.Discard, answer.Body, maxPiece/4)
		read += n
	}
	if !errors.Is(err, io.EOF) || read < int64(len(long)) {
		t.Errorf("%d bytes came, then %v", read, err)
	}
}
