package demo

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/dev/inspect"
)

// storedMessage is a message's place in its chat.
type storedMessage struct {
	ID     uuid.UUID
	Seq    int64
	IsUser bool
}

// checkCoverage counts the unseen turns from the stored messages, so that the report does not take the receipts' own
// word for it.
func (s *Summary) checkCoverage(ctx context.Context, dsn string) error {
	conn, err := inspect.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // only read
	rows, _ := conn.Query(ctx, "select id, seq, role = 'user' from public.messages where chat_id = $1 order by seq", s.ChatID)
	messages, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storedMessage])
	if err != nil {
		return fmt.Errorf("check the coverage: %w", err)
	}
	s.UnseenTurns, s.CoverageChecked = unseenTurns(s.Turns, messages)
	return nil
}

// unseenTurns returns how many earlier turns were neither in the brief nor in the prompt, added up over all replies.
// Bridge and tail are the newest turns in one run, so of the turns after the brief the oldest are missing. It reports
// false when a message that was answered is not stored.
func unseenTurns(turns []Turn, messages []storedMessage) (unseen int, complete bool) {
	for _, turn := range turns {
		at := slices.IndexFunc(messages, func(m storedMessage) bool { return m.ID == turn.UserMessageID })
		if at < 0 {
			return 0, false
		}
		after := 0
		for _, m := range messages[:at] {
			if m.IsUser && m.Seq > turn.Receipt.CoveredThroughSeq {
				after++
			}
		}
		unseen += max(0, after-turn.Receipt.BridgeTurns-turn.Receipt.TailTurns)
	}
	return unseen, true
}
