package mcptools

import (
	"context"
	"time"

	"github.com/arcoscribe/throughline/internal/history"
)

type searchInput struct {
	Query string `json:"query" jsonschema:"1 to 500 characters."`
	Limit int    `json:"limit,omitempty" jsonschema:"How many results, 1 to 100; 20 when it is left out."`
}

type searchOutput struct {
	Results []foundOutput `json:"results" jsonschema:"The best matches first."`
}

// foundOutput is a message that was found.
type foundOutput struct {
	ContinuationID string    `json:"continuation_id" jsonschema:"The thread that the message is in."`
	Title          string    `json:"title" jsonschema:"That thread's."`
	MessageID      string    `json:"message_id"`
	Role           string    `json:"role"`
	CreatedAt      time.Time `json:"created_at"`
	Snippet        string    `json:"snippet" jsonschema:"The part of the message that holds what was searched for."`
}

func (s *Server) searchHistory(ctx context.Context, in searchInput) (searchOutput, error) {
	found, err := s.History.Search(ctx, callerOf(ctx).user, history.SearchQuery{Text: in.Query, Limit: in.Limit})
	out := searchOutput{Results: make([]foundOutput, len(found))}
	for i, result := range found {
		out.Results[i] = foundOutput{
			ContinuationID: result.ChatID.String(), Title: result.ChatTitle, MessageID: result.MessageID.String(),
			Role: result.Role, CreatedAt: result.CreatedAt, Snippet: result.Text,
		}
	}
	return out, err
}
