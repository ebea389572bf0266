package streaming

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// follower is one reader of the property below: where it starts, and when.
type follower struct {
	after int // characters it has
	start int // pieces that are written before it starts
}

// Whatever the pieces, and whenever and wherever readers start: each gets all the text after its position, in order,
// and one terminal event.
func TestEveryReaderGetsTheSameText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.OneOf(
			rapid.StringN(0, 12, -1),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 6), func(raw []byte) string { return string(raw) }),
			rapid.SampledFrom([]string{"👩\u200d👧", "e\u0301", "\x00", "\uFFFD", "\xf0\x9f"}),
		), 0, 3*maxLag).Draw(t, "pieces")
		var want strings.Builder
		for _, piece := range pieces {
			want.WriteString(strings.ToValidUTF8(piece, "\uFFFD"))
		}
		runes := []rune(want.String())
		followers := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) follower {
			return follower{after: rapid.IntRange(-1, len(runes)+3).Draw(t, "after"), start: rapid.IntRange(0, len(pieces)).Draw(t, "start")}
		}), 1, 6).Draw(t, "followers")

		var relay Relay
		results := relayTo(&relay, pieces, followers)
		for i, f := range followers {
			got := <-results[i]
			from := min(max(f.after, 0), len(runes))
			if got.err != nil || got.from != from || got.text != string(runes[from:]) {
				t.Errorf("%+v: %v, %q from %d, want %q from %d", f, got.err, got.text, got.from, string(runes[from:]), from)
			}
		}
		if text, chars := relay.Text(); text != want.String() || chars != len(runes) {
			t.Errorf("%q of %d characters, want %q", text, chars, want.String())
		}
	})
}

type followed struct {
	text string
	from int
	err  error
}

// relayTo writes the pieces while the followers read, each on a goroutine of its own.
func relayTo(relay *Relay, pieces []string, followers []follower) []chan followed {
	results := make([]chan followed, len(followers))
	for written := range len(pieces) + 1 {
		for i, f := range followers {
			if f.start == written {
				results[i] = make(chan followed, 1)
				reader := relay.Read(f.after)
				go func() {
					defer reader.Close()
					text, from, err := followToEnd(reader)
					results[i] <- followed{text, from, err}
				}()
			}
		}
		if written < len(pieces) {
			relay.Append(pieces[written])
		}
	}
	relay.End(done("stop"))
	return results
}

// followToEnd also checks that each chunk follows the one before, and returns where the first is.
func followToEnd(reader *Reader) (text string, from int, err error) {
	for at := -1; ; {
		chunk, err := reader.Next(context.Background())
		if err != nil {
			return text, from, err
		}
		if at < 0 {
			at, from = chunk.Offset, chunk.Offset
		}
		if chunk.Offset != at || !utf8.Valid(chunk.Text) {
			return text, from, fmt.Errorf("chunk %q at %d, want valid UTF-8 at %d", chunk.Text, chunk.Offset, at)
		}
		if chunk.End != nil {
			return text, from, nil
		}
		text += string(chunk.Text)
		at += utf8.RuneCount(chunk.Text)
	}
}
