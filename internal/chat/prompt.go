package chat

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/arcoscribe/throughline/internal/memory/text"
	"github.com/google/uuid"
)

// instructions are the main model's, then the chat's, then the tool's.
func (s *Service) instructions(more ...string) string {
	all := slices.DeleteFunc(append([]string{s.Instructions}, more...), func(text string) bool { return text == "" })
	return strings.Join(all, "\n\n")
}

// prompt is the one place where a chat's prompt is made.
func (s *Service) prompt(chat memory.Chat, question prompt.Question, instructions string, variant Variant) prompt.Prompt {
	if len(chat.Files) > 0 {
		question.InstructionTokens = text.Tokens(instructions)
	}
	return prompt.Build(chat, question, s.Limits.Within(variant.Window))
}

// reportMissing makes a broken promise visible: turns that the model should see and cannot. That a simple
// chat shows its newest turns only is no such case.
func (s *Service) reportMissing(ctx context.Context, chatID uuid.UUID, chat memory.Chat, receipt prompt.Receipt) {
	if receipt.Truncated {
		s.Metrics.TruncatedPrompts.Inc()
	}
	if receipt.BriefUnreadable {
		s.Metrics.UnreadableBriefs.Inc()
	}
	dropped := receipt.DroppedTurns
	if receipt.Strategy == memory.StrategySimple {
		dropped = 0
	}
	if dropped == 0 && !receipt.Truncated && !receipt.BriefUnreadable {
		return
	}
	s.Metrics.DroppedTurns.Add(float64(dropped))
	s.Logger.LogAttrs(ctx, slog.LevelWarn, "prompt does not hold the whole conversation",
		slog.String("chat_id", chatID.String()), slog.Int("dropped_turns", dropped),
		slog.Bool("truncated", receipt.Truncated), slog.Bool("brief_unreadable", receipt.BriefUnreadable), slog.Int("pending_turns", chat.PendingTurns),
		slog.Int("brief_tokens", receipt.BriefTokens), slog.Int("tail_turns", receipt.TailTurns), slog.Int("bridge_turns", receipt.BridgeTurns))
}
