package streaming

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// done returns a terminal event that tests recognise by its reason.
func done(reason string) Terminal { return Terminal{Completed: &Completed{FinishReason: reason}} }

func broken(code string) Terminal { return Terminal{Failed: &Failed{Code: code}} }

// next returns a chunk that is there already: it does not wait.
func next(t *testing.T, reader *Reader) Chunk {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	chunk, err := reader.Next(ctx)
	require.NoError(t, err, "nothing to read")
	return chunk
}

// drain reads everything up to the terminal event.
func drain(t *testing.T, reader *Reader) (pieces []string, end *Terminal) {
	for {
		chunk := next(t, reader)
		if chunk.End != nil {
			return pieces, chunk.End
		}
		pieces = append(pieces, string(chunk.Text))
	}
}

func TestReaderThatKeepsUpGetsEachPiece(t *testing.T) {
	t.Parallel()
	var relay Relay
	reader := relay.Read(Place{})
	defer reader.Close()
	offset := 0
	for _, piece := range []string{"Hé", "llo", " 👋🏽", " wörld"} {
		relay.Append(piece)
		chunk := next(t, reader)
		assert.Truef(t, string(chunk.Text) == piece && chunk.Offset == offset && chunk.End == nil,
			"chunk %q at %d, want %q at %d", chunk.Text, chunk.Offset, piece, offset)
		offset += utf8.RuneCountInString(piece)
	}
	relay.End(done("stop"))
	chunk := next(t, reader)
	assert.Truef(t, chunk.End != nil && chunk.Offset == offset && chunk.Text == nil, "no end at %d: %+v", offset, chunk)
}

func TestChunkTellsWhetherThereIsMoreText(t *testing.T) {
	t.Parallel()
	var relay Relay
	reader := relay.Read(Place{})
	defer reader.Close()
	for _, behind := range []int{1, 3} {
		for range behind {
			relay.Append("ab")
		}
		for left := range behind {
			assert.Equalf(t, (left < behind-1), next(t, reader).More, "chunk %d of %d: more", left+1, behind)
		}
	}
	relay.Append("the last text")
	relay.End(done("stop"))
	assert.False(t, next(t, reader).More, "the end counts as text")
}

func TestReaderFarBehindGetsOneLargePiece(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		behind, chunks int
	}{{1, 1}, {maxLag, maxLag}, {maxLag + 1, 1}, {100 * maxLag, 1}} {
		var relay Relay
		reader := relay.Read(Place{})
		for range c.behind {
			relay.Append("ab")
		}
		relay.End(done("stop"))
		pieces, _ := drain(t, reader)
		assert.Truef(t, len(pieces) == c.chunks && strings.Join(pieces, "") == strings.Repeat("ab", c.behind),
			"%d pieces behind: %d chunks, want %d", c.behind, len(pieces), c.chunks)
		reader.Close()
	}
}

func TestReaderThatCaughtUpGetsPiecesAgain(t *testing.T) {
	t.Parallel()
	var relay Relay
	reader := relay.Read(Place{})
	defer reader.Close()
	for range maxLag + 1 {
		relay.Append("x")
	}
	next(t, reader)
	relay.Append("y")
	relay.Append("z")
	relay.End(done("stop"))
	pieces, _ := drain(t, reader)
	assert.Equal(t, []string{"y", "z"}, pieces)
}

// A reader that starts past the end waits until the text gets there.
func TestReaderPastTheEndWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var relay Relay
		reader := relay.Read(Place{Chars: 4, Parts: -1})
		defer reader.Close()
		got := make(chan Chunk, 1)
		go func() {
			chunk, err := reader.Next(t.Context())
			assert.NoError(t, err, "next")
			got <- chunk
		}()
		for _, piece := range []string{"ab", "cd"} {
			relay.Append(piece)
			synctest.Wait()
			select {
			case chunk := <-got:
				t.Fatalf("got %q at %d too early", chunk.Text, chunk.Offset)
			default:
			}
		}
		relay.Append("ef")
		chunk := <-got
		assert.Truef(t, string(chunk.Text) == "ef" && chunk.Offset == 4, "got %q at %d", chunk.Text, chunk.Offset)
	})
}

func TestOnlyTheFirstEndCounts(t *testing.T) {
	t.Parallel()
	var relay Relay
	relay.End(done("first"))
	relay.End(broken("second"))
	reader := relay.Read(Place{})
	defer reader.Close()
	for range 2 { // a second Next returns the end again
		_, end := drain(t, reader)
		assert.Truef(t, end.Completed != nil && end.Completed.FinishReason == "first", "ended with %+v", end)
	}
}

func TestNextEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var relay Relay
		reader := relay.Read(Place{})
		defer reader.Close()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := reader.Next(ctx)
			failed <- err
		}()
		synctest.Wait()
		cancel()
		assert.ErrorIs(t, <-failed, context.Canceled, "got")
		relay.Append("still there")
		chunk := next(t, reader)
		assert.Equalf(t, "still there", string(chunk.Text), "got %q", chunk.Text)
	})
}

// The writer of this test would hang if it waited for a reader.
func TestReaderThatNeverReadsDoesNotBlockTheWriter(t *testing.T) {
	t.Parallel()
	var relay Relay
	idle, late := relay.Read(Place{}), relay.Read(Place{})
	defer idle.Close()
	defer late.Close()
	for range 10_000 {
		relay.Append("word ")
	}
	relay.End(done("stop"))
	pieces, _ := drain(t, late)
	assert.Truef(t, len(pieces) == 1 && len(pieces[0]) == 50_000, "%d chunks", len(pieces))
}

// A chunk is the relay's own memory: later pieces must not change it.
func TestChunksNeverChange(t *testing.T) {
	t.Parallel()
	var relay Relay
	reader := relay.Read(Place{})
	defer reader.Close()
	var kept [][]byte
	var want []string
	for i := range 1000 {
		piece := strings.Repeat(string(rune('a'+i%26)), i%7+1)
		relay.Append(piece)
		kept = append(kept, next(t, reader).Text)
		want = append(want, piece)
	}
	_ = append(kept[0], "over the next piece"...) // a chunk has no room behind it
	for i := range kept {
		require.Truef(t, string(kept[i]) == want[i], "chunk %d became %q, was %q", i, kept[i], want[i])
	}
	text, _ := relay.Text()
	assert.Equal(t, strings.Join(want, ""), text, "the text was changed through a chunk")
}

func TestClosedReaderIsRemoved(t *testing.T) {
	t.Parallel()
	var relay Relay
	gone, stays := relay.Read(Place{}), relay.Read(Place{})
	gone.Close()
	gone.Close()
	assert.Truef(t, len(relay.readers) == 1, "%d readers are known", len(relay.readers))
	relay.Append("a")
	relay.End(done("stop"))
	pieces, _ := drain(t, stays)
	assert.Equalf(t, 1, len(pieces), "the other reader got %q", pieces)
	stays.Close()
}

func TestWaitOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		play func(*Relay)
		want string // the name of the terminal event, "" for none
	}{
		{"accepted, silent so far", func(r *Relay) { r.Open() }, ""},
		{"speaking", func(r *Relay) { r.Append("a") }, ""},
		{"refused", func(r *Relay) { r.End(broken("upstream_failed")) }, EventFailed},
		{"accepted, then broken before a word", func(r *Relay) { r.Open(); r.End(broken("upstream_failed")) }, ""},
		{"broken after a word", func(r *Relay) { r.Append("a"); r.End(broken("upstream_failed")) }, ""},
		{"complete without a word", func(r *Relay) { r.Open(); r.End(done("stop")) }, ""},
		{"complete", func(r *Relay) { r.Open(); r.Append("a"); r.End(done("stop")) }, ""},
		{"cancelled before a word", func(r *Relay) { r.End(Terminal{Cancelled: &Cancelled{}}) }, EventCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var relay Relay
				early := relay.Read(Place{})
				defer early.Close()
				answer := make(chan *Terminal, 1)
				go func() {
					end, err := early.WaitOpen(t.Context())
					assert.NoError(t, err, "early")
					answer <- end
				}()
				synctest.Wait()
				require.Equal(t, 0, len(answer), "open before anything happened")
				c.play(&relay)
				late := relay.Read(Place{})
				defer late.Close()
				end, err := late.WaitOpen(t.Context())
				assert.Truef(t, err == nil && nameOf(end) == c.want, "late: %q, %v; want %q", nameOf(end), err, c.want)
				assert.Equal(t, c.want, nameOf(<-answer), "early")
			})
		})
	}
}

func nameOf(end *Terminal) string {
	if end == nil {
		return ""
	}
	return end.Name()
}

func TestWaitOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	var relay Relay
	reader := relay.Read(Place{})
	defer reader.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	end, err := reader.WaitOpen(ctx)
	assert.Truef(t, end == nil && errors.Is(err, context.Canceled), "%v, %v", end, err)
}

// Waiting takes no text away.
func TestWaitOpenLeavesTheTextToNext(t *testing.T) {
	t.Parallel()
	var relay Relay
	reader := relay.Read(Place{})
	defer reader.Close()
	relay.Append("first")
	_, err := reader.WaitOpen(t.Context())
	require.NoError(t, err)
	chunk := next(t, reader)
	assert.Equalf(t, "first", string(chunk.Text), "got %q", chunk.Text)
}

// follower is one reader of the property below: where it starts, and when.
type follower struct {
	after int // characters it has
	start int // pieces that are written before it starts
}

// For any pieces, and for readers that start at any time and place: each gets all the text after its position, in order,
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
			assert.Truef(t, got.err == nil && got.from == from && got.text == string(runes[from:]),
				"%+v: %v, %q from %d, want %q from %d", f, got.err, got.text, got.from, string(runes[from:]), from)
		}
		text, chars := relay.Text()
		assert.Truef(t, text == want.String() && chars == len(runes), "%q of %d characters, want %q", text, chars, want.String())
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
				reader := relay.Read(Place{Chars: f.after, Parts: -1})
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
