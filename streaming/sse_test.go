package streaming

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

var (
	chatID     = uuid.MustParse("0193a1b2-0000-7000-8000-000000000001")
	questionID = uuid.MustParse("0193a1b2-0000-7000-8000-000000000002")
	replyID    = uuid.MustParse("0193a1b2-0000-7000-8000-000000000003")
)

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
		{"ping", (*Encoder).Ping, ": ping\n\n"},
		{"started", func(e *Encoder) error {
			return e.Started(Started{ChatID: chatID, UserMessageID: questionID, MessageID: replyID, ModelVariant: "arco", Resumed: true, Offset: 7})
		}, "event: message.started\n" +
			`data: {"chat_id":"0193a1b2-0000-7000-8000-000000000001","user_message_id":"0193a1b2-0000-7000-8000-000000000002","message_id":"` + id +
			`","model_variant":"arco","resumed":true,"offset":7}` + "\nid: " + id + ":7\n\n"},
		{"delta", func(e *Encoder) error {
			return e.Chunk(Chunk{Offset: 7, Text: []byte("a \"b\"\\\r\n\t\x00\x7f é 👋🏽 e\u0301 \u2028 </script>")})
		}, "event: content.delta\n" +
			`data: {"message_id":"` + id + `","offset":7,"delta":"a \"b\"\\\u000d\n\t\u0000` + "\x7f é 👋🏽 e\u0301 \u2028 </script>" + `"}` + "\nid: " + id + ":38\n\n"},
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
			if err := c.send(NewEncoder(&out, replyID)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.want}, out.writes); diff != "" {
				t.Error(diff) // one Write per event, so that each is flushed whole
			}
		})
	}
}

func TestPaddingIsOneCommentOfAtLeast1KiB(t *testing.T) {
	t.Parallel()
	var out wire
	if err := NewEncoder(&out, replyID).Padding(); err != nil {
		t.Fatal(err)
	}
	comment, found := strings.CutSuffix(out.writes[0], "\n\n")
	if !found || len(out.writes) != 1 || len(comment) < 1024 || comment[0] != ':' || strings.ContainsAny(comment, "\r\n") {
		t.Errorf("padding %q", out.writes)
	}
}

// No event has a name that the usual React Native client uses itself.
func TestEventNamesAreFree(t *testing.T) {
	t.Parallel()
	for _, name := range []string{EventStarted, EventDelta, EventCompleted, EventFailed, EventCancelled} {
		switch name {
		case "error", "open", "close", "message", "":
			t.Errorf("the name %q is taken", name)
		}
	}
}

// A whole stream: the joined deltas are the text, and each id is a position in it.
func TestIDsCountCharacters(t *testing.T) {
	t.Parallel()
	const text = "naïve 👩\u200d👩\u200d👧\u200d👦 e\u0301té\n日本語 🇩🇪!"
	for _, after := range []int{0, 1, 6, 8, utf8.RuneCountInString(text)} {
		var relay Relay
		for _, char := range text {
			relay.Append(string(char)) // the smallest pieces a model can send
		}
		relay.End(done("stop"))
		reader := relay.Read(after)
		var out bytes.Buffer
		encoder := NewEncoder(&out, replyID)
		for end := false; !end; {
			chunk := next(t, reader)
			if err := encoder.Chunk(chunk); err != nil {
				t.Fatal(err)
			}
			end = chunk.End != nil
		}
		reader.Close()
		if got := assemble(t, out.String(), after); got != string([]rune(text)[after:]) {
			t.Errorf("after %d: %q", after, got)
		}
	}
}

// assemble reads deltas as a client would, and checks each id and offset against what it has.
func assemble(t *testing.T, stream string, after int) string {
	t.Helper()
	text := ""
	for event := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		lines := strings.Split(event, "\n")
		if len(lines) != 3 {
			t.Fatalf("an event of %d lines: %q", len(lines), event)
		}
		id, _ := strings.CutPrefix(lines[2], "id: "+replyID.String()+":")
		if lines[0] != "event: "+EventDelta {
			if id != "end" {
				t.Errorf("terminal event has the id %q", id)
			}
			continue
		}
		var delta Delta
		if err := json.Unmarshal([]byte(strings.TrimPrefix(lines[1], "data: ")), &delta); err != nil {
			t.Fatal(err)
		}
		if delta.Offset != after+utf8.RuneCountInString(text) || delta.MessageID != replyID {
			t.Errorf("delta %q at %d, but there are %d characters", delta.Delta, delta.Offset, utf8.RuneCountInString(text))
		}
		text += delta.Delta
		if want := strconv.Itoa(after + utf8.RuneCountInString(text)); id != want {
			t.Errorf("id %s, want %s", id, want)
		}
	}
	return text
}

var errGone = errors.New("the client is gone")

type goneWriter struct{}

func (goneWriter) Write([]byte) (int, error) { return 0, errGone }

func TestEveryWriteReportsAGoneClient(t *testing.T) {
	t.Parallel()
	e := NewEncoder(goneWriter{}, replyID)
	end := done("stop")
	for name, err := range map[string]error{
		"padding": e.Padding(), "ping": e.Ping(), "started": e.Started(Started{}),
		"delta": e.Chunk(Chunk{Text: []byte("secret words")}), "end": e.Chunk(Chunk{End: &end}),
	} {
		if !errors.Is(err, errGone) || strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBrokenReceiptIsAnError(t *testing.T) {
	t.Parallel()
	err := NewEncoder(io.Discard, replyID).Chunk(Chunk{End: &Terminal{Completed: &Completed{Memory: json.RawMessage("{")}}})
	if err == nil || !strings.Contains(err.Error(), EventCompleted) {
		t.Errorf("got %v", err)
	}
}

func FuzzAppendJSONString(f *testing.F) {
	for _, text := range []string{"", "plain", `"\/` + "\b\f\n\r\t\v", "\x00\x1f\x7f", "é👋🏽e\u0301", "\u2028\u2029<>&", `\u0000`, "\xff\xfe"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\uFFFD") // as a Relay does
		prefix := []byte("kept ")
		raw, found := bytes.CutPrefix(appendJSONString(prefix, []byte(text)), prefix)
		if !found {
			t.Fatalf("what was there before is gone: %q", raw)
		}
		if at := bytes.IndexFunc(raw, func(r rune) bool { return r < 0x20 }); at >= 0 {
			t.Errorf("control character at %d of %q", at, raw)
		}
		var back string
		if err := json.Unmarshal(raw, &back); err != nil || back != text {
			t.Errorf("%q came back as %q: %v", text, back, err)
		}
	})
}
