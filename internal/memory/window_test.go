package memory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// windows are the sizes that models have, and many in between.
func windows(t *rapid.T) int {
	return rapid.OneOf(rapid.IntRange(1000, 2_000_000), rapid.SampledFrom([]int{1000, 4096, 8192, 16_000, 32_768, 128_000, 400_000, 1_000_000})).Draw(t, "window")
}

func TestPartsNeverExceedTheWindow(t *testing.T) {
	t.Parallel()
	for window := 1000; window <= 2_000_000; window += 1 + window/5000 {
		b := memory.Divide(window)
		require.Truef(t, b.Response == min(window/4, 16_000) && b.History == min((window-b.Response)/3, 50_000) && b.Files() == min(b.Rest, 100_000),
			"%d is divided into %+v", window, b)
		require.Truef(t, b.Response+b.History+b.Rest == window && b.Response >= 250 && b.History >= 250 && b.Rest >= 500,
			"%d is divided into %+v", window, b)
		l := memory.DefaultLimits().Within(window)
		if l.PromptTokenBudget+l.BridgeTokenBudget > b.History || l.MaxHistoryTokens > b.History || l.PromptTokenBudget < 80 || l.FileTokens != b.Rest {
			t.Fatalf("a window of %d leaves %+v of %+v", window, l, b)
		}
	}
	got, want := memory.DefaultLimits().Within(36_000), memory.DefaultLimits()
	assert.Truef(t, got.PromptTokenBudget == want.PromptTokenBudget && got.BridgeTokenBudget == want.BridgeTokenBudget,
		"a window of 36 000 changes the defaults: %+v", got)
}

// Limits of any size fit into a window, and a wider one never makes them smaller.
func TestWithinNarrowsAnyLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits, window := anyLimits(t), windows(t)
		narrow, wide := limits.Within(window), limits.Within(window+rapid.IntRange(0, 100_000).Draw(t, "more"))
		require.Truef(t, narrow.PromptTokenBudget+narrow.BridgeTokenBudget <= memory.Divide(window).History && narrow.PromptTokenBudget >= 1,
			"%+v in %d is %+v", limits, window, narrow)
		require.Truef(t, wide.PromptTokenBudget+wide.BridgeTokenBudget >= narrow.PromptTokenBudget+narrow.BridgeTokenBudget && wide.FileTokens >= narrow.FileTokens,
			"%+v becomes %+v, and wider %+v", limits, narrow, wide)
	})
}

// anyWordyChat is a chat with real texts of all sizes, its brief, kept messages and files.
func anyWordyChat(t *rapid.T) memory.Chat {
	size := rapid.OneOf(rapid.IntRange(1, 30), rapid.IntRange(1, 3000))
	var rows []memory.Message
	for range rapid.IntRange(0, 12).Draw(t, "turns") {
		n := int64(len(rows) + 101)
		rows = append(rows, exchange(n, textOf(size.Draw(t, "question")), textOf(size.Draw(t, "answer")))...)
	}
	chat := memory.Chat{Settings: anySettings(t), Buffer: rows, Brief: memory.Brief{Version: 1, CoveredSeq: 100}, PendingTurns: len(rows) / 2,
		TotalTurns: 50 + len(rows)/2}
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

// anyScript is a text of about so many tokens in a script that takes many or few bytes for each.
func anyScript(t *rapid.T, tokens int) string {
	word := rapid.SampledFrom([]string{" word", "語", "🦄", "ก็", "=", "𒀀", "\n", "z", "User:\n"}).Draw(t, "script")
	return strings.Repeat(word, 1+tokens/max(1, text.Tokens(word)))
}

// anyHostileChat is a wordy chat with rows that SQL wrote: of any script, with tool calls, with counts that are wrong.
func anyHostileChat(t *rapid.T) memory.Chat {
	chat := anyWordyChat(t)
	for range rapid.IntRange(0, 4).Draw(t, "hostile rows") {
		role := rapid.SampledFrom([]memory.Role{memory.RoleUser, memory.RoleAssistant, memory.RoleTool}).Draw(t, "role")
		m := row(int64(len(chat.Buffer)+101), role, anyScript(t, rapid.SampledFrom([]int{1, 100, 2000, 15_000}).Draw(t, "row")))
		m.Tokens = len(m.Content) / 32 // the least that a row weighs
		chat.Buffer = append(chat.Buffer, m)
	}
	for range rapid.SampledFrom([]int{0, 0, 900}).Draw(t, "short rows") {
		chat.Buffer = append(chat.Buffer, row(int64(len(chat.Buffer)+101), memory.RoleTool, "x"))
	}
	chat.PendingTurns = users(chat.Buffer)
	chat.TotalTurns = 50 + chat.PendingTurns
	for i := range chat.Kept {
		chat.Kept[i].Tokens /= rapid.SampledFrom([]int{1, 10}).Draw(t, "kept count")
	}
	for i := range chat.Files {
		chat.Files[i].Tokens /= rapid.SampledFrom([]int{1, 1, 10}).Draw(t, "file count")
	}
	return chat
}

// For any rows, sources, files and instructions: with the response the whole prompt fits the window, as long as
// the question and the instructions do, which a message is refused for before.
func TestPromptFitsTheWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		chat, window := anyHostileChat(t), rapid.OneOf(rapid.IntRange(1000, 10_000), rapid.IntRange(1000, 60_000)).Draw(t, "window")
		budget := memory.Divide(window)
		question := prompt.Question{Instructions: textOf(rapid.IntRange(0, budget.Rest/2).Draw(t, "instructions")),
			Content: anyScript(t, rapid.IntRange(1, budget.Rest/2).Draw(t, "question"))}
		for range rapid.SampledFrom([]int{0, 1, 3, 20}).Draw(t, "sources") {
			question.Sources = append(question.Sources, prompt.Source{
				Title: anyScript(t, rapid.IntRange(0, 200).Draw(t, "title")), Content: anyScript(t, rapid.IntRange(0, 3000).Draw(t, "source")),
			})
		}
		if recalled := anyScript(t, rapid.SampledFrom([]int{0, 100, 600, 6000}).Draw(t, "recalled")); rapid.Bool().Draw(t, "recall") {
			question.Retrieved = []prompt.Section{{Text: recalled, Account: prompt.Account{Name: "recall", Tokens: text.Tokens(recalled), Items: 2},
				Seqs: []int64{3, 7}}}
		}
		if topic := anyScript(t, rapid.SampledFrom([]int{1, 150, 1500}).Draw(t, "of the topic")); rapid.Bool().Draw(t, "topic") {
			question.Retrieved = append(question.Retrieved, prompt.Section{Text: topic, Account: prompt.Account{Name: "topic", Tokens: text.Tokens(topic), Items: 1}})
		}
		limits := memory.DefaultLimits().Within(window)
		if prompt.Room(text.Tokens(question.Content), text.Tokens(question.Instructions), limits) < 0 {
			t.Skip("refused")
		}
		before := fmt.Sprintf("%+v", chat)
		p := prompt.Build(chat, question, limits)
		require.LessOrEqualf(t, text.Tokens(question.Instructions)+text.Tokens(p.Input)+budget.Response, window, "tokens of %d: %+v", window, p.Receipt)
		require.True(t, strings.HasSuffix(p.Input, currentHeading+"\n"+question.Content), "the question was changed")
		require.Equal(t, before, fmt.Sprintf("%+v", chat), "the caller's chat was changed")
	})
}

// The parts of a chat whose counts are right keep to their budgets.
func TestPartsKeepToTheirBudgets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		chat, window := anyWordyChat(t), rapid.IntRange(1000, 300_000).Draw(t, "window")
		budget := memory.Divide(window)
		r := prompt.Build(chat, prompt.Question{Content: textOf(rapid.IntRange(1, budget.Rest/4).Draw(t, "question"))}, memory.DefaultLimits().Within(window)).Receipt
		least := text.ClipReserve * 2 // a question and its answer, of which only the notes are left
		history := r.BriefTokens + r.KeptTokens + r.BridgeTokens + r.TailTokens
		require.Truef(t, history <= max(budget.History, least), "the history takes %d of %d: %+v", history, budget.History, r)
		require.Truef(t, r.FileTokens <= budget.Files(), "files take %d of %d", r.FileTokens, budget.Files())
	})
}

// Sources that do not fit are shortened to a common length, and the receipt and the sentence about coverage report it.
func TestSourcesWithoutRoomAreShortened(t *testing.T) {
	t.Parallel()
	question := prompt.Question{Content: "q", Sources: []prompt.Source{{Title: "Short", Content: "A few words."}}}
	for range 19 {
		question.Sources = append(question.Sources, prompt.Source{Title: "東京", Content: strings.Repeat("練習する曲目一覧。", 8000/9)})
	}
	chat := memory.Chat{Buffer: exchange(1, "Hello?", "Hello."), PendingTurns: 1, TotalTurns: 1}
	p := prompt.Build(chat, question, memory.DefaultLimits())
	n := text.Tokens(p.Input)
	assert.Truef(t, n <= 112_000 && n >= 105_000, "%d tokens", n)
	want := prompt.Account{Name: "sources", Items: 20, Shortened: 19}
	got := p.Receipt.Sections[len(p.Receipt.Sections)-1]
	if want.Tokens = got.Tokens; got != want || got.Tokens < 100_000 {
		t.Errorf("%+v", p.Receipt.Sections)
	}
	for n := 1; n <= 20; n++ {
		assert.Containsf(t, p.Input, fmt.Sprintf("\n[%d] ", n), "source %d is missing", n)
	}
	assert.True(t, strings.Contains(p.Input, "[1] Short\nA few words.") && strings.Count(p.Input, "tokens omitted …]") == 19,
		"the wrong ones are shortened")
	said := prompt.Coverage(chat, p.Receipt)
	assert.Truef(t, strings.HasSuffix(said, " Of the sources 19 were shortened and 0 left out to fit the model's window."), "%v", said)
	limits := memory.DefaultLimits().Within(1000)
	p = prompt.Build(chat, question, limits)
	if got := p.Receipt.Sections[len(p.Receipt.Sections)-1]; got.Name != "sources" || got.LeftOut == 0 || got.Items+got.LeftOut != 20 {
		t.Errorf("in a window of 1000: %+v", got)
	}
	if p := prompt.Build(chat, prompt.Question{Content: "q", Sources: question.Sources[:2]}, memory.DefaultLimits()); len(p.Receipt.Sections) != 1 {
		t.Errorf("sources that fit are no part of the receipt: %+v", p.Receipt.Sections)
	}
}

// Where the window is too small, what was recalled is left out before anything of the conversation is.
func TestRecallIsLeftOutFirst(t *testing.T) {
	t.Parallel()
	chat := memory.Chat{Buffer: append(exchange(101, textOf(40), textOf(40)), exchange(103, textOf(40), textOf(40))...), PendingTurns: 2, TotalTurns: 2}
	recalled := prompt.Section{Text: textOf(50), Account: prompt.Account{Name: "recall", Tokens: 50, Items: 2, LeftOut: 1}, Seqs: []int64{3, 7}, How: "words"}
	question := prompt.Question{Content: "q", Retrieved: []prompt.Section{recalled}}
	limits := memory.DefaultLimits()
	limits.InputTokens = text.Tokens(prompt.Build(chat, question, limits).Input)
	whole := prompt.Build(chat, question, limits)
	if r := whole.Receipt; !slices.Equal(r.Recalled, []int64{3, 7}) || *r.RecallTokens != 50 || r.Recall != "words" ||
		!strings.Contains(whole.Input, prompt.Heading("recall")) {
		t.Fatalf("%+v in\n%s", r, whole.Input)
	}
	limits.InputTokens--
	p := prompt.Build(chat, question, limits)
	without := question
	without.Retrieved = nil
	assert.Equal(t, prompt.Build(chat, without, limits).Input, p.Input)
	if r := p.Receipt; len(r.Recalled) != 0 || *r.RecallTokens != 0 || r.Recall != "words" || r.Section("recall").LeftOut != 3 || r.TailTurns != 2 || r.Truncated {
		t.Errorf("%+v", r)
	}
	assert.True(t, question.Retrieved[0].Text != "", "the question was changed")
}

// What a draft shows of the turns is the same in its prompt, for any question.
func TestDraftSaysWhatThePromptShows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		chat := anyWordyChat(t)
		limits := memory.DefaultLimits().Within(windows(t))
		limits.InputTokens = 0 // an estimate is not corrected
		draft := prompt.Select(chat, limits)
		r := draft.Build(prompt.Question{Content: "q"}).Receipt
		require.Truef(t, len(draft.Kept()) == r.KeptMessages, "%v are kept, %+v", draft.Kept(), r)
		turns := memory.Turns(chat.Buffer)
		want := int64(101)
		if shown := r.BridgeTurns + r.TailTurns; shown > 0 {
			want = turns[len(turns)-shown].FirstSeq()
		}
		require.Equalf(t, want, draft.ShownFrom(), "shown from: %+v", r)
	})
}
