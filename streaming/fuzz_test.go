package streaming

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzStream sends a text in pieces through both encoders. For any text the framing holds (one data line of
// JSON per event, LF alone, no text outside of it) and the joined pieces are the text.
func FuzzStream(f *testing.F) {
	for _, text := range []string{"", "plain", "two\nlines\r\n\r\ndata: {}\n\nevent: completion\nid: x:end\n", "\x00\x1f\u2028\u2029\ufeff",
		"é👋🏽e\u0301", `"\\"`, "[DONE]", "\xff\xfe"} {
		f.Add(text, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, cut uint8) {
		text = strings.ToValidUTF8(text, "\uFFFD") // as a Relay does
		pieces := cutText(text, int(cut)%17+1)
		var ours, theirs bytes.Buffer
		encoder, ui := NewEncoder(&ours, replyID), NewUIEncoder(&theirs)
		offset := 0
		for _, piece := range pieces {
			require.NoError(t, encoder.Chunk(Chunk{Offset: offset, Text: []byte(piece)}))
			require.NoError(t, ui.Chunk(Chunk{Offset: offset, Text: []byte(piece)}))
			offset += utf8.RuneCountInString(piece)
		}
		assert.Equalf(t, text, joined(t, ours.String(), 3), "%q came as", text)
		assert.Equalf(t, text, joined(t, theirs.String(), 1), "%q came to the AI SDK as", text)
		end := fmt.Sprintf("\nid: %s:%d\n\n", replyID, offset)
		assert.Truef(t, len(pieces) == 0 || strings.HasSuffix(ours.String(), end), "the last event does not end with %q", end)
	})
}

// cutText returns pieces of at most size characters.
func cutText(text string, size int) []string {
	var pieces []string
	for runes := []rune(text); len(runes) > 0; {
		n := min(size, len(runes))
		pieces, runes = append(pieces, string(runes[:n])), runes[n:]
	}
	return pieces
}

// joined returns the joined deltas of a stream. An event may have at most maxLines lines.
func joined(t *testing.T, stream string, maxLines int) string {
	assert.NotContainsf(t, stream, "\r", "a carriage return in %q", stream)
	var text strings.Builder
	for event := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		data := 0
		lines := strings.Split(event, "\n")
		for _, line := range lines {
			raw, found := strings.CutPrefix(line, "data: ")
			if !found {
				continue
			}
			data++
			var delta struct{ Delta string }
			err := json.Unmarshal([]byte(raw), &delta)
			assert.Truef(t, err == nil, "%v in %q", err, raw)
			text.WriteString(delta.Delta)
		}
		assert.Truef(t, event == "" || (data == 1 && len(lines) <= maxLines), "%d data lines of %d in %q", data, len(lines), event)
	}
	return text.String()
}
