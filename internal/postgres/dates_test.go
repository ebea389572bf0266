package postgres

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/history"
)

// Dates that no JSON can have are refused, whoever writes them.
func TestDatesThatJSONCannotHaveAreRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	chatID := b.newChat(1)
	for _, date := range []string{"infinity", "-infinity", "10000-01-01 00:00Z", "9999-12-31 23:59:59-12", "0001-01-01 00:00+14", "0044-03-15 BC"} {
		for _, sql := range []string{
			"insert into chats (user_id, created_at) select user_id, $2::text::timestamptz from chats where id = $1",
			"update chats set revived_at = $2::text::timestamptz where id = $1",
			"update chats set last_message_at = $2::text::timestamptz where id = $1",
			"insert into messages (chat_id, role, created_at) values ($1, 'user', $2::text::timestamptz)",
			"update messages set created_at = $2::text::timestamptz where chat_id = $1",
		} {
			if _, err := b.pool.Exec(t.Context(), sql, chatID, date); sqlState(err) != "23514" || !strings.Contains(err.Error(), "dates_storable") {
				t.Errorf("%s with %s: %v", sql, date, err)
			}
		}
	}
	b.exec("update chats set ttl_hours = 87600, revived_at = '9999-12-31 23:59:59.999999Z' where id = $1", chatID)
	if chat, err := b.searches().FindChat(t.Context(), b.user, chatID); err != nil || chat.ExpiresAt.Year() != 9999 {
		t.Errorf("%+v, %v", chat, err)
	}
}

// Where somebody dropped the constraint, a user's chats can still be read.
func TestDatesThatJSONCannotHaveAreReadAsTheNearest(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.exec("alter table chats drop constraint chats_valid")
	b.exec("alter table messages drop constraint messages_valid")
	for date, want := range map[string]string{"infinity": "9999-12-31T23:59:59Z", "-infinity": "0001-01-01T00:00:00Z", "20000-02-03": "9999-12-31T23:59:59Z", "0044-03-15 BC": "0001-01-01T00:00:00Z"} {
		id := ask[uuid.UUID](b, "insert into chats (user_id, created_at, revived_at) values ($1, $2::text::timestamptz, $2::text::timestamptz) returning id", b.user.UserID, date)
		b.exec("insert into messages (chat_id, role, content, created_at) values ($1, 'user', 'Hello', $2::text::timestamptz)", id, date)
		page, err := b.searches().ListMessages(t.Context(), b.user, id, history.MessagesQuery{Limit: 5})
		if err != nil || len(page.Messages) != 1 || page.Messages[0].CreatedAt.Format(time.RFC3339) != want {
			t.Errorf("%s: %+v, %v", date, page, err)
		}
	}
	chats, err := b.searches().ListChats(t.Context(), b.user, history.ListQuery{Limit: 50})
	if err != nil || len(chats.Chats) != 4 {
		t.Fatalf("%+v, %v", chats, err)
	}
	if _, err := json.Marshal(chats); err != nil {
		t.Error(err)
	}
}
