package llm

import (
	"context"
	"fmt"
	"strings"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

// Summarize makes one summary call. Its deadline is that of ctx.
func (c *Client) Summarize(ctx context.Context, call brief.Call) (brief.Answer, error) {
	params := newParams(string(call.Kind), call.Input, call.Instructions, call.ChatID, call.UserID)
	if call.Hosted != nil {
		params.Prompt = responses.ResponsePromptParam{ID: call.Hosted.ID, Version: param.NewOpt(call.Hosted.Version)}
	} else {
		params.Model = call.Model
	}
	response, err := c.ask(ctx, params, call.UserID, call.ChatID)
	if err != nil {
		if call.Hosted != nil && isPromptGone(err) {
			return brief.Answer{}, fmt.Errorf("%w: %w", brief.ErrPromptGone, upstreamError(ctx, err))
		}
		return brief.Answer{}, upstreamError(ctx, err)
	}
	// The gate judges an incomplete answer like any other.
	if err := unanswered(response, "The model failed to summarize."); err != nil {
		return brief.Answer{}, err
	}
	return textOf(response), nil
}

// unanswered is the error of a response that is neither whole nor cut short.
func unanswered(response *responses.Response, message string) error {
	switch {
	case response.Status == responses.ResponseStatusCompleted, response.Status == responses.ResponseStatusIncomplete:
		return nil
	case response.Error.Code != "":
		return reportedError(string(response.Error.Code))
	}
	return fault.Wrap(fault.UpstreamFailed, message, fmt.Errorf("status %q", response.Status))
}

// summaryText returns the parts of an answer, each a text of its own. A refusal is no summary, whatever it says.
func summaryText(response *responses.Response) string {
	var parts []string
	for _, item := range response.Output {
		for _, part := range item.Content {
			if part.Type == "output_text" && part.Text != "" {
				parts = append(parts, part.Text)
			}
		}
	}
	return strings.Join(parts, partGap)
}
