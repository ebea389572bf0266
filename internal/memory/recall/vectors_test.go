package recall

import (
	"strings"
	"testing"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

func TestTurnTextNamesTheSpeakers(t *testing.T) {
	t.Parallel()
	got, tokens := TurnText([]memory.Message{
		{Role: memory.RoleUser, Content: " Where is the key?\n"}, {Role: memory.RoleTool, Content: "\t"},
		{Role: memory.RoleTool, Content: "2 hits"}, {Role: memory.RoleAssistant, Content: "Under the mat."},
	})
	if want := "User: Where is the key?\nTool: 2 hits\nAssistant: Under the mat."; got != want || tokens != text.Tokens(want) {
		t.Errorf("%d tokens: %q", tokens, got)
	}
	if got, _ := TurnText([]memory.Message{{Role: memory.RoleUser, Content: " "}}); got != "" {
		t.Errorf("of blank messages: %q", got)
	}
}

func TestTextsOfACallAreBounded(t *testing.T) {
	t.Parallel()
	long := []memory.Message{{Role: memory.RoleUser, Content: strings.Repeat("word ", 10_000)}}
	turns := make([]BareTurn, vectorsPerCall)
	for n := range turns {
		turns[n].Messages = long
	}
	texts := textsOf(turns)
	if sum := text.Tokens(strings.Join(texts, "\n")); len(texts) < 30 || len(texts) == len(turns) || sum > tokensPerCall+len(texts) {
		t.Errorf("%d texts of %d tokens", len(texts), sum)
	}
	if got := textsOf(turns[:1]); len(got) != 1 || text.Tokens(got[0]) > turnTokens {
		t.Errorf("%d texts", len(got))
	}
}
