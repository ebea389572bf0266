package clients_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/streaming"
)

const aisdkPartsScript = "testdata/ai-sdk/parts.js"

// partsReplyID is the same in all streams of the reply: the chat goes on with its message.
var partsReplyID = uuid.MustParse("0193a1b2-0000-7000-8000-000000000003")

// TestAISDKParts shows a reply with tools in the AI SDK's own chat: heard until it waits, on from each answer, and replayed.
func TestAISDKParts(t *testing.T) {
	t.Parallel()
	first := []memory.Part{
		{Text: "Let me "}, {Text: "see."}, {Type: memory.PartReasoning, Text: "hm"}, toolCall("c1", memory.RunClient, false),
		toolCall("s1", memory.RunServer, false), toolCall("a1", memory.RunServer, true), toolResult("s1", memory.ResultDone, "1"),
	}
	second := append(slices.Clip(first), toolResult("c1", memory.ResultDone, `"photo"`), toolApproval("a1", true),
		toolResult("a1", memory.ResultFailed, `{"error":"No taxi.","status":404}`), memory.Part{Text: "\n\n"}, memory.Part{Text: "One more."},
		toolCall("a2", memory.RunServer, true))
	third := append(slices.Clip(second), toolApproval("a2", false), toolResult("a2", memory.ResultDenied, "null"),
		memory.Part{Text: "Fine."}, memory.Part{Type: memory.PartSource, URL: "https://a.example"})
	skipped := append(slices.Clip(first), toolResult("c1", memory.ResultSkipped, "null"), toolResult("a1", memory.ResultSkipped, "null"))
	awaiting, complete := streaming.Terminal{Awaiting: &streaming.Awaiting{}}, streaming.Terminal{Completed: &streaming.Completed{FinishReason: "stop"}}
	streams, err := json.Marshal(map[string]string{
		"first":     uiStream(t, first, streaming.Place{}, awaiting),
		"second":    uiStream(t, second, streaming.Place{Chars: 11, Parts: 5}, awaiting),
		"third":     uiStream(t, third, streaming.Place{Chars: 22, Parts: 9}, complete),
		"whole":     uiStream(t, third, streaming.Place{}, complete),
		"cancelled": uiStream(t, skipped, streaming.Place{}, streaming.Terminal{Cancelled: &streaming.Cancelled{}}),
		"failed":    uiStream(t, skipped, streaming.Place{}, streaming.Terminal{Failed: &streaming.Failed{Message: "It broke."}}),
		"silent":    uiStream(t, skipped, streaming.Place{}, complete),
	})
	require.NoError(t, err)
	eachLine(t, func(t *testing.T, line aisdkLine) {
		runsWell(t, env{"STREAMS": string(streams)}, bundleScript(t, aisdkPartsScript, "node", line.aliases))
	})
}

func toolCall(id, run string, approval bool) memory.Part {
	return memory.Part{Type: memory.PartCall, CallID: id, Name: "tool", Arguments: json.RawMessage(`{"a":"é"}`), Run: run, Approval: &approval}
}

func toolResult(id string, status memory.ResultStatus, output string) memory.Part {
	return memory.Part{Type: memory.PartResult, CallID: id, Status: status, Output: json.RawMessage(output)}
}

func toolApproval(id string, approved bool) memory.Part {
	return memory.Part{Type: memory.PartApproval, CallID: id, Approved: &approved}
}

// uiStream is the stream of a reply from a place on. A part without a type is text.
func uiStream(t *testing.T, reply []memory.Part, at streaming.Place, end streaming.Terminal) string {
	var relay streaming.Relay
	for _, part := range reply {
		if part.Type == "" {
			relay.Append(part.Text)
			continue
		}
		relay.AddPart(part)
	}
	relay.End(end)
	var out bytes.Buffer
	encoder, reader := streaming.NewUIEncoder(&out), relay.Read(at)
	defer reader.Close()
	require.NoError(t, encoder.Started(streaming.Started{MessageID: partsReplyID, Offset: at.Chars, Parts: at.Parts}))
	for ended := false; !ended; {
		chunk, err := reader.Next(t.Context())
		require.NoError(t, err)
		require.NoError(t, encoder.Chunk(chunk))
		ended = chunk.End != nil
	}
	return out.String()
}
