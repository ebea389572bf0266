package streaming

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/arcoscribe/throughline/internal/memory"
)

func TestUIPartsToTheByte(t *testing.T) {
	t.Parallel()
	no, yes := false, true
	client, server, asking := callOf("c1", memory.RunClient, false), callOf("c1", memory.RunServer, false), callOf("c1", memory.RunServer, true)
	approval := func(approved *bool) *memory.Part {
		return &memory.Part{Type: memory.PartApproval, CallID: "c1", Approved: approved, Reason: "Too dear."}
	}
	result := func(status memory.ResultStatus, output string) *memory.Part {
		return &memory.Part{Type: memory.PartResult, CallID: "c1", Status: status, Output: json.RawMessage(output)}
	}
	const (
		start = `{"type":"tool-input-start","toolCallId":"c1","toolName":"tool"`
		input = `{"type":"tool-input-available","toolCallId":"c1","toolName":"tool","input":{"a":"\u003cé\u003e"}`
		ask   = `{"type":"tool-approval-request","approvalId":"c1","toolCallId":"c1"}`
		ours  = `,"providerExecuted":true,"dynamic":true}`
	)
	for name, c := range map[string]struct {
		chunk Chunk
		want  []string
	}{
		"reasoning": {Chunk{Part: &memory.Part{Type: memory.PartReasoning}, Index: 3}, []string{`{"type":"reasoning-start","id":"reasoning-3"}`,
			`{"type":"reasoning-delta","id":"reasoning-3","delta":""}`, `{"type":"reasoning-end","id":"reasoning-3"}`}},
		"source": {Chunk{Part: &memory.Part{Type: memory.PartSource, URL: "https://a.example", Title: "A"}, Index: 3},
			[]string{`{"type":"source-url","sourceId":"source-3","url":"https://a.example","title":"A"}`}},
		"the app's call": {Chunk{Part: &client}, []string{start + `,"dynamic":true}`, input + `,"dynamic":true}`}},
		"the app's call that has its result": {Chunk{Part: &client, Answer: result(memory.ResultDone, "1")}, []string{start + `,"dynamic":true}`,
			`{"type":"tool-input-delta","toolCallId":"c1","inputTextDelta":"{\"a\":\"\u003cé\u003e\"}"}`}},
		"the server's call":                  {Chunk{Part: &server}, []string{start + ours, input + ours}},
		"the server's call with its result":  {Chunk{Part: &server, Answer: result(memory.ResultDone, "1")}, []string{start + ours, input + ours}},
		"a call that needs approval":         {Chunk{Part: &asking}, []string{start + ours, input + ours, ask}},
		"a call that was approved":           {Chunk{Part: &asking, Answer: approval(&yes)}, []string{start + ours, input + ours}},
		"a call that was denied":             {Chunk{Part: &asking, Answer: approval(&no)}, []string{start + ours, input + ours, ask}},
		"a call whose approval did not come": {Chunk{Part: &asking, Answer: result(memory.ResultExpired, "null")}, []string{start + ours, input + ours}},
		"an approval":                        {Chunk{Part: approval(&yes)}, nil},
		"done": {Chunk{Part: result(memory.ResultDone, `null`)},
			[]string{`{"type":"tool-output-available","toolCallId":"c1","output":null,"dynamic":true}`}},
		"denied": {Chunk{Part: result(memory.ResultDenied, "null")}, []string{`{"type":"tool-output-denied","toolCallId":"c1"}`}},
		"failed": {Chunk{Part: result(memory.ResultFailed, `{"error":"No taxi.","status":404}`)},
			[]string{`{"type":"tool-output-error","toolCallId":"c1","dynamic":true,"errorText":"No taxi."}`}},
		"failed in other words": {Chunk{Part: result(memory.ResultFailed, `{"error":{"code":7}}`)},
			[]string{`{"type":"tool-output-error","toolCallId":"c1","dynamic":true,"errorText":"{\"error\":{\"code\":7}}"}`}},
		"expired": {Chunk{Part: result(memory.ResultExpired, "null")},
			[]string{`{"type":"tool-output-error","toolCallId":"c1","dynamic":true,"errorText":"The call was not answered in time."}`}},
		"skipped": {Chunk{Part: result(memory.ResultSkipped, "null")},
			[]string{`{"type":"tool-output-error","toolCallId":"c1","dynamic":true,"errorText":"The conversation went on without the call."}`}},
		"awaiting": {Chunk{End: &Terminal{Awaiting: awaiting}, Step: true}, []string{`{"type":"finish","finishReason":"tool-calls","messageMetadata":` +
			`{"status":"awaiting","message_id":"` + uiReplyID + `","chat_id":"0193a1b2-0000-7000-8000-000000000001","content_length":9,` +
			`"open":[{"call_id":"c1","name":"tool","run":"client","approval":false}],"expires_at":"2026-07-01T12:00:00Z"}}`, "[DONE]"}},
	} {
		var out wire
		require.NoError(t, NewUIEncoder(&out).Chunk(c.chunk), name)
		assert.Equal(t, c.want, eventsOf(out), name)
		assert.LessOrEqual(t, len(out.writes), 1, name)
	}
}

// eventsOf are the data of a stream's events.
func eventsOf(out wire) []string {
	var events []string
	for block := range strings.SplitSeq(strings.Join(out.writes, ""), "\n\n") {
		if data, found := strings.CutPrefix(block, "data: "); found {
			events = append(events, data)
		}
	}
	return events
}

// Texts and steps of a reply with tools: what follows results is another step, the end of the reply included.
func TestUIStepsOfAReply(t *testing.T) {
	t.Parallel()
	server, client := callOf("c1", memory.RunServer, false), callOf("c2", memory.RunClient, false)
	var relay Relay
	relay.Append("Let me see.")
	relay.AddPart(server)
	relay.AddPart(client)
	relay.AddPart(memory.Part{Type: memory.PartResult, CallID: "c1", Status: memory.ResultDone, Output: json.RawMessage("1")})
	relay.AddPart(memory.Part{Type: memory.PartResult, CallID: "c2", Status: memory.ResultDone, Output: json.RawMessage("2")})
	relay.Append("\n\n")
	relay.Append("Both.")
	relay.AddPart(callOf("c3", memory.RunServer, false))
	relay.AddPart(memory.Part{Type: memory.PartResult, CallID: "c3", Status: memory.ResultFailed, Output: json.RawMessage("null")})
	relay.End(Terminal{Cancelled: &Cancelled{}})
	for at, want := range map[Place]string{
		{}: "text-start text text-delta text text-end text tool-input-start c1 tool-input-available c1 tool-input-start c2 tool-input-delta c2 " +
			"tool-output-available c1 tool-output-available c2 start-step text-start text-2 text-delta text-2 text-delta text-2 text-end text-2 " +
			"tool-input-start c3 tool-input-available c3 tool-output-error c3 finish-step start-step finish-step message-metadata abort [DONE]",
		{Chars: 11, Parts: 4}: "start-step text-start text text-delta text text-delta text text-end text " +
			"tool-input-start c3 tool-input-available c3 tool-output-error c3 finish-step start-step finish-step message-metadata abort [DONE]",
		{Chars: 12, Parts: 4}: "text-start text text-delta text text-end text " +
			"tool-input-start c3 tool-input-available c3 tool-output-error c3 start-step finish-step message-metadata abort [DONE]",
		{Chars: 18, Parts: 6}: "start-step finish-step message-metadata abort [DONE]",
	} {
		var out wire
		require.NoError(t, encodeFrom(&relay, at, NewUIEncoder(&out)))
		var names []string
		for _, event := range eventsOf(out) {
			fields := struct{ Type, ID, ToolCallID string }{Type: event}
			require.True(t, event == "[DONE]" || json.Unmarshal([]byte(event), &fields) == nil, event)
			names = append(names, strings.TrimSpace(fields.Type+" "+fields.ID+fields.ToolCallID))
		}
		assert.Equal(t, want, strings.Join(names, " "), "%+v", at)
	}
}

// uiSeen is a UI message as the SDK builds it: its parts in order, each a kind with what it holds.
type uiSeen struct {
	parts []uiSeenPart
	ran   []string // calls that the app was told to run
	done  bool
}

type uiSeenPart struct {
	kind, id, text, state string
	input                 any
}

// read applies a stream as strictly as the SDK does.
func (s *uiSeen) read(t *rapid.T, out wire) {
	open := map[string]bool{}
	for _, data := range eventsOf(out) {
		event := struct {
			Type, ID, Delta, ToolCallID, InputTextDelta, ErrorText, URL string
			SourceID                                                    string
			ProviderExecuted                                            bool
			Input, Output                                               json.RawMessage
		}{Type: data}
		require.False(t, s.done, "%s after the end", data)
		require.True(t, data == "[DONE]" || json.Unmarshal([]byte(data), &event) == nil, data)
		tool := s.tool(event.ToolCallID)
		switch event.Type {
		case "text-start":
			assert.Falsef(t, open[event.ID], "%s twice", event.ID)
			open[event.ID] = true
			if n := len(s.parts); n == 0 || s.parts[n-1].kind != "text" { // else the rest of a text that was cut
				s.parts = append(s.parts, uiSeenPart{kind: "text"})
			}
		case "text-delta":
			require.Truef(t, open[event.ID], "%s is not open", event.ID)
			s.parts[len(s.parts)-1].text += event.Delta
		case "text-end", "reasoning-end":
			require.Truef(t, open[event.ID], "%s is not open", event.ID)
			delete(open, event.ID)
		case "reasoning-start":
			open[event.ID] = true
			s.parts = append(s.parts, uiSeenPart{kind: "reasoning", id: event.ID})
		case "reasoning-delta":
			s.parts[len(s.parts)-1].text += event.Delta
		case "source-url":
			s.parts = append(s.parts, uiSeenPart{kind: "source", id: event.SourceID, text: event.URL})
		case "start-step":
			assert.Empty(t, open)
			s.parts = append(s.parts, uiSeenPart{kind: "step"})
		case "tool-input-start":
			require.Nil(t, tool, data)
			s.parts = append(s.parts, uiSeenPart{kind: "tool", id: event.ToolCallID, state: "input"})
		case "tool-input-delta":
			require.NoError(t, json.Unmarshal([]byte(event.InputTextDelta), &tool.input))
		case "tool-input-available":
			require.NoError(t, json.Unmarshal(event.Input, &tool.input))
			if !event.ProviderExecuted {
				s.ran = append(s.ran, event.ToolCallID)
			}
		case "tool-output-available", "tool-output-error", "tool-output-denied":
			require.NotNil(t, tool, data)
			tool.state = event.Type + string(event.Output) + event.ErrorText
		case "finish", "abort", "error":
			assert.Empty(t, open)
		case "[DONE]":
			s.done = true
		}
	}
}

func (s *uiSeen) tool(callID string) *uiSeenPart {
	for i := range s.parts {
		if s.parts[i].kind == "tool" && s.parts[i].id == callID {
			return &s.parts[i]
		}
	}
	return nil
}

// Of any reply: who heard it while it was written, who hears it afterwards, and who goes on where a stream was cut have the
// same message; and no app runs a tool whose result there is.
func TestUIStreamsOfPartsComeTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var relay Relay
		var live, again wire
		s, reader, encoder := scripts.Draw(t, "script"), relay.Read(Place{}), NewUIEncoder(&live)
		defer reader.Close()
		s.fill(&relay, func() {
			for chunk, _ := reader.unread(); chunk.Text != nil || chunk.Part != nil || chunk.End != nil; chunk, _ = reader.unread() {
				reader.pass(&chunk)
				require.NoError(t, encoder.Chunk(chunk))
				if chunk.End != nil {
					return
				}
			}
		})
		require.NoError(t, encodeFrom(&relay, Place{}, NewUIEncoder(&again)))
		var heard, replayed uiSeen
		heard.read(t, live)
		replayed.read(t, again)
		assert.Equal(t, heard.parts, replayed.parts)
		for _, id := range replayed.ran {
			assert.Equal(t, "input", replayed.tool(id).state, "%s runs again", id)
		}
		if cut := rapid.IntRange(0, len(live.writes)-1).Draw(t, "cut"); cut > 0 {
			var resumed uiSeen
			resumed.read(t, wire{live.writes[:cut]})
			at := placeAfter(t, &relay, cut)
			var rest wire
			require.NoError(t, encodeFrom(&relay, at, NewUIEncoder(&rest)))
			resumed.read(t, rest)
			assert.Equal(t, heard.parts, resumed.parts, "cut at %+v", at)
		}
	})
}

// placeAfter is where a reader is after so many writes of a UI stream, which has none for an approval.
func placeAfter(t *rapid.T, relay *Relay, writes int) Place {
	var at Place
	for _, event := range eventsFrom(t, relay, Place{})[1:] {
		if writes == 0 {
			break
		}
		var client struct {
			Offset, Index int
			Delta         string
			Part          *memory.Part
		}
		require.NoError(t, json.Unmarshal([]byte(strings.Split(event, "\n")[1][len("data: "):]), &client))
		if client.Part == nil {
			at.Chars = client.Offset + len([]rune(client.Delta))
		} else {
			at.Parts = client.Index + 1
		}
		if client.Part == nil || client.Part.Type != memory.PartApproval {
			writes--
		}
	}
	return at
}
