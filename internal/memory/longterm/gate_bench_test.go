package longterm

import (
	"path/filepath"
	"testing"
)

func BenchmarkGate(b *testing.B) {
	var in Input
	var facts []Finding
	for _, c := range readGateCases(b, filepath.Join("testdata", "gate", "languages.txt"))[:3] {
		in.New = append(in.New, c.in.New...)
		for _, e := range c.facts {
			facts = append(facts, e.fact)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		Gate(in, facts)
	}
}
