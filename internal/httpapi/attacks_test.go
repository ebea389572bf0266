package httpapi

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// hidden is a request that stands where the body of another one is: a server that reads it has taken one request for two.
const hidden = "GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n"

// shapes are requests that two servers may understand differently, or that no client sends. What is wanted is the
// status of every answer on the connection, in order.
var shapes = map[string]struct {
	bytes func(e *edge) string
	want  []int
}{
	"two lengths": {func(e *edge) string {
		return e.head("POST", firstPath, "Content-Length: 0", "Content-Length: "+itoa(len(hidden))) + hidden
	}, []int{400}},
	"a length beyond any limit": {func(e *edge) string {
		return e.head("POST", firstPath, "Content-Type: application/json", "Content-Length: 9223372036854775807", "Connection: close")
	}, []int{413}},
	"a length beyond the limit": {func(e *edge) string { return e.post(firstPath, bodyOf(maxMessage+1), "Connection: close") }, []int{413}},
	"a question whether a body beyond the limit may come": {func(e *edge) string {
		length := "Content-Length: " + itoa(maxMessage+1)
		return e.head("POST", firstPath, "Content-Type: application/json", length, "Expect: 100-continue", "Connection: close")
	}, []int{413}},
	"a length below what comes": {func(e *edge) string { return e.post(firstPath, "{}") + hidden }, []int{422, 200}}, // two honest requests
	// A length beside chunks is passed over: the chunks alone tell where the request ends.
	"a length and chunks": {func(e *edge) string {
		return e.head("POST", firstPath, "Content-Type: text/plain", "Content-Length: 5", "Transfer-Encoding: chunked") + "0\r\n\r\n" + hidden
	}, []int{415}},
	"two encodings": {func(e *edge) string {
		return e.head("POST", firstPath, "Transfer-Encoding: chunked", "Transfer-Encoding: identity") + "0\r\n\r\n"
	}, []int{501}},
	"a chunk of endless size": {func(e *edge) string {
		return e.head("POST", firstPath, "Content-Type: application/json", "Transfer-Encoding: chunked") + strings.Repeat("f", 40) + "\r\nx\r\n0\r\n\r\n" + hidden
	}, []int{400}},
	"a chunk with an endless remark": {func(e *edge) string {
		return e.head("POST", firstPath, "Content-Type: application/json", "Transfer-Encoding: chunked") + "2;" + strings.Repeat("x", 1<<16) +
			"\r\n{}\r\n0\r\n\r\n" + hidden
	}, []int{400}},
	"many tiny chunks with remarks": {func(e *edge) string {
		return e.head("POST", firstPath, "Content-Type: application/json", "Transfer-Encoding: chunked") +
			strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\n \r\n", 200) + "0\r\n\r\n"
	}, []int{400}},
	"a header after the chunks": {func(e *edge) string {
		return e.head("POST", firstPath, "Content-Type: application/json", "Transfer-Encoding: chunked", "Trailer: Authorization", "Connection: close") +
			"2\r\n{}\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
	}, []int{422}},
	"a body for who asks for none": {func(e *edge) string {
		return e.head("GET", "/healthz", "Content-Length: "+itoa(len(hidden))) + hidden
	}, []int{200}},

	"two hosts":       {func(*edge) string { return "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" }, []int{400}},
	"a folded header": {func(e *edge) string { return e.head("GET", "/healthz", "X-A: b\r\n Host: c", "Connection: close") }, []int{200}},
	"a header's NUL":  {func(e *edge) string { return e.head("GET", "/healthz", "X-A: a\x00b") }, []int{400}},
	"two tokens": {func(e *edge) string {
		return e.head("GET", "/v1/message/"+uuid.NewString()+"/stream", "Authorization: "+token(uuid.New()), "Connection: close")
	}, []int{401}},
	"bytes that are no HTTP": {func(*edge) string { return "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n" }, []int{400}},
	"HTTP/9.9":               {func(*edge) string { return "GET /healthz HTTP/9.9\r\nHost: a\r\n\r\n" }, []int{505}},
	"a tunnel": {func(*edge) string {
		return "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nConnection: close\r\n\r\n"
	}, []int{404}},
	"another server's address": {func(*edge) string {
		return "GET http://example.com/nothing HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
	}, []int{404}},
	"an upgrade": {func(e *edge) string {
		return e.head("GET", "/healthz", "Connection: Upgrade, close", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")
	}, []int{200}},

	"a path that climbs": {func(e *edge) string { return e.head("GET", "/v1/chats/../../metrics", "Connection: close") }, []int{404}},
	"a hidden climb":     {func(e *edge) string { return e.head("GET", "/v1/chats/%2e%2e%2fprune", "Connection: close") }, []int{400}},
	"a NUL in the path":  {func(e *edge) string { return e.head("GET", "/v1/message/%00/stream", "Connection: close") }, []int{400}},
	"a path of slashes":  {func(e *edge) string { return e.head("GET", "//v1//chats", "Connection: close") }, []int{404}},
	"a bad escape":       {func(e *edge) string { return e.head("GET", "/v1/chats/%zz", "Connection: close") }, []int{400}},
	"an invalid query":   {func(e *edge) string { return e.head("GET", "/healthz?%zz;=%00&&&=", "Connection: close") }, []int{200}},
	"an endless path":    {func(e *edge) string { return e.head("GET", "/"+strings.Repeat("a", maxHeader+5000)) }, []int{431}},
	"an endless query":   {func(e *edge) string { return e.head("GET", "/v1/search?q="+strings.Repeat("a", maxHeader+5000)) }, []int{431}},
	"an endless method":  {func(e *edge) string { return e.head(strings.Repeat("A", maxHeader+5000), "/healthz") }, []int{431}},
	"an endless header":  {func(e *edge) string { return e.head("GET", "/healthz", "X-A: "+strings.Repeat("a", maxHeader+5000)) }, []int{431}},
	"too many headers":   {func(e *edge) string { return e.head("GET", "/healthz", slices.Repeat([]string{"X-A: b"}, 10_000)...) }, []int{431}},
	"an endless token": {func(e *edge) string {
		return e.head("GET", "/v1/chats", "Authorization: Bearer "+strings.Repeat("a", maxHeader+5000))
	}, []int{431}},
	"a header just short": {func(e *edge) string {
		return e.head("GET", "/healthz", "Connection: close", "X-A: "+strings.Repeat("a", maxHeader-1000))
	}, []int{200}},
}

// TestShapesOfRequests holds that each odd request is one request at most, is answered as it should be, stores nothing
// and harms nobody else.
func TestShapesOfRequests(t *testing.T) {
	t.Parallel()
	e := newEdge(t, says("x"))
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			s := e.dial()
			s.trySend(shape.bytes(e)) // the server may refuse to take all of it
			_ = s.conn.(interface{ CloseWrite() error }).CloseWrite()
			got := s.answers()
			assert.Truef(t, slices.Equal(got, shape.want), "answers %v, want %v", got, shape.want)
			s.hangUp()
			n := e.turns()
			assert.Truef(t, n == 0, "%d messages are stored", n)
		})
	}
	e.checkServed()
	testkit.Eventually(t, "no connection is left", func() bool { return e.connections() == 0 })
}

// compressed is so many zeros, compressed to a thousandth.
func compressed(size int) string {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, _ = writer.Write(make([]byte, size)) // into memory
	_ = writer.Close()
	return out.String()
}

// TestCompressedBodiesAreRefused holds that nothing is ever unpacked.
func TestCompressedBodiesAreRefused(t *testing.T) {
	t.Parallel()
	e := newEdge(t, says("x"))
	bomb := compressed(10 << 20)
	for _, path := range []string{firstPath, nextPath, "/v1/chats", "/v1/chats/prune", "/v1/chats/import", pathMCP, "/v1/messages/" + uuid.NewString()} {
		for _, encoding := range []string{"gzip", "deflate", "br", "zstd", "gzip, gzip", "GZIP", "x"} {
			method := "POST"
			if strings.HasPrefix(path, "/v1/messages/") {
				method = "PATCH"
			}
			s := e.dial()
			s.trySend(e.head(method, path, "Content-Type: application/json", "Content-Encoding: "+encoding, "Content-Length: "+itoa(len(bomb)),
				"Connection: close") + bomb)
			got := s.answers()
			assert.Truef(t, slices.Equal(got, []int{http.StatusUnsupportedMediaType}),
				"%s %s: answers %v", path, encoding, got)
			s.hangUp()
		}
	}
	e.checkServed()
}

// TestLongListsAreRefusedBriefly holds that a body made of tiny wrong values is answered with a few words, not with one
// for each.
func TestLongListsAreRefusedBriefly(t *testing.T) {
	t.Parallel()
	h := newHarness(t, says("x"), withTools(echoBody))
	const large = 2 * maxBody
	many := func(value string, size int) string { return strings.Repeat(value+",", size/(len(value)+1)) + value }
	for name, attack := range map[string]struct {
		path, body string
		want       int
	}{
		"sources of numbers":     {firstPath, `{"content":"a","sources":[` + many("1", maxBody-100) + "]}", 422},
		"sources of objects":     {firstPath, `{"content":"a","sources":[` + many("{}", maxBody-100) + "]}", 422},
		"files of numbers":       {firstPath, `{"content":"a","files":[` + many("1", large) + "]}", 422},
		"files of objects":       {nextPath, `{"chat_id":"` + someID + `","content":"a","files":[` + many("{}", large) + "]}", 422},
		"files of many wrongs":   {firstPath, `{"content":"a","files":[` + many(`{"path":1,"content":[],"x":1}`, 20_000) + "]}", 400},
		"a file of fields":       {firstPath, `{"content":"a","files":[{` + many(`"x":1`, large) + "}]}", 422},
		"fields without number":  {firstPath, `{` + many(`"content":"a"`, maxBody-100) + "}", 400},
		"a large body of fields": {firstPath, `{` + many(`"files":[]`, large) + "}", 413},
		"tags":                   {"/v1/chats", `{"tags":[` + many(`""`, maxBody-100) + "]}", 422},
		"tools' values":          {pathMCP, `[` + many("{}", large) + "]", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := h.call(http.MethodPost, attack.path, attack.body)
			assert.Truef(t, answer.status == attack.want && len(answer.body) <= 100_000,
				"%d with %d bytes, want %d: %.300s", answer.status, len(answer.body), attack.want, answer.body)
		})
	}
}

// TestLargeBodiesAtOnce holds that one user cannot fill the memory with bodies: as many are held as the user may have
// streams, and nobody else is concerned.
func TestLargeBodiesAtOnce(t *testing.T) {
	t.Parallel()
	e := newEdge(t, says("x"), func(c *Config) { c.MaxStreamsPerUser, c.BodyTimeout = 2, testkit.Patience })
	large := e.head("POST", pathMCP, "Content-Type: application/json", "Content-Length: "+itoa(maxMessage))
	held := []*socket{e.dial(), e.dial()}
	for _, s := range held {
		s.send(large + `"`)
	}
	bodies := func() int {
		e.server.large.mu.Lock()
		defer e.server.large.mu.Unlock()
		return e.server.large.open[e.user]
	}
	e.waitFor("two bodies on their way", func() bool { return bodies() == 2 })
	for _, third := range []string{large, e.head("POST", firstPath, "Content-Type: application/json", "Transfer-Encoding: chunked") + "2\r\n{}\r\n0\r\n\r\n"} {
		s := e.dial()
		s.send(third)
		answer, body := s.answer()
		assert.Truef(t, answer.StatusCode == http.StatusTooManyRequests && answer.Header.Get("Retry-After") != "" && strings.Contains(body, `"max_large":2`),
			"a third: %s %s", answer.Status, body)
		s.hangUp()
	}
	e.checkServed() // the same user's small message
	for _, s := range held {
		s.hangUp()
	}
	e.waitFor("their places to be free", func() bool { return bodies() == 0 })
}
