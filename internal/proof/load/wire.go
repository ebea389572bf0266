package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// caller sends a user's requests to one of the replicas.
type caller struct {
	http     *http.Client
	replicas []string // base URLs
	token    string
	gauges   *gauges
}

// newHTTP makes the client that all callers share, with a connection for each of them at most times.
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

// refused is an answer that is not what was asked for.
type refused struct {
	status int
	code   string
}

func (r *refused) Error() string { return fmt.Sprintf("HTTP %d %s", r.status, r.code) }

// send sends a request; the caller closes the answer's body. Whatever is neither 200 nor 204 is an error, and counted.
func (c *caller) send(ctx context.Context, r request) (*http.Response, error) {
	made, err := c.made(ctx, r)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(made) //nolint:gosec // from loopback to loopback
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
	refusal := &refused{status: response.StatusCode}
	var said struct{ Code string }
	if json.NewDecoder(io.LimitReader(response.Body, 1<<16)).Decode(&said) == nil {
		refusal.code = said.Code
	}
	c.gauges.fail(refusal.Error())
	return nil, refusal
}

func (c *caller) made(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader = http.NoBody
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	made, err := http.NewRequestWithContext(ctx, r.method, c.replicas[r.replica]+r.path, body) //nolint:gosec // as above
	if err != nil {
		return nil, err
	}
	made.Header.Set("Authorization", "Bearer "+c.token)
	made.Header.Set("Content-Type", "application/json")
	if r.lastEventID != "" {
		made.Header.Set("Last-Event-ID", r.lastEventID)
	}
	return made, nil
}

// call sends a request and throws its answer away.
func (c *caller) call(ctx context.Context, r request) error {
	response, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// stream sends a request and hears its stream until enough says so or the reply has ended.
func (c *caller) stream(ctx context.Context, r request, h *heard, enough func() bool) error {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp() // also where the stream goes on: that is how a client is gone
	began := time.Now()
	c.gauges.open.Add(1)
	defer c.gauges.open.Add(-1)
	response, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusNoContent {
		return fmt.Errorf("nothing to hear: %w", errCut)
	}
	resumed := r.lastEventID != ""
	firstText, err := h.listen(ctx, response.Body, enough)
	if resumed && !firstText.IsZero() {
		c.gauges.gap.add(firstText.Sub(began))
	}
	if err == nil && h.end != "" {
		_, err = io.Copy(io.Discard, response.Body) // so that the connection can be used again
	}
	return err
}
