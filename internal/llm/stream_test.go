package llm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/streaming"
	"github.com/google/go-cmp/cmp"
)

func TestStreamGivesTextAndResult(t *testing.T) {
	t.Parallel()
	server := model(t, always(offline.Answer{Text: fourWords, Usage: &offline.Usage{Input: 30, Cached: 20, Output: 4, Reasoning: 1}}))
	got := read(t.Context(), client(t, server.BaseURL(), 0), nil)
	if got.err != nil || got.text != fourWords || got.deltas != 4 {
		t.Fatalf("%q in %d pieces, %v", got.text, got.deltas, got.err)
	}
	if got.result.ResponseID == "" {
		t.Error("no response id")
	}
	got.result.ResponseID = ""
	want := chat.ModelResult{Model: "gpt-5.6-terra", FinishReason: "stop", Usage: streaming.Usage{InputTokens: 30, CachedTokens: 20, OutputTokens: 4}}
	if diff := cmp.Diff(want, got.result); diff != "" {
		t.Error(diff)
	}
}

// The request, field by field. Nothing else is sent.
func TestStreamSendsTheseParameters(t *testing.T) {
	t.Parallel()
	server := model(t, always(offline.Answer{Text: "Fine."}))
	if got := read(t.Context(), client(t, server.BaseURL(), 0), nil); got.err != nil {
		t.Fatal(got.err)
	}
	digest := sha256.Sum256([]byte(userID.String()))
	want := map[string]any{
		"model": "gpt-5.6-terra", "instructions": "Be brief.", "input": "CURRENT MESSAGE:\nHello?", "store": false, "stream": true,
		"prompt_cache_key": chatID.String(), "safety_identifier": hex.EncodeToString(digest[:]),
	}
	if diff := cmp.Diff(want, bodyOf(t, server)); diff != "" {
		t.Error(diff)
	}
}

// bodyOf returns the body of the only request.
func bodyOf(t *testing.T, server *offline.Listening) map[string]any {
	t.Helper()
	asked := server.Requests()
	if len(asked) != 1 || len(server.Refused()) != 0 {
		t.Fatalf("%d requests, refused %v", len(asked), server.Refused())
	}
	var body map[string]any
	if err := json.Unmarshal(asked[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	return body
}

func TestStreamWithoutInstructionsSendsNone(t *testing.T) {
	t.Parallel()
	server := model(t, always(offline.Answer{Text: "Fine."}))
	ask := question()
	ask.Instructions = ""
	stream, err := client(t, server.BaseURL(), 0).Stream(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if value, sent := bodyOf(t, server)["instructions"]; sent {
		t.Errorf("sent the instructions %q", value)
	}
}

// A completed reply has all of the text and a reason, and was requested once.
func TestStreamEndings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer offline.Answer
		text   string
		reason string
	}{
		{"whole", offline.Answer{}, fourWords, "stop"},
		{"out of tokens", offline.Answer{Fault: offline.FaultIncomplete, FaultAfter: 2}, "one two ", "length"},
		{"filtered", offline.Answer{Fault: offline.FaultContentFilter, FaultAfter: 3}, "one two three ", "content_filter"},
		{"filtered before a word", offline.Answer{Fault: offline.FaultContentFilter}, "", "content_filter"},
		{"empty", offline.Answer{Fault: offline.FaultEmpty}, "", "stop"},
		{"each byte alone", offline.Answer{Fault: offline.FaultSplit}, fourWords, "stop"},
		{"CRLF line ends", offline.Answer{Fault: offline.FaultCRLF}, fourWords, "stop"},
		{"bytes that are no UTF-8", offline.Answer{Fault: offline.FaultInvalidUTF8, FaultAfter: 2}, "one two \uFFFDthree four", "stop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.answer.Text = fourWords
			server := model(t, always(c.answer))
			got := read(t.Context(), client(t, server.BaseURL(), 0), nil)
			if got.err != nil || got.text != c.text || got.result.FinishReason != c.reason {
				t.Errorf("%q, reason %q, %v", got.text, got.result.FinishReason, got.err)
			}
			if asked := len(server.Requests()); asked != 1 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

func TestLineOfAMegabyte(t *testing.T) {
	t.Parallel()
	server := model(t, always(offline.Answer{Text: fourWords, Fault: offline.FaultLongLine, FaultAfter: 1}))
	got := read(t.Context(), client(t, server.BaseURL(), 0), nil)
	if got.err != nil || len(got.text) < 1<<20 || got.deltas != 5 {
		t.Errorf("%d bytes in %d pieces, %v", len(got.text), got.deltas, got.err)
	}
}

// Streams that the offline model never sends.
func TestForeignStreams(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		stream []string
		text   string
		reason string
	}{
		{"NUL in the text", []string{delta(`"a\u0000b"`), completedEvent}, "a\uFFFDb", "stop"},
		{"half a surrogate", []string{delta(`"a\ud83db"`), completedEvent}, "a\uFFFDb", "stop"},
		{"a pair of surrogates", []string{delta(`"\ud83d\udc4b"`), completedEvent}, "👋", "stop"},
		{"unknown events", []string{
			event("response.brand_new", `,"delta":"not text"`), delta(`"a"`), event("response.reasoning_text.delta", `,"delta":"thoughts"`), completedEvent,
		}, "a", "stop"},
		{"an unknown event that is no JSON", []string{"event: weather\ndata: rain\n\n", delta(`"a"`), completedEvent}, "a", "stop"},
		{"comments", []string{": keep-alive\n\n", delta(`"a"`), ": keep-alive\n\n", completedEvent}, "a", "stop"},
		{"no event lines", []string{"data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n", "data: {\"type\":\"response.completed\",\"response\":{}}\n\n"}, "a", "stop"},
		{"no space after the colon", []string{"event:response.output_text.delta\ndata:{\"delta\":\"a\"}\n\n", completedEvent}, "a", "stop"},
		{"data in two lines", []string{"event: response.output_text.delta\ndata: {\"delta\":\ndata: \"a\"}\n\n", completedEvent}, "a", "stop"},
		{"[DONE] after the end", []string{delta(`"a"`), completedEvent, "data: [DONE]\n\n"}, "a", "stop"},
		{"text after the end", []string{delta(`"a"`), completedEvent, delta(`"b"`)}, "a", "stop"},
		{"empty deltas", []string{delta(`""`), delta(`"a"`), delta(`""`), completedEvent}, "a", "stop"},
		{"a refusal is what the model says", []string{event("response.refusal.delta", `,"delta":"I would rather not."`), completedEvent}, "I would rather not.", "stop"},
		{"incomplete for an unknown reason", []string{delta(`"a"`), event("response.incomplete", `,"response":{"incomplete_details":{"reason":"tired"}}`)}, "a", "length"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, sends(c.stream...))
			got := read(t.Context(), client(t, server.url, 0), nil)
			if got.err != nil || got.text != c.text || got.result.FinishReason != c.reason {
				t.Errorf("%q, reason %q, %v", got.text, got.result.FinishReason, got.err)
			}
		})
	}
}

// Together the pieces take longer than the idle timeout, but no pause does.
func TestSlowModelIsNoSilentOne(t *testing.T) {
	t.Parallel()
	server := model(t, always(offline.Answer{Text: "a b c d e f g h i j k l", PieceDelay: 150 * time.Millisecond}))
	got := read(t.Context(), client(t, server.BaseURL(), 1500*time.Millisecond), nil)
	if got.err != nil || got.text != "a b c d e f g h i j k l" {
		t.Errorf("%q, %v", got.text, got.err)
	}
}

// Closing a stream early ends the call, so that the provider stops writing and billing.
func TestCloseEndsTheCall(t *testing.T) {
	t.Parallel()
	server := model(t, always(offline.Answer{Text: fourWords, Fault: offline.FaultHang, FaultAfter: 2}))
	stream, err := client(t, server.BaseURL(), 0).Stream(t.Context(), question())
	if err != nil || !stream.Next() {
		t.Fatal("no text", err)
	}
	if err := stream.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := server.Await(ctx, func(r offline.Request) bool { return r.HungUp }); err != nil {
		t.Errorf("the call goes on: %v", err)
	}
}

func TestNextAfterTheEndStaysAtTheEnd(t *testing.T) {
	t.Parallel()
	server := model(t, always(offline.Answer{Text: "Fine."}))
	stream, err := client(t, server.BaseURL(), 0).Stream(t.Context(), question())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	for stream.Next() {
	}
	if stream.Next() || stream.Err() != nil || stream.Result().FinishReason != "stop" {
		t.Errorf("%v, %+v", stream.Err(), stream.Result())
	}
}
