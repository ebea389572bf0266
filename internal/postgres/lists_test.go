package postgres

import (
	"math"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// manyMessages is how many messages the talkative user of TestListsOfManyMessages has.
func manyMessages() int {
	if testing.Short() {
		return 20_000
	}
	return 100_000
}

// fillMessages gives a user a hundred chats with so many messages in all, half of them in the chat that it returns.
func (b *bed) fillMessages(user auth.Principal, messages int) uuid.UUID {
	b.t.Helper()
	long := uuid.New()
	admin := testkit.Connect(b.t, b.db.AdminDSN)
	testkit.Exec(b.t, admin, "set session_replication_role = replica") // no triggers and no checks of foreign keys
	testkit.Exec(b.t, admin, `insert into chats (id, user_id, title, last_seq, message_count, turn_count, created_at, last_message_at)
		select case when n = 1 then $1 else gen_random_uuid() end, $2, 'Chat ' || n, per, per, per / 2, now() - interval '1 year', now() - make_interval(hours => n)
		  from (select n, case when n = 1 then $3::int / 2 else $3::int / 198 end as per from generate_series(1, 100) n) c`, long, user.UserID, messages)
	testkit.Exec(b.t, admin, `insert into messages (chat_id, user_id, seq, role, content, token_count, status, metadata, created_at)
		select c.id, c.user_id, n, case when n % 2 = 1 then 'user' else 'assistant' end, repeat('some words of a message ', 12), 60, 'complete',
		       case when n % 2 = 0 then '{"model": "m", "usage": {"input_tokens": 900, "cached_tokens": 700, "output_tokens": 60}}'::jsonb else '{}' end,
		       c.last_message_at - make_interval(secs => c.last_seq - n)
		  from chats c, generate_series(1, c.last_seq) n where c.user_id = $1`, user.UserID)
	testkit.Exec(b.t, admin, "vacuum analyze chats")
	testkit.Exec(b.t, admin, "vacuum analyze messages")
	return long
}

// Lists read as much for a user with many messages as for one with few, in as many chats, wherever the page begins.
func TestListsOfManyMessages(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	quiet, talkative := b.newUser(), b.newUser()
	read := map[string][2]int{}
	for n, user := range []auth.Principal{quiet, talkative} {
		messages := []int{1_000, manyMessages()}[n]
		long := b.fillMessages(user, messages)
		last := int64(messages / 2)
		batch := &pgx.Batch{} // is never sent
		before := func(seq int64) *pgx.QueuedQuery {
			return queue(batch, queries.ListMessagesBefore, dbsqlc.ListMessagesBeforeParams{ChatID: long, BeforeSeq: seq, Most: 50})
		}
		tx := b.begin()
		if err := dbsqlc.New(tx).ActAsUser(t.Context(), user.Claims); err != nil {
			t.Fatal(err)
		}
		for name, query := range map[string]*pgx.QueuedQuery{
			"chats": queue(batch, queries.ListChats, dbsqlc.ListChatsParams{Most: 20}),
			"chats, a later page": queue(batch, queries.ListChats, dbsqlc.ListChatsParams{
				AsOf: new(time.Now()), Activity: new(time.Now().Add(-50 * time.Hour)), ChatID: nullID(uuid.New()), Most: 20,
			}),
			"chat":                      queue(batch, queries.ReadChat, long),
			"messages, the newest":      before(math.MaxInt64),
			"messages, in the middle":   before(last / 2),
			"messages, the first":       before(51),
			"messages, after the first": queue(batch, queries.ListMessagesAfter, dbsqlc.ListMessagesAfterParams{ChatID: long, AfterSeq: 0, Most: 50}),
			"files":                     queue(batch, queries.ListFiles, dbsqlc.ListFilesParams{ChatID: long}),
		} {
			for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
				testkit.Exec(t, tx, "select set_config('plan_cache_mode', $1, true)", mode)
				_, _ = blocksRead(t, tx, query) // loads what a connection reads once
				pages, plan := blocksRead(t, tx, query)
				of := read[name+", "+mode]
				of[n] = pages
				read[name+", "+mode] = of
				// A page of messages is one or two steps of a tree deeper, and no message is read that is not shown.
				if n == 1 && pages > 2*of[0]+20 {
					t.Errorf("%s: %d pages instead of %d with %s:\n%s", name, pages, of[0], mode, plan)
				}
			}
		}
		began := time.Now()
		pages, _ := blocksRead(t, tx, &pgx.QueuedQuery{SQL: dbsqlc.CountUsage})
		t.Logf("usage of %d messages: %d pages, %s", messages, pages, time.Since(began))
	}
	for name, pages := range read {
		t.Logf("%s: %d and %d pages", name, pages[0], pages[1])
	}
}
