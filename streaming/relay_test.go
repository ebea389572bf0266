package streaming

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
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
	if err != nil {
		t.Fatalf("nothing to read: %v", err)
	}
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
		if chunk := next(t, reader); string(chunk.Text) != piece || chunk.Offset != offset || chunk.End != nil {
			t.Errorf("chunk %q at %d, want %q at %d", chunk.Text, chunk.Offset, piece, offset)
		}
		offset += utf8.RuneCountInString(piece)
	}
	relay.End(done("stop"))
	if chunk := next(t, reader); chunk.End == nil || chunk.Offset != offset || chunk.Text != nil {
		t.Errorf("no end at %d: %+v", offset, chunk)
	}
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
			if chunk := next(t, reader); chunk.More != (left < behind-1) {
				t.Errorf("chunk %d of %d: more is %v", left+1, behind, chunk.More)
			}
		}
	}
	relay.Append("the last text")
	relay.End(done("stop"))
	if chunk := next(t, reader); chunk.More {
		t.Error("the end counts as text")
	}
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
		if len(pieces) != c.chunks || strings.Join(pieces, "") != strings.Repeat("ab", c.behind) {
			t.Errorf("%d pieces behind: %d chunks, want %d", c.behind, len(pieces), c.chunks)
		}
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
	if diff := cmp.Diff([]string{"y", "z"}, pieces); diff != "" {
		t.Error(diff)
	}
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
			if err != nil {
				t.Errorf("next: %v", err)
			}
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
		if chunk := <-got; string(chunk.Text) != "ef" || chunk.Offset != 4 {
			t.Errorf("got %q at %d", chunk.Text, chunk.Offset)
		}
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
		if _, end := drain(t, reader); end.Completed == nil || end.Completed.FinishReason != "first" {
			t.Errorf("ended with %+v", end)
		}
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
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		relay.Append("still there")
		if chunk := next(t, reader); string(chunk.Text) != "still there" {
			t.Errorf("got %q", chunk.Text)
		}
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
	if len(pieces) != 1 || len(pieces[0]) != 50_000 {
		t.Errorf("%d chunks", len(pieces))
	}
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
		if string(kept[i]) != want[i] {
			t.Fatalf("chunk %d became %q, was %q", i, kept[i], want[i])
		}
	}
	text, _ := relay.Text()
	if text != strings.Join(want, "") {
		t.Error("the text was changed through a chunk")
	}
}

func TestClosedReaderIsRemoved(t *testing.T) {
	t.Parallel()
	var relay Relay
	gone, stays := relay.Read(0), relay.Read(0)
	gone.Close()
	gone.Close()
	if len(relay.readers) != 1 {
		t.Errorf("%d readers are known", len(relay.readers))
	}
	relay.Append("a")
	relay.End(done("stop"))
	if pieces, _ := drain(t, stays); len(pieces) != 1 {
		t.Errorf("the other reader got %q", pieces)
	}
	stays.Close()
}
