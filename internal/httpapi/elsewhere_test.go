package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/metrics"
)

// elsewhere starts another server on the same store, and gives what stops its chat at once.
func (h *harness) elsewhere() (other *harness, stop func()) {
	service := chat.New(chat.Config{
		Store: h.store, Model: says("x"), Logger: h.server.config.Logger, Metrics: metrics.New(),
		Variants: []chat.Variant{{Name: "arco", Model: "test-1"}}, Limits: memory.DefaultLimits(), ReplyTimeout: time.Minute,
	})
	now, cancel := context.WithCancel(context.Background())
	cancel()
	stop = func() { service.Close(now) }
	other = newHarness(h.t, says("x"), func(c *Config) { c.Chat = service })
	h.t.Cleanup(stop)
	other.user = h.user
	return other, stop
}

// A server that stops lets go of those who read a reply of another server, which goes on: none of them
// may take what they have for all of it.
func TestServerThatStopsLetsGoOfRepliesFromElsewhere(t *testing.T) {
	t.Parallel()
	model := newConductor()
	h := newHarness(t, model)
	model.accept()
	body := marshal(map[string]any{"content": "a", "client_message_id": someID})
	running := h.open(h.request(http.MethodPost, firstPath, body))
	path := "/v1/message/" + running.event().data["chat_id"].(string) + "/stream"
	other, stop := h.elsewhere()

	ours := other.open(other.request(http.MethodGet, path, ""))
	ours.event()
	ui := other.open(other.request(http.MethodGet, path+"?protocol=ui", ""))
	ui.until(`"type":"start"`)
	whole := make(chan answered, 1)
	go func() { whole <- other.call(http.MethodPost, firstPath, body, "Accept", "application/json") }()
	other.waitFor("three readers", func() bool { return other.places() == 3 })
	stop()

	if rest, err := io.ReadAll(ours.reader); !errors.Is(err, io.ErrUnexpectedEOF) || len(rest) > 0 {
		t.Errorf("our own stream ended with %q, %v", rest, err)
	}
	if rest, err := io.ReadAll(ui.reader); !errors.Is(err, io.ErrUnexpectedEOF) || len(rest) > 0 {
		t.Errorf("the UI message stream ended with %q, %v", rest, err)
	}
	if answer := <-whole; answer.status != 503 || errorCode(answer.body) != "shutting_down" || answer.header.Get("Retry-After") == "" {
		t.Errorf("one object: %d %s", answer.status, answer.body)
	}
	if late := other.call(http.MethodGet, path, ""); late.status != 503 || errorCode(late.body) != "shutting_down" {
		t.Errorf("a late reader: %d %s", late.status, late.body)
	}
	model.finish()
	running.rest()
}
