package memory

import (
	"strings"
	"testing"
)

func benchTurns(n int) []Turn {
	var rows []Message
	text := strings.Repeat("An exercise with open strings, slowly, up and down. ", 2)
	for i := range n {
		rows = append(rows, exchange(int64(2*i+1), text, text)...)
	}
	return Turns(rows)
}

func BenchmarkBuild100Turns(b *testing.B) {
	turns, limits := benchTurns(100), DefaultLimits()
	brief := Brief{Summary: strings.Repeat("The user plays. ", 100), Tokens: 400}
	q := Question{Content: "What next?", Sources: []Source{{Title: "a", Content: strings.Repeat("A line of a page.\n", 200)}}}
	b.ReportAllocs()
	for b.Loop() {
		Build(Chat{Brief: brief, Turns: turns}, q, limits)
	}
}

func BenchmarkBuildTruncated(b *testing.B) {
	rows := exchange(1, strings.Repeat("A very long message. ", 1500), "Yes.")
	turns, limits := Turns(rows), DefaultLimits()
	brief := Brief{Summary: strings.Repeat("The user plays. ", 100), Tokens: 400}
	b.ReportAllocs()
	for b.Loop() {
		Build(Chat{Brief: brief, Turns: turns}, Question{Content: "What next?"}, limits)
	}
}

func BenchmarkTurns200Rows(b *testing.B) {
	var rows []Message
	for _, t := range benchTurns(100) {
		rows = append(rows, t.Messages...)
	}
	b.ReportAllocs()
	for b.Loop() {
		Turns(rows)
	}
}

func BenchmarkPlanFold(b *testing.B) {
	turns, limits := benchTurns(100), DefaultLimits()
	b.ReportAllocs()
	for b.Loop() {
		PlanFold(Brief{}, turns, limits)
	}
}

func BenchmarkFoldInput(b *testing.B) {
	piece := WholePiece(benchTurns(100))
	b.ReportAllocs()
	for b.Loop() {
		FoldInput("The user plays.", piece)
	}
}

func BenchmarkTokens(b *testing.B) {
	text := strings.Repeat("An exercise with open strings, slowly, up and down. ", 200)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Tokens(text)
	}
}
