package llm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/chat"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/streaming"
)

func TestStreamGivesTextAndResult(t *testing.T) {
	t.Parallel()
	server := model(t, always(offline.Answer{Text: fourWords, Usage: &offline.Usage{Input: 30, Cached: 20, Output: 4, Reasoning: 1}}))
	got := read(t.Context(), client(t, server.BaseURL(), 0), nil)
	require.Truef(t, got.err == nil && got.text == fourWords && got.deltas == 4, "%q in %d pieces, %v", got.text, got.deltas, got.err)
	assert.True(t, got.result.ResponseID != "", "no response id")
	got.result.ResponseID = ""
	want := chat.ModelResult{Model: "gpt-5.6-terra", FinishReason: "stop", Usage: streaming.Usage{InputTokens: 30, CachedTokens: 20, OutputTokens: 4},
		Items: []chat.Item{{Type: chat.ItemMessage, Text: fourWords}}}
	assert.Equal(t, want, got.result)
}

// The requests, field by field. Nothing else is sent.
func TestCallsSendTheseParameters(t *testing.T) {
	t.Parallel()
	summarize := func(call brief.Call) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error { _, err := c.Summarize(ctx, call); return err }
	}
	reply := func(ask chat.ModelRequest) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error { return readTo(ctx, c, ask, nil).err }
	}
	secondTry, bare := hostedCall(), question()
	secondTry.Instructions, bare.Instructions = "The last one was empty.", ""
	hosted := map[string]any{"id": "pmpt_1", "version": "7"}
	terra := map[string]any{"model": "gpt-5.6-terra", "input": question().Input, "stream": true}
	for _, c := range []struct {
		name, purpose string
		call          func(context.Context, *Client) error
		want          map[string]any
	}{
		{"a reply", "reply", reply(question()), with(terra, "instructions", "Be brief.")},
		{"a reply without instructions", "reply", reply(bare), terra},
		{"an inline fold", "fold", summarize(inlineCall()), map[string]any{"model": "gpt-5.6-luna", "instructions": "Summarize.", "input": foldInput}},
		{"a hosted one names no model", "fold", summarize(hostedCall()), map[string]any{"prompt": hosted, "input": foldInput}},
		{"a hosted one, once more", "fold", summarize(secondTry), map[string]any{
			"prompt": hosted, "instructions": "The last one was empty.", "input": foldInput,
		}},
		{"a question", "entities", func(ctx context.Context, c *Client) error { _, err := c.Ask(ctx, asking()); return err }, map[string]any{
			"model": "gpt-5.6-luna", "instructions": "Name them.", "input": "I play the cello.",
			"text": map[string]any{"format": map[string]any{
				"type": "json_schema", "name": "named", "strict": true, "schema": map[string]any{
					"type": "object", "additionalProperties": false, "required": []any{"names"},
					"properties": map[string]any{"names": map[string]any{"type": "array", "items": map[string]any{"type": "string"}}},
				},
			}},
		}},
		{"words", "entities", func(ctx context.Context, c *Client) error { _, err := c.Write(ctx, asking()); return err }, map[string]any{
			"model": "gpt-5.6-luna", "instructions": "Name them.", "input": "I play the cello.",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := model(t, always(offline.Answer{Text: namedCello}))
			require.NoError(t, c.call(t.Context(), client(t, server.BaseURL(), 0)))
			digest := sha256.Sum256([]byte(userID.String()))
			want := with(c.want, "metadata", map[string]any{"purpose": c.purpose}, "store", false,
				"prompt_cache_key", chatID.String(), "safety_identifier", hex.EncodeToString(digest[:]))
			assert.Equal(t, want, bodyOf(t, server))
		})
	}
}

// with returns the fields with more of them: names and values.
func with(fields map[string]any, more ...any) map[string]any {
	all := maps.Clone(fields)
	for n := 0; n < len(more); n += 2 {
		all[more[n].(string)] = more[n+1]
	}
	return all
}

// bodyOf returns the body of the only request.
func bodyOf(t *testing.T, server *offline.Server) map[string]any {
	asked := server.Requests()
	require.Truef(t, len(asked) == 1 && len(server.Refused()) == 0, "%d requests, refused %v", len(asked), server.Refused())
	var body map[string]any
	require.NoError(t, json.Unmarshal(asked[0].Body, &body))
	return body
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
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.answer.Text = fourWords
			server := model(t, always(c.answer))
			got := read(t.Context(), client(t, server.BaseURL(), 0), nil)
			assert.Truef(t, got.err == nil && got.text == c.text && got.result.FinishReason == c.reason,
				"%q, reason %q, %v", got.text, got.result.FinishReason, got.err)
			assert.Len(t, server.Requests(), 1, "calls")
		})
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
		{"bytes that are no UTF-8", []string{delta("\"a\xff\xfeb\""), completedEvent}, "a\uFFFDb", "stop"},
		{"NUL in the text", []string{delta(`"a\u0000b"`), completedEvent}, "a\uFFFDb", "stop"},
		{"half a surrogate", []string{delta(`"a\ud83db"`), completedEvent}, "a\uFFFDb", "stop"},
		{"a pair of surrogates", []string{delta(`"\ud83d\udc4b"`), completedEvent}, "👋", "stop"},
		{"unknown events", []string{
			event("response.brand_new", `,"delta":"not text"`), delta(`"a"`), event("response.reasoning_text.delta", `,"delta":"thoughts"`), completedEvent,
		}, "a", "stop"},
		{"an unknown event that is no JSON", []string{"event: weather\ndata: rain\n\n", delta(`"a"`), completedEvent}, "a", "stop"},
		{"no event lines", []string{"data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n",
			"data: {\"type\":\"response.completed\",\"response\":{}}\n\n"}, "a", "stop"},
		{"[DONE] after the end", []string{delta(`"a"`), completedEvent, "data: [DONE]\n\n"}, "a", "stop"},
		{"text after the end", []string{delta(`"a"`), completedEvent, delta(`"b"`)}, "a", "stop"},
		{"empty deltas", []string{delta(`""`), delta(`"a"`), delta(`""`), completedEvent}, "a", "stop"},
		{"a refusal is what the model says", []string{event("response.refusal.delta", `,"delta":"I would rather not."`), completedEvent},
			"I would rather not.", "stop"},
		{"incomplete for an unknown reason", []string{delta(`"a"`), event("response.incomplete", `,"response":{"incomplete_details":{"reason":"tired"}}`)},
			"a", "length"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, sends(c.stream...))
			got := read(t.Context(), client(t, server.url, 0), nil)
			assert.Truef(t, got.err == nil && got.text == c.text && got.result.FinishReason == c.reason,
				"%q, reason %q, %v", got.text, got.result.FinishReason, got.err)
		})
	}
}

// Each text is said once, however and how often its server tells it, and apart from the next.
func TestTextsOfAnOutput(t *testing.T) {
	t.Parallel()
	at := func(item, content int) string {
		return fmt.Sprintf(`,"output_index":%d,"content_index":%d`, item, content)
	}
	piece := func(place, text string) string {
		return event("response.output_text.delta", place+`,"delta":"`+text+`"`)
	}
	whole := func(place, text string) string { return event("response.output_text.done", place+`,"text":"`+text+`"`) }
	part := func(text string) string { return `{"type":"output_text","text":"` + text + `"}` }
	refusal := func(text string) string { return `{"type":"refusal","refusal":"` + text + `"}` }
	partDone := func(place, part string) string { return event("response.content_part.done", place+`,"part":`+part) }
	message := func(parts ...string) string { return `{"type":"message","content":[` + strings.Join(parts, ",") + `]}` }
	itemAdded := func(place, kind string) string {
		return event("response.output_item.added", place+`,"item":{"type":"`+kind+`","content":[]}`)
	}
	itemDone := func(place, item string) string { return event("response.output_item.done", place+`,"item":`+item) }
	completed := func(items ...string) string {
		return event("response.completed", `,"response":{"output":[`+strings.Join(items, ",")+`]}`)
	}
	const thoughts = `{"type":"reasoning","content":[{"type":"reasoning_text","text":"thoughts"}],"summary":[{"type":"summary_text","text":"summary"}]}`
	for _, c := range []struct {
		name   string
		stream []string
		text   string
		deltas int
	}{
		{"two items", []string{piece(at(0, 0), "look at it."), piece(at(1, 0), "The "), piece(at(1, 0), "answer"), completedEvent}, "look at it.\n\nThe answer", 3},
		{"two parts of an item", []string{piece(at(0, 0), "one"), piece(at(0, 1), "two"), completedEvent}, "one\n\ntwo", 2},
		{"a text and a refusal", []string{piece(at(0, 0), "one"), event("response.refusal.delta", at(0, 1)+`,"delta":"no"`), completedEvent}, "one\n\nno", 2},
		{"two items that are announced and not numbered", []string{
			itemAdded("", "message"), piece("", "one"), itemAdded("", "message"), piece("", "two"), completedEvent,
		}, "one\n\ntwo", 2},
		{"two parts that are announced and not numbered", []string{
			piece("", "one"), event("response.content_part.added", `,"part":`+part("")), piece("", "two"), completedEvent,
		}, "one\n\ntwo", 2},
		{"items of other kinds in between", []string{
			itemAdded(at(0, 0), "reasoning"), itemDone(at(0, 0), thoughts), piece(at(1, 0), "on"),
			itemAdded(at(2, 0), "web_search_call"), event("response.content_part.added", at(2, 0)+`,"part":{"type":"reasoning_text","text":""}`),
			piece(at(1, 0), "e"), completedEvent,
		}, "one", 2},
		{"all of it told again", []string{
			itemAdded(at(0, 0), "message"), piece(at(0, 0), "on"), piece(at(0, 0), "e"), whole(at(0, 0), "one"), partDone(at(0, 0), part("one")),
			piece(at(0, 1), "two"), whole(at(0, 1), "two"), partDone(at(0, 1), part("two")), itemDone(at(0, 0), message(part("one"), part("two"))),
			completed(message(part("one"), part("two"))),
		}, "one\n\ntwo", 3},
		{"told again under other numbers", []string{
			piece("", "one"), piece(at(0, 1), "two"), whole(at(3, 0), "one"), partDone(at(3, 1), part("two")), itemDone(at(4, 0), message(part("one"), part("two"))),
			completed(thoughts, message(part("one"), part("two"))),
		}, "one\n\ntwo", 2},
		{"told as a whole", []string{
			itemAdded(at(0, 0), "message"), whole(at(0, 0), "one"), partDone(at(0, 0), part("one")), itemDone(at(0, 0), message(part("one"))),
			completed(message(part("one"))),
		}, "one", 1},
		{"the first in pieces, the second as a whole", []string{piece(at(0, 0), "a"), whole(at(0, 0), "a"), whole(at(1, 0), "b"), completedEvent}, "a\n\nb", 2},
		{"a refusal as a whole", []string{event("response.refusal.done", at(0, 0)+`,"refusal":"no"`), partDone(at(0, 0), refusal("no")), completedEvent}, "no", 1},
		{"only at the end of parts", []string{partDone(at(0, 0), part("one")), partDone(at(0, 1), refusal("two")), completedEvent}, "one\n\ntwo", 2},
		{"only at the end of items", []string{
			itemDone(at(0, 0), thoughts), itemDone(at(1, 0), message(part("one"), refusal("two"))), itemDone(at(2, 0), message(part("three"))), completedEvent,
		}, "one\n\ntwo\n\nthree", 2},
		{"only at the end", []string{completed(thoughts, message(part("one"), refusal("two")), message(part("three")))}, "one\n\ntwo\n\nthree", 1},
		{"only at an end that came early", []string{
			event("response.incomplete", `,"response":{"incomplete_details":{"reason":"max_output_tokens"},"output":[`+message(part("one"))+`]}`),
		}, "one", 1},
		{"empty texts", []string{whole(at(0, 0), ""), partDone(at(1, 0), part("")), piece(at(2, 0), "one"), piece(at(3, 0), ""), completedEvent}, "one", 1},
		{"bytes that are replaced", []string{piece(at(0, 0), `a\u0000`), whole(at(0, 0), `a\u0000`), whole(at(7, 0), `a\u0000`), completedEvent}, "a\uFFFD", 1},
		{"numbers written with a space", []string{piece(`,"output_index": 10`, "one"), piece(`,"output_index": 11`, "two"), completedEvent}, "one\n\ntwo", 2},
		{"a text that speaks of numbers", []string{piece(at(0, 0), `one`), piece(at(0, 0), ` \"output_index\":7`), completedEvent}, `one "output_index":7`, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, sends(c.stream...))
			got := read(t.Context(), client(t, server.url, 0), nil)
			assert.Truef(t, got.err == nil && got.text == c.text && got.deltas == c.deltas && got.result.FinishReason != "",
				"%q in %d pieces, want %q in %d; reason %q, %v", got.text, got.deltas, c.text, c.deltas, got.result.FinishReason, got.err)
		})
	}
}

// A model that thinks for long sends comments, or nothing but its proxy does, and a slow one sends pieces. Together they take
// longer than the idle timeout, but no pause does. It runs on a clock of its own.
func TestSlowModelIsNoSilentOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const idle = time.Minute
		ctx, cancel := context.WithCancelCause(t.Context())
		body, server := io.Pipe()
		s := &stream{ctx: ctx, cancel: cancel, idle: idle}
		s.watchdog = time.AfterFunc(idle, func() { cancel(errIdle) })
		s.listen(body)
		s.decode = (&responses{stream: s}).decode
		go func() {
			for range 20 {
				time.Sleep(idle - time.Second)
				_, _ = io.WriteString(server, ": thinking\n\n") // the reader fails the test if it is gone
			}
			for range 20 {
				_, _ = io.WriteString(server, delta(`"a"`))
				time.Sleep(idle - time.Second)
			}
			time.Sleep(2 * time.Second)
			_ = server.Close()
		}()
		for n := range 20 {
			require.Truef(t, s.Next() && s.Delta() == "a", "no text after %d pieces: %v", n, s.Err())
		}
		assert.Falsef(t, s.Next(), "more text: %q", s.Delta())
		wantFault(t, s.Err(), fault.UpstreamTimeout)
		assert.NoError(t, s.Close())
	})
}

// Closing a stream early ends the call, so that the provider stops writing and billing.
func TestCloseEndsTheCall(t *testing.T) {
	t.Parallel()
	server := model(t, always(offline.Answer{Text: fourWords, Fault: offline.FaultHang, FaultAfter: 2}))
	stream, err := client(t, server.BaseURL(), 0).Stream(t.Context(), question())
	require.Truef(t, err == nil && stream.Next(), "%v %v", "no text", err)
	assert.NoError(t, stream.Close(), "close")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = server.Await(ctx, func(r offline.Request) bool { return r.HungUp })
	assert.NoErrorf(t, err, "the call goes on: %v", err)
}

func TestNextAfterTheEndStaysAtTheEnd(t *testing.T) {
	t.Parallel()
	server := model(t, always(offline.Answer{Text: "Fine."}))
	stream, err := client(t, server.BaseURL(), 0).Stream(t.Context(), question())
	require.NoError(t, err)
	defer func() { _ = stream.Close() }()
	for stream.Next() {
	}
	assert.Truef(t, !stream.Next() && stream.Err() == nil && stream.Result().FinishReason == "stop", "%v, %+v", stream.Err(), stream.Result())
}
