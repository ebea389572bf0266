package postgres

import (
	"context"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// foundMessage is a row of a search.
type foundMessage struct {
	history.SearchResult
	Headline string
}

// Search finds messages in one round trip.
func (h *History) Search(ctx context.Context, user auth.Principal, query history.SearchQuery) ([]history.SearchResult, error) {
	var rows []foundMessage
	fill := func(batch *pgx.Batch) { queueSearch(batch, query).Query(all(&rows)) }
	var err error
	if query.ChatID == uuid.Nil {
		err = sendAs(ctx, h.pool, user, "search", fill)
	} else {
		err = sendAbout(ctx, h.pool, user, query.ChatID, "search", fill)
	}
	found := make([]history.SearchResult, len(rows))
	for n, row := range rows {
		found[n] = row.SearchResult
		found[n].Snippet = history.ReadSnippet(row.Headline)
	}
	return found, err
}

// queueSearch adds the statement of the query's mode.
func queueSearch(batch *pgx.Batch, query history.SearchQuery) *pgx.QueuedQuery {
	if query.Mode != history.ModeAny {
		return queueExec(batch, queries.SearchMessages, dbsqlc.SearchMessagesParams{
			Query: history.WebSearch(query.Text), AsQuestion: history.IsQuestion(query.Text),
			ChatID: nullID(query.ChatID), Role: nullZero(query.Role), Since: query.After, Until: query.Before,
			Candidates: history.SearchCandidates, Most: query.Limit,
		})
	}
	terms, without := history.AnyTerms(query.Text)
	return queueExec(batch, queries.SearchAnyWord, dbsqlc.SearchAnyWordParams{
		Terms: terms, Without: without,
		ChatID: nullID(query.ChatID), Role: nullZero(query.Role), Since: query.After, Until: query.Before,
		Candidates: history.SearchCandidates, Most: query.Limit,
	})
}
