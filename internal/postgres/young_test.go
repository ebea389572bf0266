package postgres

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/bundle"
	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/internal/transfer"
)

// newYoungBed is a bed whose tables were analyzed when they held one chat of a few messages, as on a project's first
// day. It has one connection, which has made and kept the plans of its triggers by then. Not through a pooler: the
// counts are those of one session.
func newYoungBed(t *testing.T) (b *bed, chatID uuid.UUID) {
	t.Helper()
	db := testkit.NewDatabase(t)
	db.DSN = db.Direct()
	b = newBedOn(t, db, memory.DefaultLimits(), 1)
	chatID = b.emptyChat()
	for range 8 {
		b.exec("insert into messages (chat_id, role, content) values ($1, 'user', 'hello')", chatID)
		b.exec("update messages set content = content || '!' where chat_id = $1 and seq = 1", chatID)
	}
	b.exec("vacuum analyze")
	for range 8 {
		b.exec("insert into messages (chat_id, role, content) values ($1, 'user', 'hello')", chatID)
		b.exec("update messages set content = content || '!' where chat_id = $1 and seq = 1", chatID)
		b.exec("delete from messages where chat_id = $1 and seq = (select max(seq) from messages)", chatID)
	}
	return b, chatID
}

// rowsTouched returns how many rows of our tables a session has read, by whole scans and by indexes.
func rowsTouched(b *bed, view, whole string, in testkit.Querier) int {
	b.t.Helper()
	return testkit.Ask[int](b.t, in, "select coalesce(sum(case when "+whole+` then seq_tup_read else 0 end + coalesce(idx_tup_fetch, 0)), 0)
		from `+view+" where schemaname = 'public'")
}

// Each statement reads some rows for each row that it writes, and not the table, whatever was known when its
// triggers were planned. Whole scans of chats are not counted: Postgres' own check of the foreign key keeps its
// plan just so, and only whoever inserts can ask it for another (plan_cache_mode).
func TestBulkChangesOfAYoungDatabaseReadWhatTheyWrite(t *testing.T) {
	t.Parallel()
	b, chatID := newYoungBed(t)
	tx := b.begin()
	const rows = 3000
	for _, step := range []struct {
		what, sql string
		args      []any
	}{
		{"messages of one chat", "insert into messages (chat_id, role, content) select $1, 'user', 'hello' from generate_series(1, $2)", []any{chatID, rows}},
		{"messages that exist", `insert into messages (id, chat_id, role, content) select id, chat_id, role, content from messages where chat_id = $1
			on conflict do nothing`, []any{chatID}},
		{"chats", "insert into chats (user_id, title) select $1, 'new' from generate_series(1, $2)", []any{b.user.UserID, rows}},
		{"messages of many chats", "insert into messages (chat_id, role, content) select id, 'user', 'hello' from chats where title = 'new'", nil},
		{"edits", "update messages set content = content || '?' where chat_id = $1", []any{chatID}},
		{"edits in many chats", "update messages set content = 'goodbye' where chat_id <> $1", []any{chatID}},
		{"settings", "update chats set max_turns = 5", nil},
		{"deletions", "delete from messages where chat_id <> $1", []any{chatID}},
	} {
		before := rowsTouched(b, "pg_stat_xact_user_tables", "relname <> 'chats'", tx)
		written := testkit.Exec(t, tx, step.sql, step.args...)
		read := rowsTouched(b, "pg_stat_xact_user_tables", "relname <> 'chats'", tx) - before
		t.Logf("%s: %d rows written, %d read", step.what, written, read)
		if read > 20*rows || written < rows && step.what != "messages that exist" {
			t.Errorf("%s: %d rows written, %d read", step.what, written, read)
		}
	}
	is(t, testkit.Ask[bool](t, tx, `select count(*) = 1 + max(seq) - min(seq) filter (where seq > 8) and max(seq) = (select last_seq from chats
		where id = $1) from messages where chat_id = $1 and seq > 8`, chatID), true, "seq has gaps")
}

// A long chat with files and a file of many chats, on a connection that has already imported small ones.
func TestImportsIntoAYoungDatabaseReadWhatTheyWrite(t *testing.T) {
	t.Parallel()
	b, _ := newYoungBed(t)
	p := &port{bed: b, transfer: transfer.New(transfer.Config{
		Store: NewTransfer(b.pool, b.limits, Enqueue{}, UserMemoriesOptions{}), Logger: slog.New(slog.DiscardHandler), TempDir: t.TempDir(),
	})}
	file := bundle.File{Content: "package main", SHA256: hashOf("package main")}
	chatOf := func(messages int) string {
		said := make([]bundle.Message, messages)
		for n := range said {
			said[n] = bundle.Message{ID: uuid.NewString(), Role: "system", Content: "hello", Files: []bundle.FileRef{{Path: "main.go", SHA256: file.SHA256}}}
		}
		return encoded(t, bundle.Chat{ID: uuid.NewString()}, []bundle.File{file}, said)
	}
	for range 8 {
		p.mustImport(b.user, chatOf(1))
	}
	b.exec("vacuum analyze")
	for range 8 {
		p.mustImport(b.user, chatOf(1))
	}
	const rows = 1500
	var chats strings.Builder
	for range rows {
		chats.WriteString(chatOf(1))
	}
	for name, text := range map[string]string{"one chat": chatOf(rows), "many chats": chats.String()} {
		before := b.rowsRead()
		p.mustImport(b.user, text)
		read := b.rowsRead() - before
		t.Logf("%s: %d rows read", name, read)
		if read > 400*rows { // a few rows each, and small tables whole; read whole to the end it would be 3000 each
			t.Errorf("%s of %d messages: %d rows read", name, rows, read)
		}
	}
}

// rowsRead returns how many rows the only connection has read since it began.
func (b *bed) rowsRead() int {
	b.t.Helper()
	b.exec("select pg_stat_force_next_flush()")
	return rowsTouched(b, "pg_stat_user_tables", "true", b.pool)
}
