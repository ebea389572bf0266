package chat

import (
	"context"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/google/uuid"
)

// PromptPreview is what the next prompt of a chat would show of it.
type PromptPreview struct {
	ChatID       uuid.UUID           `json:"chat_id"`
	Strategy     memory.StrategyName `json:"strategy"`
	ModelVariant string              `json:"model_variant"`
	// Coverage says where the turns are: in the brief, in the prompt, or in neither.
	Coverage string           `json:"coverage" description:"Where the turns are: in the brief, word for word in the prompt, or in neither."`
	Sections []prompt.Section `json:"sections" nullable:"false"`
	// Tokens are those of all sections.
	Tokens  int            `json:"tokens" description:"Of all sections together."`
	Receipt prompt.Receipt `json:"receipt"`
	Context Context        `json:"context"`
	Budget  Window         `json:"budget"`
}

// Context describes a chat.
type Context struct {
	StartedAt     time.Time  `json:"started_at"`
	LastMessageAt *time.Time `json:"last_message_at"`
	// ToolName is the tool that started the chat; nil for none. ToolsUsed are all tools that sent messages.
	ToolName  *string  `json:"tool_name" description:"The tool that began the chat; null for a person."`
	ToolsUsed []string `json:"tools_used" nullable:"false" description:"All tools through which messages came."`
	Turns     int      `json:"turns" description:"Turns since the context was cleared last."`
	Messages  int64    `json:"messages"`
	// ClearedSeq and BriefSeq bound what the stored brief was made of.
	ClearedSeq int64 `json:"cleared_seq" description:"Messages up to this one were left behind when the context was cleared; 0 for none."`
	BriefSeq   int64 `json:"brief_seq" doc:"brief_seq"`
}

// Window is how the model's context window is divided, in tokens.
type Window struct {
	Window   int `json:"window"`
	Response int `json:"response" description:"A quarter of the window, at most 16000."`
	History  int `json:"history" description:"A third of the rest, at most 50000. The memory's own budgets are tighter."`
	Files    int `json:"files" description:"What is left, at most 100000; instructions, question and sources take their place from it."`
}

// PreviewPrompt returns what the next prompt of a chat would show of it, for a model variant ("" for the first) and a
// message; without one ("") nothing is retrieved for it.
func (s *Service) PreviewPrompt(ctx context.Context, user auth.Principal, chatID uuid.UUID, variantName, content string) (PromptPreview, error) {
	variant, err := s.variant(variantName)
	if err != nil {
		return PromptPreview{}, err
	}
	content = strings.TrimSpace(content)
	if problem := contentProblem(content); content != "" && problem != "" {
		return PromptPreview{}, invalid(map[string]any{"content": problem})
	}
	stored, err := s.Store.ReadChat(ctx, user, chatID)
	if err != nil {
		return PromptPreview{}, err
	}
	question := prompt.Question{Content: content, Instructions: s.instructions(stored.SystemPrompt)}
	built := s.prompt(ctx, user, chatID, stored.Chat, question, variant)
	preview := PromptPreview{
		ChatID: chatID, Strategy: built.Receipt.Strategy, ModelVariant: variant.Name, Coverage: prompt.Coverage(stored.Chat, built.Receipt),
		Sections: append([]prompt.Section{}, built.Sections...), Receipt: built.Receipt, Context: stored.context(), Budget: divided(variant.Window),
	}
	for _, section := range built.Sections {
		preview.Tokens += section.Tokens
	}
	return preview, nil
}

func (c *StoredChat) context() Context {
	described := Context{
		StartedAt:  c.StartedAt,
		ToolsUsed:  append([]string{}, c.ToolsUsed...),
		Turns:      c.TotalTurns,
		Messages:   c.Messages,
		ClearedSeq: c.Brief.ClearedSeq,
	}
	if c.Brief.Summary != "" {
		described.BriefSeq = c.Brief.CoveredSeq
	}
	if !c.LastMessageAt.IsZero() {
		described.LastMessageAt = &c.LastMessageAt
	}
	if c.ToolName != "" {
		described.ToolName = &c.ToolName
	}
	return described
}

func divided(window int) Window {
	b := memory.Divide(window)
	return Window{Window: window, Response: b.Response, History: b.History, Files: b.Files()}
}
