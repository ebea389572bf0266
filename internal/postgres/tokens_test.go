package postgres

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
)

// What is blank to Go is blank to Postgres: each character of Unicode alone.
func TestBlankIsTheSameInPostgresAndInGo(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	blank := ask[[]int](b, `select array_agg(n order by n) from generate_series(1, 1114111) n
		where n not between 55296 and 57343
		  and throughline.tokens_of(chr(n), null, 'user', null, false, 1) = 0`)
	var want []int
	for r := rune(1); r <= 0x10FFFF; r++ {
		if (r < 0xD800 || r > 0xDFFF) && (memory.Message{Content: string(r)}).Blank() {
			want = append(want, int(r))
		}
	}
	if len(want) < 20 || fmt.Sprint(blank) != fmt.Sprint(want) {
		t.Errorf("blank to Postgres are %v, to Go %v", blank, want)
	}
}

// Whatever rows SQL writes, the counters are what Go counts in the rows that it reads, also after edits.
func TestCountersAreWhatGoCounts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := ask[uuid.UUID](b, "insert into chats (user_id) values ($1) returning id", b.user.UserID)
	dice := rand.New(rand.NewPCG(3, 3))
	contents := []string{"", " ", "\u00a0\n\u3000", "\u200b", "\ufeff", "words", " x "}
	calls := []*string{nil, nil, new("[]"), new(`[{"name": "f", "arguments": {"q": "bow"}}]`)}
	draw := func() []any {
		return []any{
			[]string{"user", "user", "assistant", "tool", "system"}[dice.IntN(5)], contents[dice.IntN(len(contents))], calls[dice.IntN(len(calls))],
			[]*string{nil, new("calculator")}[dice.IntN(2)],
		}
	}
	for round := range 60 {
		if row := draw(); round%3 == 2 {
			b.exec("update messages set role = $1, content = $2, tool_calls = $3, name = $4 where chat_id = $5 and seq = $6", append(row, chatID, 1+dice.IntN(2*(round/3)+1))...)
		} else {
			b.exec("insert into messages (role, content, tool_calls, name, chat_id) values ($1, $2, $3, $4, $5)", append(row, chatID)...)
		}
		stored, err := b.turns.ReadChat(t.Context(), b.user, chatID)
		if err != nil {
			t.Fatal(err)
		}
		turns, tokens := 0, 0
		for _, turn := range memory.Turns(stored.Buffer) {
			turns += turn.UserMessages()
			tokens += turn.Tokens()
		}
		if brief := b.brief(chatID); turns != brief.PendingTurns || turns != stored.PendingTurns || turns != stored.TotalTurns || tokens != brief.PendingTokens {
			t.Fatalf("round %d: Go counts %d turns and %d tokens, the brief has %d and %d, the chat %d", round, turns, tokens,
				brief.PendingTurns, brief.PendingTokens, stored.TotalTurns)
		}
	}
	b.checkCounters()
}

// Turns whose tool calls are long are folded, whatever token_count says, and no prompt is long because of them.
func TestToolCallsWrittenBySQLAreFolded(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := ask[uuid.UUID](b, "insert into chats (user_id) values ($1) returning id", b.user.UserID)
	arguments := strings.Repeat("step by step ", 1600)
	for range 30 {
		b.exec(`insert into messages (chat_id, role, content, token_count, tool_calls) values ($1, 'user', 'Go on.', 3, null),
			($1, 'assistant', '', 0, jsonb_build_array(jsonb_build_object('name', 'practise', 'arguments', $2::text)))`, chatID, arguments)
	}
	folds, _, err := NewMaintenance(b.pool, b.limits).DueChats(t.Context())
	if err != nil || len(folds) != 1 {
		t.Errorf("%d chats are due, %v", len(folds), err)
	}
	stored, err := b.turns.ReadChat(t.Context(), b.user, chatID)
	if err != nil {
		t.Fatal(err)
	}
	p := prompt.Build(stored.Chat, prompt.Question{Content: "q"}, b.limits)
	if n := text.Tokens(p.Input); n > b.limits.PromptTokenBudget+b.limits.BridgeTokenBudget+prompt.HeadingTokens+4*memory.LabelTokens || p.Receipt.DroppedTurns == 0 {
		t.Errorf("%d tokens: %+v", n, p.Receipt)
	}
	b.checkCounters()
}

// Neither blank messages nor what a superseded reply called are shown.
func TestWhatWeighsNothingIsNotShown(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := ask[uuid.UUID](b, "insert into chats (user_id) values ($1) returning id", b.user.UserID)
	b.exec(`insert into messages (chat_id, role, content, status, superseded_by, tool_calls) values ($1, 'user', ' ', 'complete', null, null),
		($1, 'user', 'A question.', 'complete', null, null), ($1, 'assistant', 'gone', 'failed', gen_random_uuid(), '[{"name": "gone"}]')`, chatID)
	preview, err := b.turns.ReadChat(t.Context(), b.user, chatID)
	if err != nil {
		t.Fatal(err)
	}
	p := prompt.Build(preview.Chat, prompt.Question{Content: "q"}, b.limits)
	if want := "RECENT CONVERSATION (oldest first):\nUser: A question.\n\nCURRENT MESSAGE:\nq"; p.Input != want || preview.TotalTurns != 1 || p.Receipt.TailTurns != 1 {
		t.Errorf("%d turns, %+v\n%s", preview.TotalTurns, p.Receipt, p.Input)
	}
	if got := prompt.Coverage(preview.Chat, p.Receipt); got != "The one turn so far is word for word in the prompt." {
		t.Error(got)
	}
}

// Blank messages make no chat due, whatever its turn limit.
func TestBlankMessagesMakeNoChatDue(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := ask[uuid.UUID](b, "insert into chats (user_id, max_turns) values ($1, 1) returning id", b.user.UserID)
	b.exec("insert into messages (chat_id, role, content) values ($1, 'user', ' '), ($1, 'user', E'\\n')", chatID)
	folds, rebuilds, err := NewMaintenance(b.pool, b.limits).DueChats(t.Context())
	if err != nil || len(folds)+len(rebuilds) != 0 {
		t.Errorf("due are %v and %v, %v", folds, rebuilds, err)
	}
	if used := b.usage(b.user); used.Turns != 0 || used.Messages != 2 {
		t.Errorf("%d turns and %d messages in the statistics", used.Turns, used.Messages)
	}
}
