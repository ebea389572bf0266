package llm

import (
	"context"
	"fmt"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

// Summarize makes one summary call. The caller's context is its deadline.
func (c *Client) Summarize(ctx context.Context, call brief.Call) (brief.Answer, error) {
	params := request(call.Input, call.ChatID, call.UserID)
	if call.Hosted != nil {
		params.Prompt = responses.ResponsePromptParam{ID: call.Hosted.ID, Version: param.NewOpt(call.Hosted.Version)}
	} else {
		params.Model = call.Model
	}
	if call.Instructions != "" {
		params.Instructions = param.NewOpt(call.Instructions)
	}
	response, err := c.api.New(ctx, params)
	if err != nil {
		if call.Hosted != nil && namesPrompt(err) {
			return brief.Answer{}, fmt.Errorf("%w: %w", brief.ErrPromptGone, upstream(ctx, err))
		}
		return brief.Answer{}, upstream(ctx, err)
	}
	// An incomplete answer is judged like any other: the gate knows what a good summary is.
	if response.Status != responses.ResponseStatusCompleted && response.Status != responses.ResponseStatusIncomplete {
		return brief.Answer{}, fault.Wrap(fault.UpstreamFailed, "The model failed to summarize.",
			fmt.Errorf("status %q, code %q", response.Status, response.Error.Code))
	}
	return brief.Answer{
		Text:         clean(response.OutputText()),
		Model:        clean(response.Model),
		InputTokens:  count(response.Usage.InputTokens),
		CachedTokens: count(response.Usage.InputTokensDetails.CachedTokens),
		OutputTokens: count(response.Usage.OutputTokens),
	}, nil
}
