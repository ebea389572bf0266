package streaming

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/memory"
)

var (
	chatID     = uuid.MustParse("0193a1b2-0000-7000-8000-000000000001")
	questionID = uuid.MustParse("0193a1b2-0000-7000-8000-000000000002")
	replyID    = uuid.MustParse("0193a1b2-0000-7000-8000-000000000003")
)

var awaiting = &Awaiting{
	MessageID: replyID, ChatID: chatID, ContentLength: 9, Open: []OpenCall{{CallID: "c1", Name: "tool", Run: "client"}},
	ExpiresAt: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC),
}

// wire is a stream as it was written: one element per Write.
type wire struct{ writes []string }

func (w *wire) Write(data []byte) (int, error) {
	w.writes = append(w.writes, string(data))
	return len(data), nil
}

func TestEventsToTheByte(t *testing.T) {
	t.Parallel()
	const id = "0193a1b2-0000-7000-8000-000000000003"
	for _, c := range []struct {
		name string
		send func(*Encoder) error
		want string
	}{
		{"started", func(e *Encoder) error {
			return e.Started(Started{ChatID: chatID, UserMessageID: questionID, MessageID: replyID, ModelVariant: "arco", Resumed: true, Offset: 7})
		}, "event: message.started\n" +
			`data: {"chat_id":"0193a1b2-0000-7000-8000-000000000001","user_message_id":"0193a1b2-0000-7000-8000-000000000002","message_id":"` + id +
			`","model_variant":"arco","resumed":true,"offset":7}` + "\nid: " + id + ":7\n\n"},
		{"delta", func(e *Encoder) error {
			return e.Chunk(Chunk{Offset: 7, Text: []byte("a \"b\"\\\r\n\t\x00\x7f é 👋🏽 e\u0301 \u2028 </script>")})
		}, "event: content.delta\n" +
			`data: {"message_id":"` + id + `","offset":7,"delta":"a \"b\"\\\u000d\n\t\u0000` +
			"\x7f é 👋🏽 e\u0301 \u2028 </script>" + `"}` + "\nid: " + id + ":38\n\n"},
		{"started after parts", func(e *Encoder) error {
			return e.Started(Started{ChatID: chatID, UserMessageID: questionID, MessageID: replyID, ModelVariant: "arco", Offset: 7, Parts: 2})
		}, "event: message.started\n" +
			`data: {"chat_id":"0193a1b2-0000-7000-8000-000000000001","user_message_id":"0193a1b2-0000-7000-8000-000000000002","message_id":"` + id +
			`","model_variant":"arco","resumed":false,"offset":7,"parts":2}` + "\nid: " + id + ":7.2\n\n"},
		{"delta after parts", func(e *Encoder) error { return e.Chunk(Chunk{Offset: 7, Text: []byte("é"), Parts: 12}) },
			"event: content.delta\n" + `data: {"message_id":"` + id + `","offset":7,"delta":"é"}` + "\nid: " + id + ":8.12\n\n"},
		{"call", func(e *Encoder) error {
			call := callOf("c1", "server", true)
			call.At = 7
			return e.Chunk(Chunk{Offset: 7, Part: &call, Index: 2, Parts: 3})
		}, "event: part.added\n" +
			`data: {"message_id":"` + id + `","index":2,"offset":7,"part":{"type":"tool_call","at":7,"call_id":"c1","name":"tool",` +
			`"arguments":{"a":"\u003cé\u003e"},"run":"server","approval":true}}` + "\nid: " + id + ":7.3\n\n"},
		{"result without an output", func(e *Encoder) error {
			result := memory.Part{Type: memory.PartResult, CallID: "c1", Status: memory.ResultSkipped, Output: json.RawMessage("null")}
			return e.Chunk(Chunk{Part: &result, Parts: 1})
		}, "event: part.added\n" +
			`data: {"message_id":"` + id + `","index":0,"offset":0,"part":{"type":"tool_result","at":0,"call_id":"c1","status":"skipped","output":null}}` +
			"\nid: " + id + ":0.1\n\n"},
		{"awaiting", func(e *Encoder) error { return e.Chunk(Chunk{Offset: 9, Parts: 3, End: &Terminal{Awaiting: awaiting}}) },
			"event: message.awaiting\n" +
				`data: {"message_id":"` + id + `","chat_id":"0193a1b2-0000-7000-8000-000000000001","content_length":9,` +
				`"open":[{"call_id":"c1","name":"tool","run":"client","approval":false}],"expires_at":"2026-07-01T12:00:00Z"}` + "\nid: " + id + ":9.3\n\n"},
		{"completion of parts", func(e *Encoder) error {
			return e.Chunk(Chunk{Offset: 9, Parts: 3, End: &Terminal{Completed: &Completed{
				MessageID: replyID, ChatID: chatID, FinishReason: "stop", ModelVariant: "arco", ContentLength: 9, Parts: 3, AnsweredBy: "arco-b",
			}}})
		}, "event: completion\n" +
			`data: {"message_id":"` + id + `","chat_id":"0193a1b2-0000-7000-8000-000000000001","finish_reason":"stop","model_variant":"arco",` +
			`"usage":{"input_tokens":0,"cached_tokens":0,"output_tokens":0},"content_length":9,"parts":3,"answered_by":"arco-b","memory":null}` +
			"\nid: " + id + ":end\n\n"},
		{"completion", func(e *Encoder) error {
			return e.Chunk(Chunk{Offset: 9, End: &Terminal{Completed: &Completed{
				MessageID: replyID, ChatID: chatID, FinishReason: "stop", ModelVariant: "arco",
				Usage: Usage{InputTokens: 3, CachedTokens: 2, OutputTokens: 1}, ContentLength: 9, Memory: json.RawMessage("{\n\"brief_version\": 4}"),
			}}})
		}, "event: completion\n" +
			`data: {"message_id":"` + id + `","chat_id":"0193a1b2-0000-7000-8000-000000000001","finish_reason":"stop","model_variant":"arco",` +
			`"usage":{"input_tokens":3,"cached_tokens":2,"output_tokens":1},"content_length":9,"memory":{"brief_version":4}}` + "\nid: " + id + ":end\n\n"},
		{"failed", func(e *Encoder) error {
			return e.Chunk(Chunk{End: &Terminal{Failed: &Failed{MessageID: replyID, Code: "upstream_failed", Message: "It broke.", Retryable: true, ContentLength: 7}}})
		}, "event: message.failed\n" +
			`data: {"message_id":"` + id + `","code":"upstream_failed","message":"It broke.","retryable":true,"content_length":7}` + "\nid: " + id + ":end\n\n"},
		{"cancelled", func(e *Encoder) error {
			return e.Chunk(Chunk{End: &Terminal{Cancelled: &Cancelled{MessageID: replyID, ContentLength: 12}}})
		}, "event: message.cancelled\n" +
			`data: {"message_id":"` + id + `","content_length":12}` + "\nid: " + id + ":end\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out wire
			require.NoError(t, c.send(NewEncoder(&out, replyID)))
			assert.Equal(t, []string{c.want}, out.writes) // one Write per event, so that each is flushed whole
		})
	}
}

func TestPaddingIsOneCommentOfAtLeast1KiB(t *testing.T) {
	t.Parallel()
	var out wire
	require.NoError(t, NewEncoder(&out, replyID).Padding())
	comment, found := strings.CutSuffix(out.writes[0], "\n\n")
	assert.Truef(t, found && len(out.writes) == 1 && len(comment) >= 1024 && comment[0] == ':' && !strings.ContainsAny(comment, "\r\n") &&
		strings.Count(comment, " ") == strings.Count(comment, "\b"), // so that a terminal shows one short line
		"padding %q", out.writes)
}

// No event has a name that the usual React Native client uses itself.
func TestEventNamesAreFree(t *testing.T) {
	t.Parallel()
	for _, name := range []string{EventStarted, EventDelta, EventPart, EventAwaiting, EventCompleted, EventFailed, EventCancelled} {
		switch name {
		case "error", "open", "close", "message", "":
			t.Errorf("the name %q is taken", name)
		}
	}
}

var errGone = errors.New("the client is gone")

type goneWriter struct{}

func (goneWriter) Write([]byte) (int, error) { return 0, errGone }

func FuzzAppendJSONString(f *testing.F) {
	for _, text := range []string{"", "plain", `"\/` + "\b\f\n\r\t\v", "\x00\x1f\x7f", "é👋🏽e\u0301", "\u2028\u2029<>&", `\u0000`, "\xff\xfe"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\uFFFD") // as a Relay does
		prefix := []byte("kept ")
		raw, found := bytes.CutPrefix(appendJSONString(prefix, []byte(text)), prefix)
		require.Truef(t, found, "what was there before is gone: %q", raw)
		assert.Lessf(t, bytes.IndexFunc(raw, func(r rune) bool { return r < 0x20 }), 0, "a control character in %q", raw)
		var back string
		err := json.Unmarshal(raw, &back)
		assert.Truef(t, err == nil && back == text, "%q came back as %q: %v", text, back, err)
	})
}

type anyEncoder interface {
	Padding() error
	Started(event Started) error
	Chunk(chunk Chunk) error
}

// encoders are those of both protocols.
func encoders(w io.Writer) map[string]anyEncoder {
	return map[string]anyEncoder{"ours": NewEncoder(w, replyID), "the AI SDK's": NewUIEncoder(w)}
}

func TestEveryWriteReportsAGoneClient(t *testing.T) {
	t.Parallel()
	end := done("stop")
	for protocol, e := range encoders(goneWriter{}) {
		for name, err := range map[string]error{
			"padding": e.Padding(), "started": e.Started(Started{}),
			"delta": e.Chunk(Chunk{Text: []byte("secret words")}), "part": e.Chunk(Chunk{Part: &memory.Part{Type: memory.PartSource, URL: "secret"}}),
			"end": e.Chunk(Chunk{End: &end}),
		} {
			assert.Truef(t, errors.Is(err, errGone) && !strings.Contains(fmt.Sprint(err), "secret"), "%s, %s: %v", protocol, name, err)
		}
	}
}

func TestBrokenJSONIsAnError(t *testing.T) {
	t.Parallel()
	for protocol, e := range encoders(io.Discard) {
		assert.Errorf(t, e.Chunk(Chunk{End: &Terminal{Completed: &Completed{Memory: json.RawMessage("{")}}}), "%s: it is written", protocol)
		result := memory.Part{Type: memory.PartResult, Status: memory.ResultDone, Output: json.RawMessage("{")}
		assert.Errorf(t, e.Chunk(Chunk{Part: &result}), "%s: an output is written", protocol)
	}
}
