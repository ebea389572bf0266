package streaming

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWaitOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		play func(*Relay)
		want string // the name of the terminal event, "" for none
	}{
		{"accepted, silent so far", func(r *Relay) { r.Open() }, ""},
		{"speaking", func(r *Relay) { r.Append("a") }, ""},
		{"refused", func(r *Relay) { r.End(broken("upstream_failed")) }, EventFailed},
		{"accepted, then broken before a word", func(r *Relay) { r.Open(); r.End(broken("upstream_failed")) }, ""},
		{"broken after a word", func(r *Relay) { r.Append("a"); r.End(broken("upstream_failed")) }, ""},
		{"complete without a word", func(r *Relay) { r.Open(); r.End(done("stop")) }, ""},
		{"complete", func(r *Relay) { r.Open(); r.Append("a"); r.End(done("stop")) }, ""},
		{"cancelled before a word", func(r *Relay) { r.End(Terminal{Cancelled: &Cancelled{}}) }, EventCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var relay Relay
				early := relay.Read(0)
				defer early.Close()
				answer := make(chan *Terminal, 1)
				go func() {
					end, err := early.WaitOpen(t.Context())
					assert.NoError(t, err, "early")
					answer <- end
				}()
				synctest.Wait()
				require.Equal(t, 0, len(answer), "open before anything happened")
				c.play(&relay)
				late := relay.Read(0)
				defer late.Close()
				if end, err := late.WaitOpen(t.Context()); err != nil || nameOf(end) != c.want {
					t.Errorf("late: %q, %v; want %q", nameOf(end), err, c.want)
				}
				end := <-answer
				assert.Equal(t, c.want, nameOf(end), "early")
			})
		})
	}
}

func nameOf(end *Terminal) string {
	if end == nil {
		return ""
	}
	return end.Name()
}

func TestWaitOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	var relay Relay
	reader := relay.Read(0)
	defer reader.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	end, err := reader.WaitOpen(ctx)
	assert.Truef(t, end == nil && errors.Is(err, context.Canceled), "%v, %v", end, err)
}

// Waiting takes no text away.
func TestWaitOpenLeavesTheTextToNext(t *testing.T) {
	t.Parallel()
	var relay Relay
	reader := relay.Read(0)
	defer reader.Close()
	relay.Append("first")
	_, err := reader.WaitOpen(t.Context())
	require.NoError(t, err)
	chunk := next(t, reader)
	assert.Equalf(t, "first", string(chunk.Text), "got %q", chunk.Text)
}
