package supabase_test

import (
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/testkit"
	"github.com/arcoscribe/throughline/supabase"
)

// newOldDatabase has what a database had before there was an index: the migrations up to 108, and chats with briefs.
func newOldDatabase(t *testing.T, chats, turns int) (testkit.Database, *pgx.Conn) {
	t.Helper()
	database := testkit.NewEmptyDatabase(t)
	old := fstest.MapFS{}
	for _, name := range localMigrations(t) {
		if name < "20261122000109" {
			text, err := fs.ReadFile(supabase.Embedded, "migrations/"+name+".sql")
			if err != nil {
				t.Fatal(err)
			}
			old["migrations/"+name+".sql"] = &fstest.MapFile{Data: text}
		}
	}
	if _, err := supabase.MigrateFrom(t.Context(), database.DSN, old, silent); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, database.DSN)
	testkit.Exec(t, conn, "insert into public.chats (user_id) select $1 from generate_series(1, $2)", testkit.NewUser(t, database), chats)
	testkit.Exec(t, conn, `insert into public.messages (chat_id, role, content)
		select c.id, role, role || n from public.chats c, generate_series(1, $1) n, unnest(array['user', 'assistant']) with ordinality roles (role, place) order by c.id, n, place`, turns)
	// All but the last turn are in the brief, as folds leave them.
	testkit.Exec(t, conn, `update public.conversation_briefs set version = 1, covered_seq = $1, pending_turns = 1,
		pending_tokens = (select sum(token_count) from public.messages m where m.chat_id = conversation_briefs.chat_id and m.seq > $1)`, 2*turns-2)
	return database, conn
}

// notIndexed is the number of chats of which covered turns are not indexed.
func notIndexed(t *testing.T, conn *pgx.Conn) int {
	t.Helper()
	return testkit.Ask[int](t, conn, `select count(*) from inspect.unindexed where reason like 'its brief covers them%'`)
}

// After migrate every turn that was folded before can be found, also those of chats that go on meanwhile.
func TestMigrateIndexesWhatWasFoldedBefore(t *testing.T) {
	t.Parallel()
	const chats, turns = 30, 40
	database, conn := newOldDatabase(t, chats, turns)
	if _, err := supabase.Migrate(t.Context(), database.DSN, silent); err != nil {
		t.Fatal(err)
	}
	if n := notIndexed(t, conn); n != chats {
		t.Errorf("before: %d chats", n)
	}
	var all sync.WaitGroup
	for range 2 { // two at once
		all.Go(func() {
			if err := supabase.IndexRested(t.Context(), database.DSN, silent); err != nil {
				t.Error(err)
			}
		})
	}
	writer := connect(t, database.DSN)
	talked := testkit.Ask[[]uuid.UUID](t, conn, "select array_agg(id) from public.chats")
	all.Go(func() {
		for _, chat := range talked {
			if _, err := writer.Exec(t.Context(), "insert into public.messages (chat_id, role, content) values ($1, 'user', 'meanwhile')", chat); err != nil {
				t.Error(err)
			}
			if _, err := writer.Exec(t.Context(), "delete from public.messages where chat_id = $1 and seq = 3", chat); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	// Each leaves chats that the other or a writer has locked.
	if err := supabase.IndexRested(t.Context(), database.DSN, silent); err != nil {
		t.Error(err)
	}
	if n := notIndexed(t, conn); n != 0 {
		t.Errorf("after: %d chats", n)
	}
	if got := testkit.Ask[int](t, conn, "select count(*) from public.turn_index where last_seq <= $1", 2*turns-2); got != chats*(turns-1)-chats {
		t.Errorf("%d of the covered turns are indexed, want %d", got, chats*(turns-2))
	}
	if got := testkit.Ask[int](t, conn, "select count(*) from public.turn_index where tsv @@ 'user2'"); got != 0 {
		t.Errorf("%d deleted questions are indexed", got)
	}
	var log testkit.Log
	if err := supabase.IndexRested(t.Context(), database.DSN, log.Logger()); err != nil || strings.Contains(log.String(), "indexed") {
		t.Errorf("with nothing to do: %v %s", err, log.String())
	}
}
