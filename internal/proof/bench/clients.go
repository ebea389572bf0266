package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/streaming"
)

// client sends one message and stores what it receives of the reply, over as many connections as it takes. By the
// message's id the model finds what it said, and Postgres the reply.
type client struct {
	conversation
	clientID uuid.UUID // client_message_id
	kit.Reply
	began  bool      // message.started has come
	deltas int       // since the latest connection
	first  time.Time // when the first of them came
}

func newClient(c conversation) *client { return &client{conversation: c, clientID: kit.NewID()} }

// clients makes a number of them, each with a chat of its own.
func (e *environment) clients(count int) []*client {
	all := make([]*client, count)
	for i := range all {
		all[i] = newClient(e.next())
	}
	return all
}

// post is the request that sends the message.
func (c *client) post(content string) []byte {
	return post("/v1/message", c.token, fmt.Sprintf(`{"chat_id":"%s","client_message_id":"%s","content":"%s"}`, c.id, c.clientID, content), "")
}

// named asks for a reply whose first token has at least first bytes, and which the model stores.
func (c *client) named(tokens, first int) []byte {
	return c.post(fmt.Sprintf("Say name=%s first=%d tokens=%d", c.clientID, first, tokens))
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
		switch e.Name {
		case streaming.EventStarted:
			c.began = true
		case streaming.EventDelta:
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

// evenly runs work a number of times at once, started evenly over the ramp. The first failure ends the others.
func evenly(ctx context.Context, count int, ramp time.Duration, work func(ctx context.Context, i int) error) error {
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range count {
		group.Go(func() error {
			if err := kit.SleepUntil(ctx, began.Add(ramp*time.Duration(i)/time.Duration(count))); err != nil {
				return err
			}
			return work(ctx, i)
		})
	}
	return group.Wait()
}

// messageOf returns the message that an event id names.
func messageOf(eventID string) string {
	message, _, _ := strings.Cut(eventID, ":")
	return message
}

// sentByModel returns what the model sent as the reply.
func (c *client) sentByModel(ctx context.Context, model endpoint) ([]byte, error) {
	spoken, err := kit.Get(ctx, http.DefaultClient, model.Address+replyPath+c.clientID.String())
	if err != nil {
		return nil, fmt.Errorf("what the model said: %w", err)
	}
	return spoken, nil
}

// stored checks a reply that has ended: it is one row, with all that the client received and its end, and the
// beginning of what the model sent, or all of it when it is complete. It returns the status.
func (e *environment) stored(ctx context.Context, model endpoint, c *client) (status string, err error) {
	const replies = `select max(r.status), max(r.content), count(*)
		from public.messages u join public.messages r on r.chat_id = u.chat_id and r.reply_to = u.id and r.role = 'assistant'
		where u.user_id = $1 and u.client_message_id = $2 and u.chat_id = $3 having count(*) > 0`
	var content string
	var rows int
	if err := e.admin.QueryRow(ctx, replies, c.principal.UserID, c.clientID, c.id).Scan(&status, &content, &rows); err != nil {
		return "", fmt.Errorf("the reply to a message: %w", err)
	}
	spoken, err := c.sentByModel(ctx, model)
	if err != nil {
		return "", err
	}
	switch {
	case rows != 1:
		return "", fmt.Errorf("%d replies to one message", rows)
	case status != map[string]string{streaming.EventCompleted: "complete", streaming.EventFailed: "interrupted"}[c.End]:
		return "", fmt.Errorf("a reply ended with %q %s and is stored as %s", c.End, c.Code, status)
	case content != string(c.Text) || !bytes.HasPrefix(spoken, c.Text) || status == "complete" && len(spoken) != len(c.Text):
		return "", fmt.Errorf("of a reply that is %s the model said %d bytes, the client received %d, %d characters of them twice, and %d are stored",
			status, len(spoken), len(c.Text), c.Repeated, len(content))
	}
	return status, nil
}

// checkWhole checks that a reply is complete, and the same for the model, the client and Postgres.
func (e *environment) checkWhole(ctx context.Context, model endpoint, c *client) error {
	status, err := e.stored(ctx, model, c)
	if err == nil && status != "complete" {
		err = fmt.Errorf("a reply is stored as %s", status)
	}
	return err
}
