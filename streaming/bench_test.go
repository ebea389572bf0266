package streaming

import (
	"context"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var benchmarkDelta = Chunk{Offset: 1234, Text: []byte(" piece of \"text\", with é and 👋\n")}

// The hot path of every stream: no allocation once the buffer has grown.
//
//nolint:paralleltest // allocations are counted for the whole process
func TestDeltaAllocatesNothing(t *testing.T) {
	for protocol, encoder := range encoders(io.Discard) {
		assert.Equalf(t, 0.0, testing.AllocsPerRun(100, func() { _ = encoder.Chunk(benchmarkDelta) }), "%s: allocations per delta", protocol)
	}
}

func BenchmarkEncodeDelta(b *testing.B) {
	for protocol, encoder := range encoders(io.Discard) {
		b.Run(protocol, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(benchmarkDelta.Text)))
			for b.Loop() {
				require.NoError(b, encoder.Chunk(benchmarkDelta))
			}
		})
	}
}

// BenchmarkRelayFanOut writes one reply of 500 pieces to a number of readers that encode it; the
// extra metric is the cost of one piece for one reader.
func BenchmarkRelayFanOut(b *testing.B) {
	const pieces = 500
	for _, readers := range []int{1, 10, 100} {
		b.Run(strconv.Itoa(readers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fanOut(b, pieces, readers)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pieces*readers), "ns/piece/reader")
		})
	}
}

func fanOut(b *testing.B, pieces, readers int) {
	b.Helper()
	var relay Relay
	var reading sync.WaitGroup
	for range readers {
		reader := relay.Read(Place{})
		reading.Go(func() {
			defer reader.Close()
			encoder := NewEncoder(io.Discard, replyID)
			for {
				chunk, err := reader.Next(context.Background())
				if err != nil || encoder.Chunk(chunk) != nil {
					b.Error("a reader broke off")
					return
				}
				if chunk.End != nil {
					return
				}
			}
		})
	}
	piece := strings.Repeat("word ", 2)
	for range pieces {
		relay.Append(piece)
	}
	relay.End(done("stop"))
	reading.Wait()
}
