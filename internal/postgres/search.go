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
	var found []history.SearchResult
	fill := func(batch *pgx.Batch) {
		found = []history.SearchResult{}
		queueSearch(batch, query, func(row dbsqlc.SearchMessagesRow) {
			found = append(found, history.SearchResult{
				MessageID: row.ID, ChatID: row.ChatID, ChatTitle: row.Title, Seq: row.Seq, Role: row.Role, CreatedAt: row.CreatedAt,
				Rank: row.Rank, Snippet: history.ReadSnippet(row.Headline),
			})
		})
	}
	if query.ChatID == uuid.Nil {
		err := sendAs(ctx, h.pool, user, "search", fill)
		return found, err
	}
	err := sendAbout(ctx, h.pool, user, query.ChatID, "search", fill)
	return found, err
}

// queueSearch adds the statement of the query's mode.
func queueSearch(batch *pgx.Batch, query history.SearchQuery, add func(dbsqlc.SearchMessagesRow)) {
	if query.Mode != history.ModeAny {
		queueMany(batch, queries.SearchMessages, dbsqlc.SearchMessagesParams{
			Query: history.WebSearch(query.Text), AsQuestion: history.IsQuestion(query.Text),
			ChatID: nullID(query.ChatID), Role: nullZero(query.Role), Since: query.After, Until: query.Before,
			Candidates: history.SearchCandidates, Most: query.Limit,
		}, add)
		return
	}
	terms, without := history.AnyTerms(query.Text)
	queueMany(batch, queries.SearchAnyWord, dbsqlc.SearchAnyWordParams{
		Terms: terms, Without: without,
		ChatID: nullID(query.ChatID), Role: nullZero(query.Role), Since: query.After, Until: query.Before,
		Candidates: history.SearchCandidates, Most: query.Limit,
	}, func(row dbsqlc.SearchAnyWordRow) { add(dbsqlc.SearchMessagesRow(row)) })
}
