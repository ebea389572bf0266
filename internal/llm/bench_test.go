package llm

import (
	"context"
	"io"
	"strings"
	"testing"
)

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
