package postgres

import (
	"context"
	"slices"

	"github.com/arcoscribe/throughline/internal/memory/topics"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Titles is the store of the titles that the model makes.
type Titles struct{ Pool *pgxpool.Pool }

var _ topics.TitleStore = (*Titles)(nil)

// ReadUntitled reads the end of a chat.
func (t *Titles) ReadUntitled(ctx context.Context, chatID uuid.UUID) (topics.UntitledChat, bool, error) {
	var chat topics.UntitledChat
	found := false
	owner, err := sendAsOwner(ctx, t.Pool, chatID, "read untitled chat", func(batch *pgx.Batch) {
		chat, found = topics.UntitledChat{}, false
		dbsqlc.ReadUntitled.Read(batch, chatID, func(row dbsqlc.ReadUntitledRow) {
			found = true
			chat.EditCount, chat.ClearedSeq, chat.Summary, chat.Idle = row.EditCount, row.ClearedSeq, row.Summary, seconds(row.IdleSeconds)
		})
		dbsqlc.ReadTitleTurns.Read(batch, chatID, func(row dbsqlc.ReadTitleTurnsRow) {
			chat.Said = append(chat.Said, topics.QuestionMessage{Role: row.Role, Content: row.Content})
			chat.LastSeq = max(chat.LastSeq, row.Seq)
		})
	})
	slices.Reverse(chat.Said)
	chat.UserID = owner
	return chat, found, err
}

// WriteTitle locks the chat and then the brief, as a turn does.
func (t *Titles) WriteTitle(ctx context.Context, chatID uuid.UUID, chat topics.UntitledChat, title string) error {
	_, err := sendAsOwner(ctx, t.Pool, chatID, "write title", func(batch *pgx.Batch) {
		dbsqlc.LockOwnChat.Queue(batch, chatID)
		dbsqlc.LockOwnBrief.Queue(batch, chatID)
		dbsqlc.WriteTitle.Queue(batch, dbsqlc.WriteTitleParams{
			ChatID: chatID, Title: title, TitleSeq: chat.LastSeq, EditCount: chat.EditCount, ClearedSeq: chat.ClearedSeq,
		})
	})
	return err
}
