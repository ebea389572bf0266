package postgres

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/memory/brief"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// Whoever indexes, and whoever edits or deletes at that moment: no word of a message outlives it in any table, and every
// other one can be found.
func TestNoWordOutlivesItsMessage(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	random := seeded(t)
	const canary = "xylophon"
	for n := range races(t, 100) { // 25 in short mode
		chatID := b.newChat(2)
		said := turnIn(chatID, "I own a "+canary)
		b.start(said)
		b.reply(said, "A "+canary+"!")
		last := turnIn(chatID, "And more?")
		b.start(last)
		b.reply(last, "Nothing.")
		change := b.claim(chatID, brief.KindFold)
		if random.IntN(2) == 0 { // what is changed is indexed already, with the words of the turn after it
			if err := b.index.IndexTurns(t.Context(), chatID); err != nil {
				t.Fatal(err)
			}
		}
		indexers := map[string]func() error{
			"fold":  func() error { _, err := b.commit(change); return err },
			"job":   func() error { return b.index.IndexTurns(t.Context(), chatID) },
			"sweep": func() error { _, err := b.index.IndexRested(t.Context(), -time.Minute, testkit.Patience); return err },
		}
		changes := map[string]string{
			"deletion of the turn": "delete from messages where id = any($1)",
			"edit":                 "update messages set content = 'I own a drum' where id = any($1)",
			"emptying":             "update messages set content = '' where id = any($1)",
			"superseding":          "with gone as (update messages set superseded_by = id, token_count = 0, content = '' where id = any($1) returning id) select from gone",
		}
		var both sync.WaitGroup
		for who, index := range indexers {
			both.Go(func() {
				if err := index(); err != nil {
					t.Errorf("round %d: %s: %v", n, who, err)
				}
			})
		}
		what := []string{"deletion of the turn", "edit", "emptying", "superseding"}[random.IntN(4)]
		both.Go(func() {
			err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), changes[what], []uuid.UUID{said.UserMessageID, said.MessageID})
				return err
			})
			if err != nil {
				t.Errorf("round %d: %s: %v", n, what, err)
			}
		})
		both.Wait()
		if err := b.index.IndexTurns(t.Context(), chatID); err != nil {
			t.Fatal(err)
		}
		if found := b.holders(canary); len(found) > 0 {
			t.Fatalf("round %d: after the %s %v hold it", n, what, found)
		}
		if wrong := ask[int](b, "select count(*) from conversation_briefs where indexed_seq < covered_seq or to_index"); wrong > 0 {
			t.Fatalf("round %d: %d chats are not indexed to their end", n, wrong)
		}
	}
	b.checkIndex()
	b.checkCounters()
}

// Deleting a user, a chat, or hundreds of messages while workers index ends, and leaves nothing.
func TestBulkDeletionWhileWorkersIndex(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for n := range races(t, 40) {
		user := b.newUser()
		b.user = user
		chats := []uuid.UUID{b.newChat(1), b.newSimpleChat(1)}
		for _, chatID := range chats {
			b.exec(`insert into messages (chat_id, role, content) select $1, (array['user', 'assistant'])[1 + n % 2], 'xylophon ' || n from generate_series(0, 399) n`, chatID)
		}
		var all sync.WaitGroup
		for _, chatID := range chats {
			all.Go(func() {
				if err := b.index.IndexTurns(t.Context(), chatID); err != nil {
					t.Errorf("round %d: %v", n, err)
				}
			})
		}
		all.Go(func() {
			if _, err := b.index.IndexRested(t.Context(), -time.Minute, testkit.Patience); err != nil {
				t.Errorf("round %d: %v", n, err)
			}
		})
		deletion := []string{
			"delete from auth.users where id = $1", "delete from chats where user_id = $1",
			"delete from messages where user_id = $1", "delete from messages where user_id = $1 and content like 'xylophon%'",
		}[n%4]
		all.Go(func() {
			err := inTx(t.Context(), b.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), deletion, user.UserID)
				return err
			})
			if err != nil {
				t.Errorf("round %d: %s: %v", n, deletion, err)
			}
		})
		all.Wait()
	}
	if found := b.holders("xylophon"); len(found) > 0 {
		t.Errorf("%v hold what was deleted", found)
	}
	b.checkIndex()
}
