package memory_test

import (
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

func benchRows(n int) []memory.Message {
	var rows []memory.Message
	text := strings.Repeat("An exercise with open strings, slowly, up and down. ", 2)
	for i := range n {
		rows = append(rows, exchange(int64(2*i+1), text, text)...)
	}
	return rows
}

func BenchmarkBuild100Turns(b *testing.B) {
	rows, limits := benchRows(100), memory.DefaultLimits()
	brief := memory.Brief{Summary: strings.Repeat("The user plays. ", 100), Tokens: 400}
	q := prompt.Question{Content: "What next?", Sources: []prompt.Source{{Title: "a", Content: strings.Repeat("A line of a page.\n", 200)}}}
	b.ReportAllocs()
	for b.Loop() {
		prompt.Build(memory.Chat{Brief: brief, Buffer: rows}, q, limits)
	}
}

func BenchmarkBuildTruncated(b *testing.B) {
	rows := exchange(1, strings.Repeat("A very long message. ", 1500), "Yes.")
	limits := memory.DefaultLimits()
	brief := memory.Brief{Summary: strings.Repeat("The user plays. ", 100), Tokens: 400}
	b.ReportAllocs()
	for b.Loop() {
		prompt.Build(memory.Chat{Brief: brief, Buffer: rows}, prompt.Question{Content: "What next?"}, limits)
	}
}

func BenchmarkTurns200Rows(b *testing.B) {
	rows := benchRows(100)
	b.ReportAllocs()
	for b.Loop() {
		memory.Turns(rows)
	}
}

func BenchmarkPlanFold(b *testing.B) {
	turns, limits := memory.Turns(benchRows(100)), memory.DefaultLimits()
	b.ReportAllocs()
	for b.Loop() {
		brief.PlanFold(memory.Brief{}, turns, limits)
	}
}

func BenchmarkFoldInput(b *testing.B) {
	piece := brief.WholePiece(memory.Turns(benchRows(100)))
	b.ReportAllocs()
	for b.Loop() {
		brief.FoldInput("The user plays.", piece)
	}
}

func BenchmarkTokens(b *testing.B) {
	content := strings.Repeat("An exercise with open strings, slowly, up and down. ", 200)
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		text.Tokens(content)
	}
}
