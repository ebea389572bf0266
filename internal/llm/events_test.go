package llm

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/work"
	"github.com/arcoscribe/throughline/streaming"
)

// oddEnds are terminal events of bad servers: impossible numbers, and text that Postgres refuses.
var oddEnds = []string{
	`{"response":{"id":"a\u0000b","model":"a\u0000b\ud800","usage":{"input_tokens":-5,"input_tokens_details":{"cached_tokens":-1},"output_tokens":1e300}}}`,
	`{"response":{"id":{},"model":[1],"usage":{"input_tokens":"many","output_tokens":true}}}`,
	`{"response":{"usage":{"input_tokens":9223372036854775807,"output_tokens":99999999999999999999}}}`,
	`{"response":null}`, `{}`, `[]`, `"x"`, `7`,
}

// Results have only text that can be stored and numbers that can be counted.
func TestOddResults(t *testing.T) {
	t.Parallel()
	for _, end := range oddEnds {
		server := serve(t, sends(delta(`"Hello"`), "event: response.completed\ndata: "+end+"\n\n"))
		got := read(t.Context(), client(t, server.url, 0), nil)
		assert.Truef(t, got.err == nil && got.text == "Hello", "%s: %q, %v", end, got.text, got.err)
		checkResult(t, got.result)
	}
}

func TestOddSummary(t *testing.T) {
	t.Parallel()
	server := serve(t, answers(200, "application/json", `{"status":"completed","model":"a\u0000b",
		"output":[{"type":"message","content":[{"type":"output_text","text":"x\u0000"}]}],
		"usage":{"input_tokens":-5,"input_tokens_details":{"cached_tokens":-1},"output_tokens":9223372036854775807}}`))
	got, err := client(t, server.url, 0).Summarize(t.Context(), brief.Call{Model: "m", Input: "x", ChatID: chatID, UserID: userID})
	want := work.Answer{Text: "x\uFFFD", Model: "a\uFFFDb", OutputTokens: maxTokens}
	assert.Truef(t, err == nil && got == want, "%+v, %v", got, err)
}

func checkResult(t *testing.T, result chat.ModelResult) {
	for _, text := range []string{result.Model, result.ResponseID} {
		assert.Truef(t, utf8.ValidString(text) && !strings.ContainsRune(text, 0), "%q cannot be stored", text)
	}
	for _, item := range result.Items {
		for _, text := range append(item.Summary, item.Text, item.Phase, item.CallID, item.Name, item.Arguments, item.Encrypted) {
			assert.Truef(t, utf8.ValidString(text) && !strings.ContainsRune(text, 0), "%q cannot be stored", text)
		}
	}
	for _, n := range []int{result.Usage.InputTokens, result.Usage.CachedTokens, result.Usage.OutputTokens} {
		assert.Truef(t, n >= 0 && n <= maxTokens, "%d tokens", n)
	}
}

// readingFrom is a stream of an answer's body.
func readingFrom(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser) *stream {
	s := &stream{ctx: ctx, cancel: cancel, idle: time.Hour, watchdog: time.NewTimer(time.Hour)}
	s.listen(body)
	s.decode = (&responses{stream: s}).decode
	return s
}

// For any bytes of a server the text can be stored and the end is a result or a *fault.Error.
func FuzzStream(f *testing.F) {
	for _, end := range oddEnds {
		f.Add(delta(`"a\u0000\ud83d"`)+"event: response.completed\ndata: "+end+"\n\n", false)
	}
	for _, stream := range []string{
		"", completedEvent, delta("7") + completedEvent, delta(`"x"`), delta(`{"a":1}`), event("response.failed", `,"response":{"error":{"code":["x"]}}`),
		event("error", `,"code":5`), event("response.incomplete", `,"response":{"incomplete_details":{"reason":"content_filter"}}`),
		event("response.output_text.done", `,"output_index":1e9,"text":"x"`) + event("response.refusal.done", `,"output_index":99999999999999999999,"refusal":"y"`),
		event("response.output_item.added", `,"item":{"type":"message"}`) +
			event("response.output_item.done", `,"item":{"type":"message","content":[{"type":"output_text","text":"\u0000"},{"type":"refusal"},7]}`),
		event("response.content_part.added", `,"part":{"type":"refusal"}`) + event("response.content_part.done", `,"part":{"type":"output_text","text":["x"]}`),
		event("response.completed", `,"response":{"output":[{"type":"message","content":[{"type":"output_text","text":"x"}]},{"type":"message","content":{}},7]}`),
		"data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n", "event: response.output_text.delta\ndata: {\"delta\":\n\n", "\xff\xfe",
	} {
		f.Add(stream, false)
	}
	for _, chunks := range foreignChunks {
		f.Add(chunks.stream, true)
	}
	f.Fuzz(func(t *testing.T, sent string, isChat bool) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := readingFrom(ctx, cancel, io.NopCloser(strings.NewReader(sent)))
		if isChat {
			s.decode = (&completions{stream: s}).decode
		}
		for s.Next() {
			d := s.Delta()
			assert.Truef(t, d != "" && utf8.ValidString(d) && !strings.ContainsRune(d, 0), "the delta %q", d)
		}
		assert.NoError(t, s.Close())
		result := s.Result()
		checkResult(t, result)
		if (s.Err() == nil) != (result.FinishReason != "") || s.Err() != nil && (fault.CodeOf(s.Err()) == fault.Internal || result.Usage != (streaming.Usage{})) {
			t.Errorf("%v with %+v", s.Err(), result)
		}
	})
}

// endless is a body that repeats some bytes for ever.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

// A delta as the API sends it, from the response's bytes to a string.
func BenchmarkDelta(b *testing.B) {
	sent := strings.Repeat("event: response.output_text.delta\n"+
		`data: {"type":"response.output_text.delta","sequence_number":173,"item_id":"msg_0193a1b2c3d4e5f60193a1b2c3d4e5f6","output_index":1,"content_index":0,`+
		`"delta":" word","logprobs":[],"obfuscation":"gXk2Pq"}`+"\n\n", 64)
	ctx, cancel := context.WithCancelCause(context.Background())
	s := readingFrom(ctx, cancel, io.NopCloser(&endless{text: sent}))
	b.ReportAllocs()
	for b.Loop() {
		if !s.Next() || s.Delta() != " word" {
			b.Fatal(s.Err())
		}
	}
}
