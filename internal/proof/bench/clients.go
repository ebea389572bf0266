package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/streaming"
)

// client sends one message and keeps what it receives of the reply, over as many connections as it takes.
type client struct {
	conversation
	clientID uuid.UUID // client_message_id
	kit.Reply
	deltas int       // since the latest connection
	first  time.Time // when the first of them came
}

func newClient(c conversation) *client { return &client{conversation: c, clientID: kit.NewID()} }

// clients makes a number of them, each with a chat of its own.
func (e *environment) clients(count int) []*client {
	all := make([]*client, count)
	for i, c := range e.unused(count) {
		all[i] = newClient(c)
	}
	return all
}

// post is the request that sends the message.
func (c *client) post(content string) []byte {
	return post("/v1/message", c.token, fmt.Sprintf(`{"chat_id":"%s","client_message_id":"%s","content":"%s"}`, c.id, c.clientID, content), "")
}

// ask is the request that sends a question, for a number of tokens.
func (c *client) ask(question string, tokens int) []byte {
	return c.post(fmt.Sprintf("%s Say tokens=%d", question, tokens))
}

// resume is the request that reads on where the client is, or the running reply when it has nothing yet.
func (c *client) resume() []byte {
	cursor := ""
	if c.LastEventID != "" {
		cursor = "Last-Event-ID: " + c.LastEventID + "\r\n"
	}
	return fmt.Appendf(nil, "GET /v1/message/%s/stream HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n%s\r\n", c.id, c.token, cursor)
}

// receive sends a request on a new connection, reads as read does, and disconnects. It returns the time from
// before the connection was made to the first delta; 0 when none came.
func (c *client) receive(ctx context.Context, p endpoint, request []byte, enough func() bool) (time.Duration, error) {
	began := time.Now()
	conn, err := p.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }() // perhaps in the middle of what it sends
	body, err := conn.send(request)
	if err != nil {
		return 0, err
	}
	err = c.read(body, enough)
	if c.deltas == 0 {
		return 0, err
	}
	return c.first.Sub(began), err
}

var knownEvents = []string{streaming.EventStarted, streaming.EventDelta, streaming.EventCompleted, streaming.EventFailed, streaming.EventCancelled}

// read reads events until the reply has ended or enough reports true; nil never does. A connection that breaks off
// is an error.
func (c *client) read(body io.Reader, enough func() bool) error {
	c.deltas = 0
	for e, err := range kit.Events(body) {
		if err != nil {
			return err
		}
		if !slices.Contains(knownEvents, e.Name) {
			return fmt.Errorf("an event %q", e.Name)
		}
		if _, err := c.Take(e); err != nil {
			return err
		}
		if e.Name == streaming.EventDelta {
			if c.deltas == 0 {
				c.first = time.Now()
			}
			c.deltas++
		}
		if c.End != "" || enough != nil && enough() {
			break
		}
	}
	return nil
}

// stored checks a reply that has ended: it is one row, with the text that the client received and its end, and the tokens
// are in the order in which the model sent them, without a gap or a repetition; all of them when it is complete.
func (e *environment) stored(ctx context.Context, c *client, tokens int) (complete bool, err error) {
	const replies = `select max(r.status), max(r.content), count(*)
		from public.messages u join public.messages r on r.chat_id = u.chat_id and r.reply_to = u.id and r.role = 'assistant'
		where u.user_id = $1 and u.client_message_id = $2 and u.chat_id = $3 having count(*) > 0`
	var status, content string
	var rows int
	if err := e.admin.QueryRow(ctx, replies, c.user, c.clientID, c.id).Scan(&status, &content, &rows); err != nil {
		return false, fmt.Errorf("the reply to a message: %w", err)
	}
	sent := strings.Fields(content)
	complete = status == "complete"
	switch {
	case rows != 1:
		return false, fmt.Errorf("%d replies to one message", rows)
	case status != map[string]string{streaming.EventCompleted: "complete", streaming.EventFailed: "interrupted"}[c.End]:
		return false, fmt.Errorf("a reply ended with %q %s and is stored as %s", c.End, c.Code, status)
	case content != string(c.Text) || c.Repeated > 0:
		return false, fmt.Errorf("of a reply that is %s the client received %d bytes, %d characters twice, and %d bytes are stored",
			status, len(c.Text), c.Repeated, len(content))
	case complete && len(sent) != tokens || !slices.IsSorted(sent):
		return false, fmt.Errorf("a reply that is %s has %d of %d tokens, or not in their order", status, len(sent), tokens)
	}
	return complete, nil
}
