package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// device is one of a user's, which talks to any server.
type device struct {
	play    *play
	client  testkit.Client
	servers []string // it begins with the first one
	chat    string
	message string // client_message_id

	has   heard
	open  []openCall // for which the reply waits
	last  string     // Last-Event-ID
	ended time.Time  // when the completion came
}

const (
	// silence is how long a device waits for an event before it asks elsewhere.
	silence = 2 * time.Second
	// pause is that before a device asks again.
	pause = 100 * time.Millisecond
)

// act sends the message and the answers, each again until it is taken, until the reply is complete.
func (d *device) act(ctx context.Context) error {
	for d.ended.IsZero() {
		path, body := "/v1/message", testkit.Body{
			"chat_id": d.chat, "content": fmt.Sprint("play ", d.play.number), "client_message_id": d.message, "tools": offered,
		}
		if len(d.open) > 0 {
			path, body = d.open[0].path(d.has.id), d.open[0].answer(false)
			if held := d.play.note("answer"); held != nil {
				<-held
			}
		}
		if err := d.listen(ctx, http.MethodPost, path, body); err != nil {
			return err
		}
	}
	return nil
}

// watch reads the reply, again and again, until it is done, and then what is missing.
func (d *device) watch(ctx context.Context, done <-chan struct{}) error {
	for over := false; d.ended.IsZero(); {
		select {
		case <-done:
			over = true
		default:
		}
		var headers []string
		if over && (d.has.id != d.play.device.has.id || d.last == "") { // one of which it has nothing, or that failed before
			d.last = d.play.device.has.id + ":0"
		}
		if d.last != "" {
			headers = []string{"Last-Event-ID", d.last}
		}
		if err := d.listen(ctx, http.MethodGet, testkit.ResumePath(d.chat, ""), nil, headers...); err != nil {
			return err
		}
	}
	return nil
}

// listen makes a request and reads its stream until it ends, or is silent. An error is one that no kill explains.
func (d *device) listen(ctx context.Context, method, path string, body testkit.Body, headers ...string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("not complete: it has %q and %d parts, the last event is %s: %w", d.has.text, len(d.has.parts), d.last, ctx.Err())
	}
	d.client.Base = d.servers[0]
	stream, err := d.client.TryOpen(method, path, body, headers...)
	if err != nil {
		return d.elsewhere(ctx)
	}
	defer stream.Close()
	switch stream.Response.StatusCode {
	case http.StatusOK:
		return d.read(ctx, stream)
	case http.StatusNoContent:
		return kit.Sleep(ctx, pause)
	}
	switch refusal := stream.Raw(); kit.CodeOf(strings.NewReader(refusal)) {
	case "generation_in_progress", "shutting_down", "not_ready", "upstream_failed", "interrupted":
		return d.elsewhere(ctx)
	default:
		return fmt.Errorf("%s %s: %s", method, path, refusal)
	}
}

// elsewhere turns to the other server.
func (d *device) elsewhere(ctx context.Context) error {
	d.servers = append(d.servers[1:len(d.servers):len(d.servers)], d.servers[0])
	return kit.Sleep(ctx, pause)
}

func (d *device) read(ctx context.Context, stream *testkit.Stream) error {
	timer := time.AfterFunc(d.patience(), stream.Close)
	defer timer.Stop()
	before := d.has
	for {
		e, err := stream.Next()
		if err != nil {
			return d.elsewhere(ctx)
		}
		timer.Reset(d.patience())
		if d.has, err = before.after(stream.Events); err != nil {
			return err
		}
		d.last = e.ID
		d.note(e)
		switch e.Name {
		case testkit.Completion:
			d.ended = time.Now()
			return nil
		case testkit.Awaiting:
			raw, _ := json.Marshal(e.Data["open"]) // which was read as JSON
			return json.Unmarshal(raw, &d.open)
		case testkit.Failed:
			d.open, d.last = nil, "" // the message again, or whatever runs next
			return kit.Sleep(ctx, pause)
		case testkit.Cancelled:
			return fmt.Errorf("cancelled: %v", e.Data)
		}
	}
}

// patience is that of the first device. The other one, and both before the kill, wait for whom they have asked.
func (d *device) patience() time.Duration {
	if d.message == "" || !d.play.killed.Load() {
		return time.Minute
	}
	return silence
}

// note tells the play what the first device sees.
func (d *device) note(e testkit.Event) {
	if d.message == "" {
		return
	}
	d.play.note("says " + d.has.text)
	if part, ok := e.Data["part"].(map[string]any); ok && part["type"] == "tool_result" {
		d.play.note(fmt.Sprint("result ", part["call_id"]))
	}
}
