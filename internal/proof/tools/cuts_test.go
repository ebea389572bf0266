package tools

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// heard is what a client has of a reply.
type heard struct {
	id    string // of the message
	text  string
	parts []map[string]any
}

// after is what a client has that had this before a stream, of which it read the first events: the stream says where it goes on.
func (h heard) after(events []testkit.Event) (heard, error) {
	for n, e := range events {
		switch e.Name {
		case testkit.Started:
			if id := e.Data["message_id"].(string); id != h.id {
				h = heard{id: id}
			}
			chars, parts := number(e.Data, "offset"), number(e.Data, "parts")
			if chars > len([]rune(h.text)) || parts > len(h.parts) {
				return h, fmt.Errorf("a stream that goes on at %d.%d, for a client at %d.%d", chars, parts, len([]rune(h.text)), len(h.parts))
			}
			h.text, h.parts = string([]rune(h.text)[:chars]), h.parts[:parts:parts]
		case testkit.Delta:
			h.text += e.Data["delta"].(string)
		case testkit.PartAdded:
			h.parts = append(h.parts, e.Data["part"].(map[string]any))
		}
		if h.id == "" {
			return h, fmt.Errorf("event %d is the first", n)
		}
	}
	return h, nil
}

func number(of map[string]any, name string) int {
	n, _ := of[name].(float64)
	return int(n)
}

// A client that was cut off at any event, and goes on by characters, by characters and parts, or as the AI SDK does, has the same.
func TestStreamsCutAtEveryEvent(t *testing.T) {
	t.Parallel()
	all := draw(*cuts)
	model := testkit.NewModel(t, say(all))
	server := start(t, model, `{"variants": [{"name": "one", "model": "m", "reasoning_summary": "auto"}]}`)
	resumed := 0
	for n, s := range all {
		reply := server.play(fmt.Sprint("script ", n), "one", s.refusal())
		live := server.Resume(reply.ChatID, "", "Last-Event-ID", reply.MessageID+":0")
		live.Rest()
		want, err := heard{}.after(live.Events)
		require.NoError(t, err)
		assert.Equal(t, reply.Content, want.text)
		whole := server.ui(reply.ChatID, reply.MessageID+":0")
		for cut := range live.Events[:len(live.Events)-1] {
			had, err := heard{}.after(live.Events[:cut+1])
			require.NoError(t, err)
			place := live.Events[cut].ID
			before, _, _ := strings.Cut(place, ".") // parts that stand there are sent again
			for _, cursor := range []string{place, before} {
				rest := server.Resume(reply.ChatID, "", "Last-Event-ID", cursor)
				rest.Rest()
				got, err := had.after(rest.Events)
				require.NoError(t, err, "script %d after %s", n, cursor)
				require.Equal(t, want, got, "script %d after %s", n, cursor)
			}
			got := append(firstOf(whole, had), server.ui(reply.ChatID, place)...)
			require.Equal(t, shown(whole), shown(got), "script %d as UI stream after %s", n, place)
			resumed += 3
		}
	}
	report(t, "replies with parts, cut at every event, resumed by `n`, by `n.k` and as UI stream",
		mark("cuts", len(all))+" replies, resumed "+mark("resumed", resumed)+" times: the same state")
}

// uiEvent is an event of the AI SDK's protocol.
type uiEvent struct {
	Type, ID, Delta, SourceID, ToolCallID, InputTextDelta, ErrorText string

	Input, Output json.RawMessage
}

// ui returns the events of a reply after a place.
func (r *running) ui(chatID, cursor string) (events []uiEvent) {
	answer := r.Call(http.MethodGet, testkit.ResumePath(chatID, "?protocol=ui"), nil, "Last-Event-ID", cursor)
	require.Equal(r.T, http.StatusOK, answer.Status)
	for block := range strings.SplitSeq(answer.Text, "\n\n") {
		var event uiEvent
		if data, found := strings.CutPrefix(block, "data: {"); found {
			require.NoError(r.T, json.Unmarshal([]byte("{"+data), &event))
			events = append(events, event)
		}
	}
	require.Equal(r.T, "finish", events[len(events)-1].Type)
	return events
}

// firstOf returns the first events of a UI stream, up to what a client has that was cut off. An approval has none.
func firstOf(events []uiEvent, had heard) []uiEvent {
	chars, parts := len([]rune(had.text)), 0
	for _, part := range had.parts {
		if part["type"] != "tool_approval" {
			parts++
		}
	}
	for n, event := range events {
		switch {
		case event.Type == "text-delta":
			chars -= len([]rune(event.Delta))
		case event.Type == "reasoning-start" || event.Type == "source-url" || event.Type == "tool-input-start" || strings.HasPrefix(event.Type, "tool-output-"):
			parts--
		}
		if chars < 0 || parts < 0 {
			return events[:n:n]
		}
	}
	return events
}

// shown is what a person sees of a UI stream: texts, thoughts and tools, each with what it holds.
func shown(events []uiEvent) (all []string) {
	last, tools := "", map[string]int{}
	begin := func(what string) { all, last = append(all, what), strings.Fields(what)[0] }
	for _, event := range events {
		switch event.Type {
		case "text-start":
			if last != "text" { // else the rest of a text that was cut
				begin("text ")
			}
		case "reasoning-start":
			begin("reasoning " + event.ID + " ")
		case "source-url":
			begin("source " + event.SourceID)
		case "text-delta", "reasoning-delta":
			all[len(all)-1] += event.Delta
		case "tool-input-start":
			begin("tool " + event.ToolCallID)
			tools[event.ToolCallID] = len(all) - 1
		case "tool-input-delta", "tool-input-available", "tool-output-available", "tool-output-error", "tool-output-denied":
			holds := string(event.Input) + event.InputTextDelta + string(event.Output) + event.ErrorText
			all[tools[event.ToolCallID]] += " " + strings.TrimPrefix(event.Type, "tool-") + holds
		}
	}
	return all
}
