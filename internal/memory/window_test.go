package memory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"pgregory.net/rapid"
)

// windows are those that models have, and many in between.
func windows(t *rapid.T) int {
	return rapid.OneOf(rapid.IntRange(1000, 2_000_000), rapid.SampledFrom([]int{1000, 4096, 8192, 16_000, 32_768, 128_000, 400_000, 1_000_000})).Draw(t, "window")
}

func TestPartsNeverExceedTheWindow(t *testing.T) {
	t.Parallel()
	for window := 1000; window <= 2_000_000; window += 1 + window/5000 {
		b := memory.Divide(window)
		if b.Response != min(window/4, 16_000) || b.History != min((window-b.Response)/3, 50_000) || b.Files() != min(b.Rest, 100_000) {
			t.Fatalf("%d is divided into %+v", window, b)
		}
		if b.Response+b.History+b.Rest != window || b.Response < 250 || b.History < 250 || b.Rest < 500 {
			t.Fatalf("%d is divided into %+v", window, b)
		}
		l := memory.DefaultLimits().Within(window)
		if l.PromptTokenBudget+l.BridgeTokenBudget > b.History || l.MaxHistoryTokens > b.History || l.PromptTokenBudget < 80 || l.FileTokens != b.Rest {
			t.Fatalf("a window of %d leaves %+v of %+v", window, l, b)
		}
	}
	if got, want := memory.DefaultLimits().Within(36_000), memory.DefaultLimits(); got.PromptTokenBudget != want.PromptTokenBudget || got.BridgeTokenBudget != want.BridgeTokenBudget {
		t.Errorf("a window of 36 000 changes the defaults: %+v", got)
	}
}

// Limits of any size fit into a window, and a wider one never makes them smaller.
func TestWithinNarrowsAnyLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits, window := anyLimits(t), windows(t)
		narrow, wide := limits.Within(window), limits.Within(window+rapid.IntRange(0, 100_000).Draw(t, "more"))
		if narrow.PromptTokenBudget+narrow.BridgeTokenBudget > memory.Divide(window).History || narrow.PromptTokenBudget < 1 {
			t.Fatalf("%+v in %d is %+v", limits, window, narrow)
		}
		if wide.PromptTokenBudget+wide.BridgeTokenBudget < narrow.PromptTokenBudget+narrow.BridgeTokenBudget || wide.FileTokens < narrow.FileTokens {
			t.Fatalf("%+v becomes %+v, and wider %+v", limits, narrow, wide)
		}
	})
}

// frameSlack is what headings and labels may take where there are no files to take it from: it is the one
// thing that no budget counts.
func frameSlack(p prompt.Prompt) int {
	return prompt.HeadingTokens + memory.LabelTokens*(strings.Count(p.Input, "User: ")+strings.Count(p.Input, "Assistant: "))
}

// anyWordyChat is a chat with real texts of all sizes, its brief, kept messages and files.
func anyWordyChat(t *rapid.T) memory.Chat {
	size := rapid.OneOf(rapid.IntRange(1, 30), rapid.IntRange(1, 3000))
	var rows []memory.Message
	for range rapid.IntRange(0, 12).Draw(t, "turns") {
		n := int64(len(rows) + 101)
		rows = append(rows, exchange(n, textOf(size.Draw(t, "question")), textOf(size.Draw(t, "answer")))...)
	}
	chat := memory.Chat{Settings: anySettings(t), Buffer: rows, Brief: memory.Brief{Version: 1, CoveredSeq: 100}, PendingTurns: len(rows) / 2, TotalTurns: 50 + len(rows)/2}
	chat.Brief.Summary = strings.TrimSpace(strings.Repeat("They talked about it. ", rapid.IntRange(0, 300).Draw(t, "brief")))
	chat.Brief.Tokens = text.Tokens(chat.Brief.Summary)
	for i := range rapid.IntRange(0, 6).Draw(t, "kept") {
		kept := row(int64(i+1), memory.RoleUser, textOf(size.Draw(t, "kept size")))
		kept.Pinned = true
		chat.Kept = append(chat.Kept, kept)
	}
	chat.Files = anyFiles(t)
	return chat
}

// anyFiles are a few contents under many paths.
func anyFiles(t *rapid.T) []memory.StoredFile {
	var contents, files []memory.StoredFile
	for range 4 {
		line := rapid.SampledFrom([]string{"some words\n", "=== x\n", "FILES:\n"}).Draw(t, "line")
		contents = append(contents, file("", strings.Repeat(line, rapid.IntRange(0, 400).Draw(t, "lines"))))
	}
	folder := strings.Repeat("dir/", rapid.IntRange(0, 40).Draw(t, "path"))
	for i := range rapid.SampledFrom([]int{0, 1, 5, 100}).Draw(t, "files") {
		sent := contents[i%len(contents)]
		sent.Path = fmt.Sprintf("%s%d.txt", folder, i%30)
		files = append(files, sent)
	}
	return files
}

// With the response the whole prompt fits the window, as long as the question with its sources does.
func TestPromptFitsTheWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		chat, window := anyWordyChat(t), rapid.OneOf(rapid.IntRange(1000, 20_000), rapid.IntRange(1000, 300_000)).Draw(t, "window")
		budget := memory.Divide(window)
		question := prompt.Question{InstructionTokens: rapid.IntRange(0, budget.Rest/8).Draw(t, "instructions"), Content: textOf(rapid.IntRange(1, budget.Rest/4).Draw(t, "question"))}
		for range rapid.IntRange(0, 3).Draw(t, "sources") {
			question.Sources = append(question.Sources, prompt.Source{Title: "A page", Content: textOf(rapid.IntRange(1, budget.Rest/16).Draw(t, "source"))})
		}
		limits := memory.DefaultLimits().Within(window)
		p := prompt.Build(chat, question, limits)
		if used := question.InstructionTokens + text.Tokens(p.Input) + budget.Response; used > window+frameSlack(p) || len(chat.Files) > 0 && p.Receipt.Files > 0 && used > window {
			t.Fatalf("%d tokens of %d: %+v", used, window, p.Receipt)
		}
		r := p.Receipt
		least := text.ClipReserve * 2 // a question and its answer, of which only the notes are left
		if history := r.BriefTokens + r.KeptTokens + r.BridgeTokens + r.TailTokens; history > max(budget.History, least) {
			t.Fatalf("the history takes %d of %d: %+v", history, budget.History, r)
		}
		if r.FileTokens > budget.Files() {
			t.Fatalf("files take %d of %d", r.FileTokens, budget.Files())
		}
	})
}
