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
	var counted dbsqlc.CountUsageRow
	err := sendAs(ctx, h.pool, user, "count usage", func(batch *pgx.Batch) {
		queueOne(batch, bare(queries.CountUsage), struct{}{}, set(&counted))
	})
	return history.Stats{
		Chats: counted.Chats, ExpiredChats: counted.ExpiredChats, Turns: counted.Turns, Messages: counted.Messages,
		Tokens: history.UsedTokens{
			Reply:   history.ReplyTokens{Input: counted.ReplyInput, Cached: counted.ReplyCached, Output: counted.ReplyOutput},
			Fold:    history.FoldTokens{Input: counted.FoldInput, Output: counted.FoldOutput},
			Rebuild: history.FoldTokens{Input: counted.RebuildInput, Output: counted.RebuildOutput},
		},
		StoredBytes: history.StoredBytes{
			Messages: counted.MessageBytes, Files: counted.FileBytes, Briefs: counted.BriefBytes,
			Total: counted.MessageBytes + counted.FileBytes + counted.BriefBytes,
		},
	}, err
}
