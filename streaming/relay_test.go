package streaming

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// done returns a terminal event that tests recognise by its reason.
func done(reason string) Terminal { return Terminal{Completed: &Completed{FinishReason: reason}} }

func broken(code string) Terminal { return Terminal{Failed: &Failed{Code: code}} }

// next returns a chunk that is there already: it does not wait.
func next(t *testing.T, reader *Reader) Chunk {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	chunk, err := reader.Next(ctx)
	require.NoError(t, err, "nothing to read")
	return chunk
}

// drain reads everything up to the terminal event.
func drain(t *testing.T, reader *Reader) (pieces []string, end *Terminal) {
	t.Helper()
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
	reader := relay.Read(0)
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
	reader := relay.Read(0)
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
		reader := relay.Read(0)
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
	reader := relay.Read(0)
	defer reader.Close()
	for range maxLag + 1 {
		relay.Append("x")
	}
	next(t, reader)
	relay.Append("y")
	relay.Append("z")
	relay.End(done("stop"))
	pieces, _ := drain(t, reader)
	assert.Equal(t, "", cmp.Diff([]string{"y", "z"}, pieces))
}

// A reader that starts past the end waits until the text gets there.
func TestReaderPastTheEndWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var relay Relay
		reader := relay.Read(4)
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
	reader := relay.Read(0)
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
		reader := relay.Read(0)
		defer reader.Close()
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := reader.Next(ctx)
			failed <- err
		}()
		synctest.Wait()
		cancel()
		err := <-failed
		assert.ErrorIsf(t, err, context.Canceled, "got %v", err)
		relay.Append("still there")
		chunk := next(t, reader)
		assert.Equalf(t, "still there", string(chunk.Text), "got %q", chunk.Text)
	})
}

// The writer of this test would hang if it waited for a reader.
func TestReaderThatNeverReadsDoesNotBlockTheWriter(t *testing.T) {
	t.Parallel()
	var relay Relay
	idle, late := relay.Read(0), relay.Read(0)
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
	reader := relay.Read(0)
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
	gone, stays := relay.Read(0), relay.Read(0)
	gone.Close()
	gone.Close()
	assert.Truef(t, len(relay.readers) == 1, "%d readers are known", len(relay.readers))
	relay.Append("a")
	relay.End(done("stop"))
	pieces, _ := drain(t, stays)
	assert.Equalf(t, 1, len(pieces), "the other reader got %q", pieces)
	stays.Close()
}
