package recall

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

func TestTurnTextNamesTheSpeakers(t *testing.T) {
	t.Parallel()
	got, tokens := TurnText([]memory.Message{
		{Role: memory.RoleUser, Content: " Where is the key?\n"}, {Role: memory.RoleTool, Content: "\t"},
		{Role: memory.RoleTool, Content: "2 hits"}, {Role: memory.RoleAssistant, Content: "Under the mat."},
	})
	want := "User: Where is the key?\nTool: 2 hits\nAssistant: Under the mat."
	assert.Truef(t, got == want && tokens == text.Tokens(want), "%d tokens: %q", tokens, got)
	if got, _ := TurnText([]memory.Message{{Role: memory.RoleUser, Content: " "}}); got != "" {
		t.Errorf("of blank messages: %q", got)
	}
}

func TestTextsOfACallAreBounded(t *testing.T) {
	t.Parallel()
	long, tokens := TurnText([]memory.Message{{Role: memory.RoleUser, Content: strings.Repeat("word ", 10_000)}})
	turns := slices.Repeat([]Bare{{Text: long, Tokens: tokens}}, vectorsPerCall)
	if tokens > turnTokens || len(oneCall(turns)) != tokensPerCall/tokens {
		t.Errorf("%d texts of %d tokens", len(oneCall(turns)), tokens)
	}
	if huge := []Bare{{Tokens: tokensPerCall + 1}, {Tokens: 1}}; len(oneCall(huge)) != 1 {
		t.Errorf("%d texts, the first of which is too long", len(oneCall(huge)))
	}
}
