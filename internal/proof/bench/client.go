package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
	"github.com/arcoscribe/throughline/streaming"
)

// A fresh client makes a connection for each request; a warm one uses one again.
var (
	fresh = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	warm  = &http.Client{Transport: &http.Transport{DisableCompression: true}}
)

// request is what a client sends to an endpoint.
type request struct{ method, path, token, body, cursor string }

// asks is the request that sends a message, in the protocol of the endpoint.
func (p endpoint) asks(c chat, text string) request {
	path, body := "/v1/message", map[string]any{"chat_id": c.id, "client_message_id": newID(), "content": text}
	if !p.ours {
		path, body = "/v1/responses", map[string]any{"model": "bench", "stream": true, "input": text}
	}
	return request{http.MethodPost, path, c.token, people.Encode(body), ""}
}

// readsOn is the request that reads on at a cursor, or the running reply at "".
func (c chat) readsOn(cursor string) request {
	return request{http.MethodGet, "/v1/message/" + c.id.String() + "/stream", c.token, "", cursor}
}

// wishing adds to a question how many tokens the reply is to have.
func wishing(question string, tokens int) string {
	return question + " " + fmt.Sprintf(wish, tokens)
}

// reply is what a client has received of one, over as many connections as it took. Read does not use kit's reader: without
// allocations per event, because it shares the machine with what it measures.
type reply struct {
	first  time.Duration // on the latest connection: from before the request to the first delta; 0 before it
	deltas []delta
	text   []byte
	cursor []byte
	end    string // the terminal event's name, "" before it
}

// delta is when the text up to a byte came.
type delta struct {
	at time.Time
	to int
}

// toTheEnd is a number of deltas that no connection brings.
const toTheEnd = -1

// receive reads until the reply has ended, or breaks off with so many deltas. One that breaks off by itself is an error.
func (r *reply) receive(ctx context.Context, p endpoint, by *http.Client, asked request, most int) error {
	r.first = 0
	began := time.Now()
	client := kit.Client{HTTP: by, Token: asked.token}
	response, err := client.Do(ctx, asked.method, p.address+asked.path, []byte(asked.body), asked.cursor)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return &people.RefusedError{Status: response.StatusCode, Code: fault.Code(kit.CodeOf(response.Body))}
	}
	return r.read(response.Body, began, most)
}

// whole sends a request and reads a complete reply of so many tokens.
func (p endpoint) whole(ctx context.Context, by *http.Client, asked request, tokens int) (reply, error) {
	r := reply{deltas: make([]delta, 0, tokens)}
	err := r.receive(ctx, p, by, asked, toTheEnd)
	if came := bytes.Count(r.text, []byte(" ")); err == nil && (r.end == streaming.EventFailed || came != tokens) {
		err = fmt.Errorf("%d of %d tokens came before %s", came, tokens, r.end)
	}
	return r, err
}

var (
	deltaKey = []byte(`"delta":"`)
	// ends are the terminal events, of our protocol and the model's.
	ends = map[string]string{
		streaming.EventCompleted: streaming.EventCompleted, streaming.EventFailed: streaming.EventFailed, "response.completed": streaming.EventCompleted,
	}
)

func (r *reply) read(body io.Reader, began time.Time, most int) error {
	const longestLine = 8 << 10
	lines := bufio.NewReaderSize(body, longestLine)
	for deltas := 0; ; {
		line, err := lines.ReadSlice('\n')
		ended := errors.Is(err, io.EOF) && r.end != ""
		if err != nil && !ended {
			return fmt.Errorf("no terminal event: %w", err)
		}
		key, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(": "))
		switch string(key) {
		case "id":
			r.cursor = append(r.cursor[:0], value...)
		case "event":
			r.end = ends[string(value)]
		case "data":
			if _, text, found := bytes.Cut(value, deltaKey); found {
				deltas++
				r.take(text, began)
			}
		case "": // the end of an event
			if ended || deltas == most && r.cursor != nil {
				return nil
			}
		}
	}
}

func (r *reply) take(text []byte, began time.Time) {
	now := time.Now()
	if r.first == 0 {
		r.first = now.Sub(began)
	}
	text, _, _ = bytes.Cut(text, []byte(`"`))
	r.text = append(r.text, text...)
	r.deltas = append(r.deltas, delta{now, len(r.text)})
}

// lagsBetween returns how long the tokens took that were sent between two moments: each is the time at which it was sent.
func lagsBetween(replies []reply, from, to time.Time) (lags kit.Times, err error) {
	for _, r := range replies {
		begin := 0
		for _, d := range r.deltas {
			for stamp := range strings.FieldsSeq(string(r.text[begin:d.to])) { // a reader that is behind gets several at once
				micros, err := strconv.ParseInt(stamp, stampBase, 64)
				if err != nil {
					return nil, fmt.Errorf("a token that is no time: %w", err)
				}
				if sent := time.UnixMicro(micros); !sent.Before(from) && sent.Before(to) {
					lags = append(lags, d.at.Sub(sent))
				}
			}
			begin = d.to
		}
	}
	return lags, nil
}

// stored checks the reply to the latest message of a chat: it is one row, with the text that its client received and its end,
// and the tokens are in the order in which the model sent them; all of them when it is complete.
func (b *bench) stored(ctx context.Context, c chat, r reply, tokens int) (complete bool) {
	defer kit.In("the reply to a message")
	var status, content string
	var rows int
	kit.Check(b.admin.QueryRow(ctx, `select status, content, count(*) over () from public.messages
		where chat_id = $1 and role = 'assistant' and reply_to =
		(select id from public.messages where chat_id = $1 and role = 'user' order by seq desc limit 1)`, c.id).Scan(&status, &content, &rows))
	sent := strings.Fields(content)
	complete = status == "complete"
	switch {
	case rows != 1:
		kit.Fail("%d replies to one message", rows)
	case status != map[string]string{streaming.EventCompleted: "complete", streaming.EventFailed: "interrupted"}[r.end]:
		kit.Fail("it ended with %q and is stored as %s", r.end, status)
	case content != string(r.text):
		kit.Fail("%s: the client received %d bytes, and %d are stored", status, len(r.text), len(content))
	case complete && len(sent) != tokens || !slices.IsSorted(sent):
		kit.Fail("%s: it has %d of %d tokens, or not in their order", status, len(sent), tokens)
	}
	return complete
}
