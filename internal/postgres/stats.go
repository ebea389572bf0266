package postgres

import (
	"context"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/history"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/jackc/pgx/v5"
)

// CountUsage counts in one round trip.
func (h *History) CountUsage(ctx context.Context, user auth.Principal) (history.Stats, error) {
	count := func(q queries, ctx context.Context, _ struct{}) (dbsqlc.CountUsageRow, error) {
		return q.CountUsage(ctx)
	}
	var counted dbsqlc.CountUsageRow
	err := sendAs(ctx, h.pool, user, "count usage", func(batch *pgx.Batch) {
		queueOne(batch, count, struct{}{}, set(&counted))
	})
	if err != nil {
		return history.Stats{}, err
	}
	return stats(counted), nil
}

func stats(row dbsqlc.CountUsageRow) history.Stats {
	return history.Stats{
		Chats: row.Chats, ExpiredChats: row.ExpiredChats, Turns: row.Turns, Messages: row.Messages,
		Tokens: history.UsedTokens{
			Reply:   history.ReplyTokens{Input: row.ReplyInput, Cached: row.ReplyCached, Output: row.ReplyOutput},
			Fold:    history.FoldTokens{Input: row.FoldInput, Output: row.FoldOutput},
			Rebuild: history.FoldTokens{Input: row.RebuildInput, Output: row.RebuildOutput},
		},
		StoredBytes: history.StoredBytes{
			Messages: row.MessageBytes, Files: row.FileBytes, Briefs: row.BriefBytes, Total: row.MessageBytes + row.FileBytes + row.BriefBytes,
		},
	}
}
