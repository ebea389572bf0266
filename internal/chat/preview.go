package chat

import (
	"context"
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
	Coverage string           `json:"coverage"`
	Sections []prompt.Section `json:"sections"`
	// Tokens are those of all sections.
	Tokens  int            `json:"tokens"`
	Receipt prompt.Receipt `json:"receipt"`
	Context Context        `json:"context"`
	Budget  Window         `json:"budget"`
}

// Context describes a chat.
type Context struct {
	StartedAt     time.Time  `json:"started_at"`
	LastMessageAt *time.Time `json:"last_message_at"`
	// ToolName is the tool that started the chat; nil for none. ToolsUsed are all tools that sent messages.
	ToolName  *string  `json:"tool_name"`
	ToolsUsed []string `json:"tools_used"`
	Turns     int      `json:"turns"`
	Messages  int64    `json:"messages"`
}

// Window is how the model's context window is divided, in tokens.
type Window struct {
	Window   int `json:"window"`
	Response int `json:"response"`
	History  int `json:"history"`
	Files    int `json:"files"`
}

// PreviewPrompt returns what the next prompt of a chat would show of it, for a model variant ("" for the first).
func (s *Service) PreviewPrompt(ctx context.Context, user auth.Principal, chatID uuid.UUID, variantName string) (PromptPreview, error) {
	variant, err := s.variant(variantName)
	if err != nil {
		return PromptPreview{}, err
	}
	stored, err := s.Store.ReadChat(ctx, user, chatID)
	if err != nil {
		return PromptPreview{}, err
	}
	built := s.prompt(stored.Chat, prompt.Question{}, s.instructions(stored.SystemPrompt), variant)
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
	described := Context{StartedAt: c.StartedAt, ToolsUsed: append([]string{}, c.ToolsUsed...), Turns: c.TotalTurns, Messages: c.Messages}
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
