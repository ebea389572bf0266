package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/streaming"
)

// A call that the user has to approve is asked about, and shown with its result; one that an app has to answer waits for that.
func TestChatAsksBeforeATool(t *testing.T) {
	t.Parallel()
	started := streaming.Started{ChatID: uuid.New(), MessageID: uuid.New()}
	yes, answered := true, make(chan string, 2)
	call := memory.Part{Type: memory.PartCall, CallID: "c1", Name: "send_postcard", Arguments: []byte(`{"to":"Anna"}`), Run: memory.RunServer, Approval: &yes}
	result := memory.Part{Type: memory.PartResult, CallID: "c1", Status: memory.ResultDone, Output: []byte(`{"sent":"now"}`)}
	waits := func(open streaming.OpenCall) streaming.Chunk {
		end := streaming.Awaiting{MessageID: started.MessageID, ChatID: started.ChatID, Open: []streaming.OpenCall{open}}
		return streaming.Chunk{Parts: 1, End: &streaming.Terminal{Awaiting: &end}}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		e := streaming.NewEncoder(w, started.MessageID)
		switch r.URL.Path {
		case "/v1/message/first":
			_ = e.Started(started)
			_ = e.Chunk(streaming.Chunk{Part: &call, Parts: 1})
			_ = e.Chunk(waits(streaming.OpenCall{CallID: "c1", Name: "send_postcard", Run: memory.RunServer, Approval: true}))
		case "/v1/messages/" + started.MessageID.String() + "/calls/c1":
			answered <- string(body)
			after := started
			after.Parts = 1
			_ = e.Started(after)
			_ = e.Chunk(streaming.Chunk{Part: &result, Index: 1, Parts: 2})
			_ = e.Chunk(streaming.Chunk{Parts: 2, Text: []byte("Sent.")})
			_ = e.Chunk(streaming.Chunk{Parts: 2, End: &streaming.Terminal{Completed: &streaming.Completed{FinishReason: "stop", ContentLength: 5, Parts: 2}}})
		case "/v1/message":
			started.MessageID = uuid.New()
			e = streaming.NewEncoder(w, started.MessageID)
			_ = e.Started(started)
			_ = e.Chunk(streaming.Chunk{Part: &call, Parts: 1})
			_ = e.Chunk(waits(streaming.OpenCall{CallID: "c2", Name: "take_photo", Run: memory.RunClient}))
		}
	}))
	t.Cleanup(server.Close)
	s := sit(t, program(t, env{"THROUGHLINE_TOKEN": "a token", "TERM": "xterm"}, "chat", "--url", server.URL))
	s.say("Write to Anna.")
	s.until(`[calls send_postcard {"to":"Anna"}]`)
	s.until("Let it call send_postcard? [y/N] ")
	s.press("y" + enter)
	s.until(`[done] {"sent":"now"}`)
	s.until("Sent.")
	assert.Equal(t, `{"approved":true}`, testkit.Receive(t, "the answer", answered))
	s.say("Take a photo.")
	s.until("waits for the app that has take_photo; your next message goes on without it")
	s.leave()
}
