package chat

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/memory/prompt"
	"github.com/google/uuid"
)

// Memory is what the next prompt of a chat would hold.
type Memory struct {
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

// Context is a chat in short.
type Context struct {
	StartedAt     time.Time  `json:"started_at"`
	LastMessageAt *time.Time `json:"last_message_at"`
	// ToolName is the tool that began the chat; nil for a person. ToolsUsed are all that spoke in it.
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

// Memory tells what the next prompt of a chat would hold of it, for a model variant ("" for the first).
func (s *Service) Memory(ctx context.Context, user auth.Principal, chatID uuid.UUID, variantName string) (Memory, error) {
	variant, err := s.variant(variantName)
	if err != nil {
		return Memory{}, err
	}
	r, err := s.Store.Recall(ctx, user, chatID)
	if err != nil {
		return Memory{}, err
	}
	built := s.prompt(r.Remembered, prompt.Question{}, s.instructions(r.SystemPrompt), variant)
	shown := Memory{
		ChatID: chatID, Strategy: built.Receipt.Strategy, ModelVariant: variant.Name, Coverage: prompt.Coverage(r.chat(), built.Receipt),
		Sections: append([]prompt.Section{}, built.Sections...), Receipt: built.Receipt, Context: r.context(), Budget: divided(variant.Window),
	}
	for _, section := range built.Sections {
		shown.Tokens += section.Tokens
	}
	return shown, nil
}

func (r *Recollection) context() Context {
	c := Context{StartedAt: r.StartedAt, ToolsUsed: append([]string{}, r.ToolsUsed...), Turns: r.TotalTurns, Messages: r.Messages}
	if !r.LastMessageAt.IsZero() {
		c.LastMessageAt = &r.LastMessageAt
	}
	if r.ToolName != "" {
		c.ToolName = &r.ToolName
	}
	return c
}

func divided(window int) Window {
	b := memory.Divide(window)
	return Window{Window: window, Response: b.Response, History: b.History, Files: b.Files()}
}
