package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/streaming"
)

// caller sends a user's requests to one of the replicas.
type caller struct {
	kit.Client
	replicas []string // base URLs
	gauges   *gauges
}

// newHTTP returns the client that all callers share, with a connection for each of them at most times.
func newHTTP() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 4096, 4096
	transport.DisableCompression = true
	return &http.Client{Transport: transport}
}

// request is one for a replica.
type request struct {
	replica      int
	method, path string
	body         []byte // nil for none
	lastEventID  string
}

// refused is an answer other than 200 and 204.
type refused struct {
	status int
	code   string
}

func (r *refused) Error() string { return fmt.Sprintf("HTTP %d %s", r.status, r.code) }

func (c *caller) do(ctx context.Context, r request) (*http.Response, error) {
	return c.Do(ctx, r.method, c.replicas[r.replica]+r.path, r.body, r.lastEventID)
}

// send sends a request; the caller closes the answer's body. An answer other than 200 and 204 is a refused, and counted.
func (c *caller) send(ctx context.Context, r request) (*http.Response, error) {
	response, err := c.do(ctx, r)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			c.gauges.fail("no answer")
		}
		return nil, err
	}
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNoContent {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	refusal := &refused{response.StatusCode, kit.CodeOf(response.Body)}
	c.gauges.fail(refusal.Error())
	return nil, refusal
}

// call sends a request and discards its answer.
func (c *caller) call(ctx context.Context, r request) error {
	response, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// stream sends a request and reads its stream until the reply has ended or enough reports true.
func (c *caller) stream(ctx context.Context, r request, into *reply, enough func() bool) error {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp() // also where the stream goes on: that is a client that disconnects
	began := time.Now()
	c.gauges.opened(1)
	defer c.gauges.opened(-1)
	response, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNoContent {
		return fmt.Errorf("nothing to read: %w", errCut)
	}
	firstText, err := into.read(response.Body, enough)
	if r.lastEventID != "" && !firstText.IsZero() {
		c.gauges.took(resumeGap, firstText.Sub(began))
	}
	if err == nil && into.End != "" {
		_, err = io.Copy(io.Discard, response.Body) // so that the connection can be used again
	}
	return err
}

// reply is what a client has received of one reply, and when.
type reply struct {
	kit.Reply
	gauges *gauges
	asked  time.Time // when the message was first sent
	// elsewhere: it is read from another replica than the one that generates it.
	elsewhere bool
	joins     bool // another replica was asked for it before, and may generate it

	words  int // whole ones, the stamp among them
	stamp  stamp
	memory receipt
}

// receipt is what a reply was given to remember, in tokens and turns.
type receipt struct {
	Brief   int `json:"brief_tokens"`
	Bridge  int `json:"bridge_tokens"`
	Tail    int `json:"tail_tokens"`
	Dropped int `json:"dropped_turns"`
}

// errCut is a stream that ended without its terminal event.
var errCut = errors.New("the stream was cut")

// read reads events until the reply has ended or enough reports true. It returns when the first text of this
// connection came, zero when none did.
func (r *reply) read(body io.Reader, enough func() bool) (firstText time.Time, err error) {
	for e, err := range kit.Events(body) {
		if err != nil {
			return firstText, errors.Join(errCut, err)
		}
		if err := r.take(e, firstText.IsZero()); err != nil {
			return firstText, err
		}
		if e.Name == streaming.EventDelta && firstText.IsZero() {
			firstText = time.Now()
		}
		if r.End != "" || enough() {
			break
		}
	}
	return firstText, nil
}

// take applies one event. opening: no text has come on this connection yet, so what comes may be late by the time
// in which the client was away.
func (r *reply) take(e kit.Event, opening bool) error {
	now, before := time.Now(), r.Chars
	delta, err := r.Take(e)
	if err != nil {
		return err
	}
	switch e.Name {
	case streaming.EventStarted:
		r.elsewhere = r.elsewhere || r.joins && r.Started.Resumed
	case streaming.EventDelta:
		return r.measure(now, delta, before == 0, opening)
	case streaming.EventCompleted:
		if r.Completed.ContentLength != r.Chars {
			return fmt.Errorf("%d characters came of a reply of %d", r.Chars, r.Completed.ContentLength)
		}
		return json.Unmarshal(r.Completed.Memory, &r.memory)
	}
	return nil
}

// measure counts a delta's words and how late they are. The reply's first word is the stamp.
func (r *reply) measure(now time.Time, delta string, first, opening bool) error {
	if r.Repeated > 0 {
		return fmt.Errorf("%d characters came twice", r.Repeated)
	}
	words := strings.Count(delta, " ")
	r.words += words
	r.gauges.add(wordCount, words)
	if first {
		return r.measureFirst(now, opening)
	}
	if opening {
		return nil
	}
	lag := wordLag
	if r.elsewhere {
		lag = lagElsewhere
	}
	for n := r.words - words; n < r.words; n++ {
		r.gauges.took(lag, now.Sub(r.stamp.due(n)))
	}
	return nil
}

func (r *reply) measureFirst(now time.Time, opening bool) error {
	word, _, _ := strings.Cut(string(r.Text), " ")
	var err error
	if r.stamp, err = readStamp(word); err != nil {
		return err
	}
	if opening && !r.Started.Resumed {
		r.gauges.took(firstWord, now.Sub(r.asked)-replyLatency-r.stamp.pace)
	}
	return nil
}

// never is for clients that read to the end.
func never() bool { return false }
