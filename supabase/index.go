package supabase

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// indexRested indexes a few chats, about a thousand turns at most, so that nobody waits long for one of them.
const indexRested = "select throughline.index_rested(interval '1 minute', 4)"

// IndexRested indexes the turns that briefs covered before there was an index, and those of chats in which nobody has
// spoken for a minute. Each batch is a transaction of its own, which a migration cannot have, and takes only chats that
// nobody works on. It may run repeatedly and concurrently, while servers run; the sweep of a worker does the same in the
// course of time.
func IndexRested(ctx context.Context, dsn string, logger *slog.Logger) error {
	conn, err := connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	start, batches := time.Now(), 0
	for chats := 1; chats > 0; batches++ {
		if err := conn.QueryRow(ctx, indexRested).Scan(&chats); err != nil {
			return fmt.Errorf("indexing turns: %w", err)
		}
	}
	if batches > 1 {
		logger.InfoContext(ctx, "turns indexed", "batches", batches-1, "duration_ms", time.Since(start).Milliseconds())
	}
	return nil
}
