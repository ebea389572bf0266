package postgres

import (
	"context"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Search finds messages in one round trip.
func (h *History) Search(ctx context.Context, user auth.Principal, query history.SearchQuery) ([]history.SearchResult, error) {
	asked := history.WebSearch(query.Text)
	var state *chatState
	var rows []dbsqlc.SearchMessagesRow
	err := h.sendAs(ctx, user, "search", func(batch *pgx.Batch) {
		if query.ChatID != uuid.Nil {
			batch.Queue(dbsqlc.ChatState, query.ChatID).Query(one(&state))
		}
		batch.Queue(dbsqlc.SearchMessages, asked, history.IsQuestion(query.Text), nullable(query.ChatID), orNull(query.Role),
			query.After, query.Before, history.SearchCandidates, query.Limit).Query(all(&rows))
	})
	if err != nil {
		return nil, err
	}
	if query.ChatID != uuid.Nil {
		if err := refusal(state); err != nil {
			return nil, err
		}
	}
	found := make([]history.SearchResult, len(rows))
	for i, row := range rows {
		found[i] = history.SearchResult{
			MessageID: row.ID, ChatID: row.ChatID, ChatTitle: row.Title, Seq: row.Seq, Role: row.Role, CreatedAt: row.CreatedAt.UTC(),
			Rank: row.Rank, Snippet: history.ReadSnippet(row.Headline),
		}
	}
	return found, nil
}
