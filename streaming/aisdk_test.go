package streaming

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const uiReplyID = "0193a1b2-0000-7000-8000-000000000003"

func TestUIEventsToTheByte(t *testing.T) {
	t.Parallel()
	text := Chunk{Text: []byte("a \"b\"\\\r\n é 👋🏽 \u2028")}
	for _, c := range []struct {
		name string
		send func(*UIEncoder) error
		want []string // one Write each
	}{
		{"started", func(e *UIEncoder) error {
			return e.Started(Started{ChatID: chatID, UserMessageID: questionID, MessageID: replyID, ModelVariant: "arco", Resumed: true, Offset: 7})
		}, []string{`data: {"type":"start","messageId":"` + uiReplyID + `","messageMetadata":{"status":"streaming",` +
			`"chat_id":"0193a1b2-0000-7000-8000-000000000001","user_message_id":"0193a1b2-0000-7000-8000-000000000002","message_id":"` + uiReplyID +
			`","model_variant":"arco","resumed":true,"offset":7}}` + "\n\n"}},
		{"text", func(e *UIEncoder) error { return errors.Join(e.Chunk(text), e.Chunk(text)) }, []string{
			`data: {"type":"text-start","id":"text"}` + "\n\n" +
				`data: {"type":"text-delta","id":"text","delta":"a \"b\"\\\u000d\n é 👋🏽 ` + "\u2028" + `"}` + "\n\n",
			`data: {"type":"text-delta","id":"text","delta":"a \"b\"\\\u000d\n é 👋🏽 ` + "\u2028" + `"}` + "\n\n",
		}},
		{"completed", ending(Terminal{Completed: &Completed{
			MessageID: replyID, ChatID: chatID, FinishReason: "content_filter", ModelVariant: "arco",
			Usage: Usage{InputTokens: 3, CachedTokens: 2, OutputTokens: 1}, ContentLength: 9, Memory: json.RawMessage(`{"brief_version":4}`),
		}}), []string{`data: {"type":"finish","finishReason":"content-filter","messageMetadata":{"status":"complete","message_id":"` + uiReplyID +
			`","chat_id":"0193a1b2-0000-7000-8000-000000000001","finish_reason":"content_filter","model_variant":"arco",` +
			`"usage":{"input_tokens":3,"cached_tokens":2,"output_tokens":1},"content_length":9,"memory":{"brief_version":4}}}` + "\n\ndata: [DONE]\n\n"}},
		{"failed", ending(Terminal{Failed: &Failed{MessageID: replyID, Code: "upstream_failed", Message: "It broke.", Retryable: true, ContentLength: 4}}),
			[]string{`data: {"type":"message-metadata","messageMetadata":{"status":"failed","message_id":"` + uiReplyID +
				`","code":"upstream_failed","message":"It broke.","retryable":true,"content_length":4}}` + "\n\n" +
				`data: {"type":"error","errorText":"It broke."}` + "\n\ndata: [DONE]\n\n"}},
		{"cancelled", ending(Terminal{Cancelled: &Cancelled{MessageID: replyID, ContentLength: 12}}),
			[]string{`data: {"type":"message-metadata","messageMetadata":{"status":"cancelled","message_id":"` + uiReplyID + `","content_length":12}}` + "\n\n" +
				`data: {"type":"abort"}` + "\n\ndata: [DONE]\n\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out wire
			require.NoError(t, c.send(NewUIEncoder(&out)))
			assert.Equal(t, c.want, out.writes)
		})
	}
}

func ending(end Terminal) func(*UIEncoder) error {
	return func(e *UIEncoder) error { return e.Chunk(Chunk{End: &end}) }
}

func TestUIPaddingIsTheSame(t *testing.T) {
	t.Parallel()
	var ours, theirs wire
	require.NoError(t, errors.Join(NewEncoder(&ours, replyID).Padding(), NewUIEncoder(&theirs).Padding()))
	assert.Equal(t, ours.writes, theirs.writes)
}

// An app compares these with a stored message's status.
func TestUIStatusOfAFailure(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{"interrupted": "interrupted", "upstream_timeout": "failed", "internal": "failed", "": "failed"} {
		assert.Equalf(t, want, uiFailedStatus(&Failed{Code: code}), "%q", code)
	}
}

// Clients break on a word that the protocol does not know.
func TestUIFinishReasons(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{"stop": "stop", "length": "length", "content_filter": "content-filter", "": "other", "tired": "other"} {
		assert.Equalf(t, want, uiFinishReason(reason), "%q", reason)
	}
}

// However a reply is cut into pieces, wherever a reader starts and however it ends: the events have an order that
// the protocol's clients accept, and the joined deltas are the text.
func TestUIStreamOfAnyReply(t *testing.T) {
	t.Parallel()
	endings := []Terminal{
		done("stop"), {Cancelled: &Cancelled{}}, {Failed: &Failed{Code: "interrupted", Message: "It broke."}}, {Failed: &Failed{}},
	}
	rapid.Check(t, func(t *rapid.T) {
		var relay Relay
		text := ""
		for _, piece := range rapid.SliceOfN(rapid.String(), 0, 8).Draw(t, "pieces") {
			relay.Append(piece)
			text += strings.ToValidUTF8(piece, "\uFFFD")
		}
		relay.End(rapid.SampledFrom(endings).Draw(t, "end"))
		after := rapid.IntRange(0, utf8.RuneCountInString(text)).Draw(t, "after")
		got := readUI(t, encodeUI(t, &relay, after))
		assert.Equalf(t, got, string([]rune(text)[after:]), "after %d of %q: %q", after, text, got)
	})
}

func encodeUI(t *rapid.T, relay *Relay, after int) string {
	var out wire
	encoder := NewUIEncoder(&out)
	reader := relay.Read(Place{Chars: after, Parts: -1})
	defer reader.Close()
	err := encoder.Started(Started{Offset: after})
	for end := false; !end && err == nil; {
		var chunk Chunk
		if chunk, err = reader.Next(t.Context()); err == nil {
			err = encoder.Chunk(chunk)
		}
		end = chunk.End != nil
	}
	require.NoError(t, err)
	return strings.Join(out.writes, "")
}

// readUI reads a stream as strictly as the protocol's clients do, and returns the text.
func readUI(t *rapid.T, stream string) string {
	follows := map[string]string{ // what may come after what
		"": "start", "start": "text-start finish message-metadata", "text-start": "text-delta", "text-delta": "text-delta text-end",
		"text-end": "finish message-metadata", "message-metadata": "abort error", "finish": "[DONE]", "abort": "[DONE]", "error": "[DONE]",
	}
	last, text := "", ""
	for block := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		data, found := strings.CutPrefix(block, "data: ")
		require.Truef(t, found && !strings.ContainsAny(data, "\r\n"), "this is no event: %q", block)
		event := struct {
			Type, ID, Delta string
			ErrorText       *string
		}{Type: data}
		if data != "[DONE]" {
			require.NoError(t, json.Unmarshal([]byte(data), &event))
		}
		require.Truef(t, strings.Contains(" "+follows[last]+" ", " "+event.Type+" "), "%q after %q", event.Type, last)
		assert.Truef(t, (!strings.HasPrefix(event.Type, "text-") || event.ID == "text") && (event.Type != "error" || event.ErrorText != nil),
			"a field is missing: %s", data)
		last, text = event.Type, text+event.Delta
	}
	assert.Truef(t, last == "[DONE]", "the stream ends with %q", last)
	return text
}
