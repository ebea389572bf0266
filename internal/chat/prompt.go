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

// instructions joins the main model's instructions and those of the chat and the tool.
func (s *Service) instructions(more ...string) string {
	all := slices.DeleteFunc(append([]string{s.Instructions}, more...), func(text string) bool { return text == "" })
	return strings.Join(all, "\n\n")
}

// prompt builds every prompt, of replies and of previews.
func (s *Service) prompt(chat memory.Chat, question prompt.Question, instructions string, variant Variant) prompt.Prompt {
	if len(chat.Files) > 0 {
		question.InstructionTokens = text.Tokens(instructions)
	}
	return prompt.Build(chat, question, s.Limits.Within(variant.Window))
}

// reportMissing logs and counts prompts that lack turns which the model should see. A simple chat, which shows only its
// newest turns, lacks none.
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
