package client

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
)

// waiting is a reply of five characters that waits for the answer to a call.
func waiting() Reply {
	started := streaming.Started{ChatID: uuid.MustParse(chatID), MessageID: uuid.MustParse(replyID)}
	return Reply{Started: started, length: 5, parts: 1, lastID: replyID + ":5.1", End: streaming.Terminal{Awaiting: &streaming.Awaiting{}}}
}

// goesOn streams what follows so much of the reply that waited.
func goesOn(offset, parts int, chunks ...streaming.Chunk) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		e := streaming.NewEncoder(w, uuid.MustParse(replyID))
		started := waiting().Started
		started.Offset, started.Parts = offset, parts
		_ = e.Started(started)
		for _, chunk := range chunks {
			_ = e.Chunk(chunk)
		}
	}
}

// The answer is given until the reply goes on; from then on the reply is read, and the answer is not given again.
func TestAnAnsweredReplyIsHeardToItsEnd(t *testing.T) {
	t.Parallel()
	result := streaming.Chunk{Offset: 5, Index: 1, Parts: 2, Part: &memory.Part{Type: memory.PartResult, At: 5, CallID: "call/1", Status: memory.ResultDone}}
	more, text := streaming.Chunk{Offset: 5, Parts: 2, Text: []byte("more ")}, streaming.Chunk{Offset: 10, Parts: 2, Text: []byte("text")}
	end := streaming.Chunk{Parts: 2, End: &streaming.Terminal{Completed: &streaming.Completed{ContentLength: 14, Parts: 2}}}
	c := serveReached(t, resets, goesOn(5, 1), goesOn(5, 1, result, more), goesOn(10, 2, text, end))
	var h heard
	var parts []memory.Part
	listener := h.listener()
	listener.Part = func(part memory.Part) { parts = append(parts, part) }
	reply, err := c.AnswerCall(t.Context(), waiting(), "call/1", map[string]any{"approved": true}, listener)
	require.NoError(t, err)
	assert.Equal(t, "more text", h.text.String())
	assert.Equal(t, []memory.Part{*result.Part}, parts)
	assert.Equal(t, 14, reply.End.Completed.ContentLength)
	var asked []string
	for _, r := range c.requests() {
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		asked = append(asked, strings.TrimSpace(r.Method+" "+r.URL.EscapedPath()+" "+string(body)))
	}
	answer := "POST /v1/messages/" + replyID + `/calls/call%2F1 {"approved":true}`
	assert.Equal(t, []string{answer, answer, answer, "GET /v1/message/" + chatID + "/stream"}, asked)
	assert.Equal(t, replyID+":10.2", c.requests()[3].Header.Get("Last-Event-ID"))
}

func TestAnAnswerIsRefused(t *testing.T) {
	t.Parallel()
	c := serve(t, refuses(http.StatusConflict, "call_settled"))
	_, err := c.AnswerCall(t.Context(), waiting(), "c", map[string]any{"approved": true}, Listener{})
	assert.Truef(t, IsCode(err, fault.Code("call_settled")), "%v", err)
	assert.Len(t, c.requests(), 1)
}
