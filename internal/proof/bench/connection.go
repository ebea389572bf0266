package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// endpoint is a process that streams. One goroutine uses it. Stop it.
type endpoint struct {
	*kit.Process
	name    string
	address string // base URL
	stop    func() error
	// ours speaks our protocol, the others the model's.
	ours bool
	// headers are more header lines of each request, for a gateway that needs the model's address.
	headers string
	// mayBreak: a stream without its end is counted, and does not fail the part.
	mayBreak bool
}

// connection is a client's, kept alive between requests. It is not net/http's and reads without kit's reader:
// without goroutines and allocations per event, because it shares the machine with what it measures.
type connection struct {
	net.Conn
	reader *bufio.Reader
}

func (p endpoint) connect(ctx context.Context) (*connection, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(p.address, "http://"))
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return &connection{Conn: conn, reader: bufio.NewReader(conn)}, nil
}

// request is one HTTP request with a question, for a number of tokens, in the bytes that are sent.
func (p endpoint) request(c conversation, question string, tokens int) []byte {
	question = fmt.Sprintf("%s Say tokens=%d", question, tokens)
	if p.ours {
		return newClient(c).post(question)
	}
	return post("/v1/responses", c.token, fmt.Sprintf(`{"model":"bench","stream":true,"input":"%s"}`, question), p.headers)
}

// post adds headers, each with its line end.
func post(path, token, body, headers string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s",
		path, token, headers, len(body), body)
}

// token is a received token: when it was sent, in microseconds since 1970, and how long it took.
type token struct {
	sent int64
	lag  time.Duration
}

// stream is what a client measured of one reply.
type stream struct {
	first  time.Duration // from the request to the first token
	tokens []token
}

// talk sends a request and reads the reply to its terminal event. A reply without one is an error.
func (c *connection) talk(request []byte, tokens int) (stream, error) {
	found := stream{tokens: make([]token, 0, tokens)}
	began := time.Now()
	body, err := c.send(request)
	if err != nil {
		return found, err
	}
	defer func() { _ = body.Close() }()
	if err := found.read(body, began); err != nil {
		return found, err
	}
	if len(found.tokens) != tokens {
		return found, fmt.Errorf("%d of %d tokens came", len(found.tokens), tokens)
	}
	return found, nil
}

// refused is an answer other than 200.
type refused struct {
	status int
	header http.Header
	text   string
}

func (r *refused) Error() string { return fmt.Sprintf("HTTP %d: %s", r.status, r.text) }

// send sends a request and returns the body of the answer, which the caller closes.
func (c *connection) send(request []byte) (io.ReadCloser, error) {
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer func() { _ = response.Body.Close() }()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 500))
		return nil, &refused{status: response.StatusCode, header: response.Header, text: string(text)}
	}
	return response.Body, nil
}

var (
	deltaKey  = []byte(`"delta":"`)
	completed = [][]byte{[]byte("event: completion\n"), []byte("event: response.completed\n")}
)

func (s *stream) read(body io.Reader, began time.Time) error {
	const longestLine = 8 << 10
	lines := bufio.NewReaderSize(body, longestLine)
	ended := false
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && ended {
			return nil
		}
		if err != nil {
			return fmt.Errorf("no terminal event: %w", err)
		}
		ended = ended || bytes.Equal(line, completed[0]) || bytes.Equal(line, completed[1])
		if _, text, found := bytes.Cut(line, deltaKey); found {
			if err := s.take(text, began); err != nil {
				return err
			}
		}
	}
}

// take reads the stamps of one delta; a reader that is behind gets several at once.
func (s *stream) take(text []byte, began time.Time) error {
	now := time.Now()
	if len(s.tokens) == 0 {
		s.first = now.Sub(began)
	}
	text, _, _ = bytes.Cut(text, []byte(`"`))
	for stamp := range bytes.SplitSeq(bytes.TrimSuffix(text, []byte(" ")), []byte(" ")) {
		sent, err := strconv.ParseInt(string(stamp), stampBase, 64)
		if err != nil {
			return fmt.Errorf("a token that is no time: %w", err)
		}
		s.tokens = append(s.tokens, token{sent: sent, lag: now.Sub(time.UnixMicro(sent))})
	}
	return nil
}
