package streaming

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Parts add nothing to a stream of text alone: testdata has such streams from a version without parts.
func TestStreamsOfTextAreAsRecorded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]Terminal{
		"completed": {Completed: &Completed{MessageID: replyID, ChatID: chatID, FinishReason: "length", ModelVariant: "arco",
			Usage: Usage{InputTokens: 3, CachedTokens: 2, OutputTokens: 1}, ContentLength: 29, Memory: json.RawMessage(`{"brief_version":4}`)}},
		"failed":    {Failed: &Failed{MessageID: replyID, Code: "interrupted", Message: "It broke.", Retryable: true, ContentLength: 29}},
		"cancelled": {Cancelled: &Cancelled{MessageID: replyID, ContentLength: 29}},
	} {
		var relay Relay
		for _, piece := range []string{"Hé", "llo \"you\"", "\r\n\t\\", " 👋🏽 ", "\n\ndata: x", "<&>", "\u2028"} {
			relay.Append(piece)
		}
		relay.End(end)
		for protocol, file := range map[string]string{"ours": ".sse", "the AI SDK's": "_ui.sse"} {
			var got bytes.Buffer
			for _, after := range []int{0, 4} {
				encoder := encoders(&got)[protocol]
				started := Started{ChatID: chatID, UserMessageID: questionID, MessageID: replyID, ModelVariant: "arco", Resumed: after > 0, Offset: after}
				require.NoError(t, encoder.Started(started))
				reader := relay.Read(Place{Chars: after, Parts: -1})
				for ended := false; !ended; {
					chunk := next(t, reader)
					require.NoError(t, encoder.Chunk(chunk))
					ended = chunk.End != nil
				}
				reader.Close()
			}
			want, err := os.ReadFile("testdata/" + name + file)
			require.NoError(t, err)
			assert.Equalf(t, string(want), got.String(), "%s, %s", name, protocol)
		}
	}
}
