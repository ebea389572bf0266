package chat

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/auth"
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

// instructionTokens counts the main model's instructions and those of the tool. Its own, which never change, are counted
// once.
func (s *Service) instructionTokens(tool string) int {
	if tool == "" {
		return s.ownTokens()
	}
	return text.Tokens(s.instructions(tool))
}

// prompt builds every prompt, of replies and of previews. For a question it retrieves what belongs to it.
func (s *Service) prompt(
	ctx context.Context,
	user auth.Principal,
	chatID uuid.UUID,
	chat memory.Chat,
	question prompt.Question,
	variant Variant,
) prompt.Prompt {
	limits := s.Limits.Within(variant.Window)
	draft := prompt.Select(chat, limits)
	if question.Content != "" {
		question.Retrieved = s.retrieve(ctx, user, Query{
			ChatID: chatID, Content: question.Content, Chat: chat, Visible: draft.Shown(),
			ShownFrom: draft.ShownFrom(), Shown: draft.Kept(), Room: prompt.RetrievedRoom(limits),
		})
	}
	return draft.Build(question)
}

// reportMissing logs and counts prompts that were shortened: that lack turns which the model should see, or show texts
// cut. A simple chat, which shows only its newest turns, lacks none.
func (s *Service) reportMissing(ctx context.Context, chatID uuid.UUID, chat memory.Chat, built prompt.Prompt) {
	receipt := built.Receipt
	if receipt.BriefUnreadable {
		s.Metrics.UnreadableBriefs.Inc()
	}
	dropped := receipt.DroppedTurns
	if receipt.Strategy == memory.StrategySimple {
		dropped = 0
	}
	s.Metrics.DroppedTurns.Add(float64(dropped))
	var cuts []any
	for _, section := range slices.Sorted(maps.Keys(built.Cuts)) {
		s.Metrics.TruncatedPrompts.WithLabelValues(section).Inc()
		cuts = append(cuts, slog.Int(section, built.Cuts[section]))
	}
	sources := receipt.Section("sources")
	lacking := dropped > 0 || len(cuts) > 0 || receipt.BriefUnreadable || sources.Shortened+sources.LeftOut > 0
	if !lacking && receipt.LeftOutMessages == 0 && receipt.LeftOutFiles == 0 {
		return
	}
	level := slog.LevelWarn
	if !lacking {
		level = slog.LevelInfo // what had no room is named to the model, and older files rarely have any
	}
	s.Logger.LogAttrs(ctx, level, "prompt does not hold the whole conversation",
		slog.String("chat_id", chatID.String()), slog.Int("dropped_turns", dropped), slog.Group("cut_tokens", cuts...),
		slog.Int("left_out_messages", receipt.LeftOutMessages), slog.Int("left_out_files", receipt.LeftOutFiles),
		slog.Int("shortened_sources", sources.Shortened), slog.Int("left_out_sources", sources.LeftOut),
		slog.Bool("brief_unreadable", receipt.BriefUnreadable), slog.Int("pending_turns", chat.PendingTurns),
		slog.Int("brief_tokens", receipt.BriefTokens), slog.Int("tail_turns", receipt.TailTurns), slog.Int("tail_tokens", receipt.TailTokens),
		slog.Int("bridge_turns", receipt.BridgeTurns), slog.Int("bridge_tokens", receipt.BridgeTokens), slog.Int("file_tokens", receipt.FileTokens))
}
