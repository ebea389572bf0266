package chat

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// startWithChat starts each turn in this chat.
func startWithChat(c memory.Chat) func(context.Context, NewTurn) (StartedTurn, error) {
	return func(context.Context, NewTurn) (StartedTurn, error) {
		return StartedTurn{Started: true, Chat: c}, nil
	}
}

// receipt sends a message, reads the reply to its end and returns it with the stored receipt.
func (svc *testService) receipt(t *testing.T, message Message) (text string, receipt prompt.Receipt) {
	text, end := readToEnd(t, svc.send(t, message))
	require.Truef(t, end.Completed != nil, "%+v", end)
	saved := svc.store.savedReplies()
	return text, *saved[len(saved)-1].Metadata.Memory
}

// A message to an expired chat is refused with the time of expiry, in every way, and no model is called.
func TestExpiredChatRefusesMessages(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 20, 12, 0, 0, 0, time.FixedZone("CET", 3600))
	inService(t, func(t *testing.T, svc *testService) {
		chatID := uuid.New()
		var asked []NewTurn
		svc.store.start = func(_ context.Context, turn NewTurn) (StartedTurn, error) {
			asked = append(asked, turn)
			if len(asked) == 2 { // a failed message that is tried again, as the chat expires
				return StartedTurn{Earlier: &EarlierTurn{ChatID: chatID, UserMessageID: uuid.New(), Content: "Hello?", MessageID: uuid.New(),
					Status: memory.StatusFailed, Ends: true}}, nil
			}
			return StartedTurn{Expired: since, Earlier: &EarlierTurn{ChatID: chatID, MessageID: uuid.New(), Status: memory.StatusComplete}}, nil
		}
		for range 2 {
			_, err := svc.Send(t.Context(), ada, Message{ChatID: chatID, Content: "Hello?", ClientMessageID: uuid.New(), Revive: len(asked) == 1})
			wantFault(t, err, fault.ChatExpired)
			refused, ok := errors.AsType[*fault.Error](err)
			assert.Truef(t, ok && refused.Details["chat_id"] == chatID && refused.Details["expired_at"] == since.UTC(),
				"%v", err)
		}
		assert.Truef(t, len(asked) == 3 && !asked[0].Revive && asked[1].Revive && asked[2].Revive && asked[2].Replacement != nil,
			"the store was asked for %+v", asked)
		n := len(svc.model.requests())
		assert.Truef(t, n == 0, "the model was asked %d times", n)
	})
}

// A reply is made without an unreadable brief; its receipt, a metric and the log report that.
func TestUnreadableBriefStopsNoReply(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.store.start = startWithChat(memory.Chat{Brief: memory.Brief{Version: 4, CoveredSeq: 8, Unreadable: true}, Buffer: turnsOf(1, 10),
			PendingTurns: 1, TotalTurns: 5})
		text, r := svc.receipt(t, Message{ChatID: uuid.New(), Content: "Who am I?"})
		assert.Truef(t, text == "Fine." && r.BriefUnreadable && r.CoveredThroughSeq == 0, "%q, %+v", text, r)
		lines := svc.logs.Lines(t, "prompt does not hold the whole conversation")
		if value(t, svc.Metrics.UnreadableBriefs) != 1 || len(lines) != 1 || lines[0]["brief_unreadable"] != true {
			t.Errorf("counted %v, logged %v", value(t, svc.Metrics.UnreadableBriefs), lines)
		}
	})
}

// A simple chat shows only its newest turns: the receipt counts the others, but there is no warning.
func TestSimpleChatDropsNoTurns(t *testing.T) {
	t.Parallel()
	inService(t, func(t *testing.T, svc *testService) {
		svc.store.start = startWithChat(memory.Chat{
			Settings: memory.Settings{Strategy: memory.StrategySimple}, Buffer: turnsOf(10, 1000), PendingTurns: 500, TotalTurns: 500,
		})
		_, r := svc.receipt(t, Message{ChatID: uuid.New(), Content: "And now?"})
		assert.Truef(t, r.TailTurns == 4 && r.DroppedTurns == 496 && r.Strategy == memory.StrategySimple, "%+v", r)
		dropped, lines := value(t, svc.Metrics.DroppedTurns), svc.logs.Lines(t, "prompt does not hold the whole conversation")
		assert.Truef(t, dropped == 0 && len(lines) == 0, "%v turns counted, logged %v", dropped, lines)
	})
}

// Each model variant has its own window, and the prompt is made for it.
func TestPromptIsMadeForTheVariantsWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		svc := newTestService(t, func(c *Config) {
			c.Variants = append(c.Variants, Variant{Name: "tiny", Model: "gpt-tiny", Window: 4000})
		})
		svc.store.start = startWithChat(memory.Chat{Buffer: turnsOf(5, 400), PendingTurns: 5, TotalTurns: 5})
		for name, shown := range map[string]int{"arco": 5, "tiny": 2} {
			_, r := svc.receipt(t, Message{ChatID: uuid.New(), Content: "And now?", Variant: name})
			assert.Truef(t, r.TailTurns+r.BridgeTurns == shown && r.DroppedTurns == 5-shown, "%s: %+v", name, r)
		}
	})
}

// storedChat returns a chat of ten turns.
func storedChat(strategy memory.StrategyName) StoredChat {
	pinned := memory.Message{ID: uuid.New(), Seq: 1, Role: memory.RoleUser, Content: "I am Ada.", Tokens: 4, Pinned: true}
	r := StoredChat{
		Chat: memory.Chat{
			Settings: memory.Settings{Strategy: strategy}, SystemPrompt: "Be brief.", Buffer: turnsOf(2, 10), PendingTurns: 2, TotalTurns: 10,
			Brief: memory.Brief{Summary: "They met.", Tokens: 3, Version: 2, CoveredSeq: 16},
			Files: []memory.StoredFile{{Path: "a.txt", Content: "alpha", Tokens: 1, SHA256: [32]byte{1}}},
		},
		StartedAt: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), LastMessageAt: time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC),
		Messages: 20, ToolName: "tutor", ToolsUsed: []string{"composer", "tutor"},
	}
	switch strategy {
	case memory.StrategyHybrid:
		r.Kept = []memory.Message{pinned}
	case memory.StrategySimple:
		r.PendingTurns = 10
	}
	return r
}

func TestMemoryShowsTheNextPrompt(t *testing.T) {
	t.Parallel()
	for strategy, want := range map[memory.StrategyName]struct {
		coverage, sections string
		tokens             int
	}{
		memory.StrategySimple: {"The last 2 of 10 turns are word for word in the prompt; the 8 before are in no summary.",
			"recent 20 2 0 0 [1 3], files 1 0 0 1 []", 21},
		memory.StrategySummary: {"All 10 turns are remembered: 8 in the brief (up to message 16), 2 word for word in the prompt.",
			"brief 3 8 0 0 [], recent 20 2 0 0 [1 3], files 1 0 0 1 []", 24},
		memory.StrategyHybrid: {
			"All 10 turns are remembered: 8 in the brief (up to message 16), 2 word for word in the prompt. 1 pinned or important message is there from " +
				"before, word for word as well.",
			"brief 3 8 0 0 [], kept 4 0 1 0 [1], recent 20 2 0 0 [1 3], files 1 0 0 1 []", 28,
		},
	} {
		svc := newTestService(t)
		svc.store.stored = storedChat(strategy)
		chatID := uuid.New()
		got, err := svc.PreviewPrompt(t.Context(), ada, chatID, PreviewQuery{ModelVariant: "arco-pro"})
		require.NoError(t, err)
		var sections []string
		for _, s := range got.Sections {
			sections = append(sections, fmt.Sprint(s.Name, " ", s.Tokens, s.Turns, s.Messages, s.Files, s.Seqs))
		}
		assert.Truef(t, got.Coverage == want.coverage && strings.Join(sections, ", ") == want.sections && got.Tokens == want.tokens,
			"%s: %s\n%v, %d tokens", strategy, got.Coverage, sections, got.Tokens)
		assert.Truef(t, got.ChatID == chatID && got.Strategy == strategy && got.ModelVariant == "arco-pro" && got.Receipt.Strategy == strategy,
			"%+v", got)
		tool, last := "tutor", svc.store.stored.LastMessageAt
		context := Context{StartedAt: svc.store.stored.StartedAt, LastMessageAt: &last, ToolName: &tool, ToolsUsed: []string{"composer", "tutor"},
			Turns: 10, Messages: 20, BriefSeq: 16}
		assert.Equal(t, "", cmp.Diff(context, got.Context))
		assert.Equal(t, (Window{Window: 128_000, Response: 16_000, History: 37_333, Files: 74_667}), got.Budget)
		n := len(svc.model.requests())
		assert.Truef(t, n == 0, "the model was asked %d times", n)
	}
}

func TestMemoryOfAnEmptyChat(t *testing.T) {
	t.Parallel()
	svc := newTestService(t)
	svc.store.stored = StoredChat{StartedAt: time.Now(), ToolsUsed: []string{}}
	got, err := svc.PreviewPrompt(t.Context(), ada, uuid.New(), PreviewQuery{})
	if err != nil || got.Coverage != "There is nothing to remember yet." || got.Sections == nil || len(got.Sections) != 0 || got.Tokens != 0 ||
		got.ModelVariant != "arco" {
		t.Errorf("%+v, %v", got, err)
	}
	assert.Truef(t, got.Context.LastMessageAt == nil && got.Context.ToolName == nil && got.Strategy == memory.StrategySummary,
		"%+v", got.Context)
}

func TestMemoryRefuses(t *testing.T) {
	t.Parallel()
	svc := newTestService(t)
	_, err := svc.PreviewPrompt(t.Context(), ada, uuid.New(), PreviewQuery{ModelVariant: "nobody"})
	wantFault(t, err, fault.UnknownModelVariant)
	svc.store.readErr = fault.Expired(uuid.New(), time.Now())
	_, err = svc.PreviewPrompt(t.Context(), ada, uuid.New(), PreviewQuery{})
	wantFault(t, err, fault.ChatExpired)
}
