package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/streaming"
)

// replicas are server processes on one database, with one model behind them.
type replicas struct {
	model   *process
	servers []endpoint
}

// startReplicas starts servers with the same settings.
func (e *environment) startReplicas(ctx context.Context, count int, settings ...string) (*replicas, error) {
	r := &replicas{}
	var err error
	if r.model, err = startRole(ctx, roleModel); err != nil {
		return nil, err
	}
	args := []string{roleServer, "-model", r.model.Address, "-database", e.at.server}
	for _, setting := range settings {
		args = append(args, "-set", setting)
	}
	for n := range count {
		server, err := startRole(ctx, args...)
		if err != nil {
			return nil, errors.Join(err, r.stop())
		}
		r.servers = append(r.servers, endpoint{name: fmt.Sprintf("replica %d", n+1), process: server, ours: true})
	}
	return r, nil
}

func (r *replicas) stop() error {
	var errs []error
	for _, server := range r.servers {
		errs = append(errs, server.process.Stop())
	}
	return errors.Join(errors.Join(errs...), r.model.Stop())
}

// sentMessage is one message that a client sends. By its id the model finds what it said, and Postgres the reply.
type sentMessage struct {
	conversation
	clientID uuid.UUID // client_message_id
}

func newMessage(c conversation) sentMessage { return sentMessage{c, kit.NewID()} }

// post is the request that sends the message.
func (m sentMessage) post(content string) []byte {
	return post("/v1/message", m.token, fmt.Sprintf(`{"chat_id":"%s","client_message_id":"%s","content":"%s"}`, m.id, m.clientID, content))
}

// named asks for a reply whose first token has at least first bytes, and which the model stores.
func (m sentMessage) named(tokens, first int) []byte {
	return m.post(fmt.Sprintf("Say %s%s %s%d %s%d", nameMarker, m.clientID, firstMarker, first, marker, tokens))
}

// resume is the request that reads on after an event, or the running reply when there is none.
func (m sentMessage) resume(lastEventID string) []byte {
	cursor := ""
	if lastEventID != "" {
		cursor = "Last-Event-ID: " + lastEventID + "\r\n"
	}
	return fmt.Appendf(nil, "GET /v1/message/%s/stream HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n%s\r\n", m.id, m.token, cursor)
}

// client sends a message and stores what it receives of the reply.
type client struct {
	sentMessage
	reply
}

// clients makes a number of them, each with a chat of its own.
func (e *environment) clients(count int) []*client {
	all := make([]*client, count)
	for i := range all {
		all[i] = &client{sentMessage: newMessage(e.next())}
	}
	return all
}

// start sends the client's request and reads until enough reports true. The caller closes the connection, also
// after an error.
func (c *client) start(ctx context.Context, p endpoint, request []byte, enough func() bool) (*connection, error) {
	conn, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	body, err := conn.send(request)
	if err != nil {
		return conn, err
	}
	return conn, c.read(body, enough)
}

// evenly runs work for each client on a goroutine of its own, started evenly over the ramp, and returns the first
// failure, which ends the context of the others.
func evenly(ctx context.Context, clients []*client, ramp time.Duration, work func(ctx context.Context, i int, c *client) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	failures := make([]error, len(clients))
	var wait sync.WaitGroup
	for i, c := range clients {
		wait.Go(func() {
			err := kit.SleepUntil(ctx, began.Add(ramp*time.Duration(i)/time.Duration(len(clients))))
			if err == nil {
				err = work(ctx, i, c)
			}
			if failures[i] = err; err != nil {
				cancel()
			}
		})
	}
	wait.Wait()
	return firstOf(failures)
}

// reply is what a client has received of one reply, over as many connections as it took.
type reply struct {
	kit.Reply
	began  bool      // message.started has come
	deltas int       // since the latest connection
	first  time.Time // when the first of them came
}

var knownEvents = []string{streaming.EventStarted, streaming.EventDelta, streaming.EventCompleted, streaming.EventFailed, streaming.EventCancelled}

// read reads events until the reply has ended or enough reports true. A connection that breaks off is an error.
func (r *reply) read(body io.Reader, enough func() bool) error {
	r.deltas, r.first = 0, time.Time{}
	for e, err := range kit.Events(body) {
		if err != nil {
			return err
		}
		if !slices.Contains(knownEvents, e.Name) {
			return fmt.Errorf("an event %q", e.Name)
		}
		if _, err := r.Take(e); err != nil {
			return err
		}
		r.began = r.began || e.Name == streaming.EventStarted
		if e.Name == streaming.EventDelta {
			if r.deltas == 0 {
				r.first = time.Now()
			}
			r.deltas++
		}
		if r.End != "" || enough() {
			break
		}
	}
	return nil
}

// never is for clients that read to the end.
func never() bool { return false }

// finish reads on to the end on a new connection. It returns the time from before the connection was made to the
// first missing characters; 0 when none were missing.
func (r *reply) finish(ctx context.Context, p endpoint, m sentMessage) (time.Duration, error) {
	began := time.Now()
	c, err := p.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	body, err := c.send(m.resume(r.LastEventID))
	if err != nil {
		return 0, err
	}
	err = r.read(body, never)
	if r.first.IsZero() {
		return 0, err
	}
	return r.first.Sub(began), err
}

// messageOf returns the message that an event id names.
func messageOf(eventID string) string {
	message, _, _ := strings.Cut(eventID, ":")
	return message
}

// storedReply is a reply in Postgres.
type storedReply struct {
	status, content string
}

// stored reads the one reply to a message.
func (e *environment) stored(ctx context.Context, m sentMessage) (storedReply, error) {
	const replies = `select r.status, r.content
		from public.messages u join public.messages r on r.chat_id = u.chat_id and r.reply_to = u.id and r.role = 'assistant'
		where u.user_id = $1 and u.client_message_id = $2 and u.chat_id = $3`
	rows, err := e.admin.Query(ctx, replies, m.principal.UserID, m.clientID, m.id)
	if err != nil {
		return storedReply{}, err
	}
	found, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (k storedReply, err error) {
		return k, row.Scan(&k.status, &k.content)
	})
	if err != nil {
		return found, fmt.Errorf("the reply to a message: %w", err)
	}
	return found, nil
}

// sentByModel returns what the model sent as the reply.
func sentByModel(ctx context.Context, model *process, m sentMessage) ([]byte, error) {
	spoken, err := kit.Get(ctx, http.DefaultClient, model.Address+replyPath+m.clientID.String())
	if err != nil {
		return nil, fmt.Errorf("what the model said: %w", err)
	}
	return spoken, nil
}

// checkWhole checks that a completed reply is the same for the model, the client and Postgres.
func (e *environment) checkWhole(ctx context.Context, model *process, m sentMessage, r *reply) error {
	spoken, err := sentByModel(ctx, model, m)
	if err != nil {
		return err
	}
	row, err := e.stored(ctx, m)
	switch {
	case err != nil:
		return err
	case r.End != "completion" || row.status != "complete":
		return fmt.Errorf("a reply ended with %q, %s, and is stored as %s", r.End, r.Code, row.status)
	case !bytes.Equal(spoken, r.Text):
		return fmt.Errorf("the model said %d bytes, the client put %d together, and %d characters came twice", len(spoken), len(r.Text), r.Repeated)
	case row.content != string(spoken):
		return fmt.Errorf("of %d bytes %d are stored", len(spoken), len(row.content))
	}
	return nil
}
