package postgres

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/work"
)

// What calls have cost is summed by day, purpose and model, stays when the chat goes, and is forgotten after 400 days. A user who
// is gone has spent nothing, and that is no failure.
func TestUsage(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var log bytes.Buffer
	usage := NewUsage(b.pool, slog.New(slog.NewTextHandler(&log, nil)))
	chat := b.newChat(1)
	for _, one := range []work.Spent{
		{Purpose: "extract", Model: "m", UserID: b.user.UserID, ChatID: chat, InputTokens: 90, CachedTokens: 64, OutputTokens: 7},
		{Purpose: "extract", Model: "m", UserID: b.user.UserID, ChatID: chat, InputTokens: 10, Estimated: true},
		{Purpose: "entities", Model: "m", UserID: b.user.UserID, InputTokens: 5, OutputTokens: 1},
		{Purpose: "extract", Model: "m", UserID: uuid.New(), InputTokens: 1},
	} {
		usage.Record(t.Context(), one)
	}
	b.exec("delete from chats where id = $1", chat)
	sums := func() string {
		return ask[string](b, `select coalesce(string_agg(format('%s %s %s: %s %s %s', purpose, model, calls, input_tokens, cached_tokens, output_tokens), ', '
			order by purpose), '') from inspect.tokens_by_day where purpose <> 'reply'`)
	}
	is(t, sums(), "entities m 1: 5 0 1, extract m 2: 100 64 7", "spent")
	is(t, log.String(), "", "logged")
	b.exec("update usage_events set created_at = now() - interval '401 days' where purpose = 'extract'")
	noError(t, NewMaintenance(b.pool, b.limits).DeleteOldUsage(t.Context()))
	is(t, sums(), "entities m 1: 5 0 1", "after 400 days")
}
