package postgres

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/arcoscribe/throughline/internal/memory"
	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// idleChats is how many chats rest while the server works for a few.
func idleChats() int {
	if testing.Short() {
		return 100_000
	}
	return 1_000_000
}

// fillIdle stores chats that need nothing, of every kind that is almost due: tools' chats at their turn limit, simple
// chats far beyond all limits, chats just below the threshold, or over it with a single turn, and chats that expired
// but are kept.
func (b *bed) fillIdle() {
	b.t.Helper()
	admin := testkit.Connect(b.t, b.db.AdminDSN)
	for _, sql := range []string{
		"set session_replication_role = replica", // no triggers and no checks of foreign keys
		`insert into chats (id, user_id, memory_strategy, max_turns, tool_name, ttl_hours, expires_at, created_at, last_message_at)
			select ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, ('00000000-0000-4000-9000-' || lpad(to_hex(n / 20), 12, '0'))::uuid,
			       case when n % 4 = 1 then 'simple' else 'summary' end, case when n % 2 = 0 then 50 when n % 4 = 1 then 1 end,
			       case when n % 2 = 0 then 'editor' end, case when n % 2 = 0 then 3 end,
			       case when n % 2 = 0 then now() - interval '1 day' * (n % 29) end, now() - interval '60 days', now() - interval '1 day' * (n % 29)
			  from generate_series(1, $1::int) n`,
		`insert into conversation_briefs (chat_id, user_id, memory_strategy, max_turns, to_index, pending_tokens, pending_turns)
			select id, user_id, memory_strategy, max_turns, false, case when memory_strategy = 'simple' then 90000 when tool_name is null and n % 3 = 0 then 9000 else 5999 end,
			       case when memory_strategy = 'simple' then 40 when tool_name is null and n % 3 = 0 then 1 else 50 end
			  from (select c.*, row_number() over () as n from chats c) c`,
		`insert into messages (chat_id, user_id, seq, role, token_count) select id, user_id, 1, 'user', 0 from chats limit $1::int / 50`,
		`insert into river.river_job (kind, queue, max_attempts, args, state, finalized_at)
			select 'fold_brief', 'memory', 2000, jsonb_build_object('chat_id', id), 'completed', now() from chats limit $1::int / 50`,
		"analyze chats", "analyze conversation_briefs", "analyze messages", "analyze river.river_job",
	} {
		testkit.Exec(b.t, admin, strings.ReplaceAll(sql, "$1", strconv.Itoa(idleChats())))
	}
}

// blocksRead runs a query in a savepoint, which is rolled back, and returns how many blocks it read or found in the
// cache, and its plan.
func blocksRead(t *testing.T, tx pgx.Tx, query *pgx.QueuedQuery) (blocks int, plan string) {
	t.Helper()
	savepoint, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var raw []byte
	if err := savepoint.QueryRow(t.Context(), "explain (analyze, buffers, costs off, timing off, summary off, format json) "+query.SQL, query.Arguments...).Scan(&raw); err != nil {
		t.Fatalf("%s: %v", query.SQL, err)
	}
	var explained []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal(raw, &explained); err != nil {
		t.Fatal(err)
	}
	if err := savepoint.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	return explained[0].Plan.Hit + explained[0].Plan.Read, string(raw)
}

// periodic returns the statements that servers and workers run by themselves: every few seconds, with each sweep, each scrape
// of the metrics, each hour and each day.
func periodic(userID, chatID uuid.UUID) map[string]*pgx.QueuedQuery {
	batch, ids := &pgx.Batch{}, []uuid.UUID{uuid.New(), uuid.New()} // the batch is never sent
	limits := NewMaintenance(nil, memory.DefaultLimits()).due
	const model = "a model"
	return map[string]*pgx.QueuedQuery{
		"AssignClearLeases":         {SQL: dbsqlc.AssignClearLeases},
		"AssignFindChats":           queue(batch, queries.AssignFindChats, dbsqlc.AssignFindChatsParams{Mode: "auto", Model: model}),
		"AssignFindTopics":          queue(batch, queries.AssignFindTopics, 12),
		"AssignLookAtAlike":         queue(batch, queries.AssignLookAtAlike, dbsqlc.AssignLookAtAlikeParams{Model: model, Cosine: .9, Most: 100}),
		"AssignLookAtFading":        queue(batch, queries.AssignLookAtFading, dbsqlc.AssignLookAtFadingParams{MaxTopics: 1, Most: 100}),
		"AssignRevive":              queue(batch, queries.AssignRevive, 15),
		"CancelRequested":           queue(batch, queries.CancelRequested, ids),
		"ClaimGraph":                queue(batch, queries.ClaimGraph, dbsqlc.ClaimGraphParams{Token: uuid.New(), Seconds: 1}),
		"ClearDeadExtractions":      {SQL: dbsqlc.ClearDeadExtractions},
		"ClearDeadLeases":           {SQL: dbsqlc.ClearDeadLeases},
		"CompleteJob":               queueExec(batch, queries.CompleteJob, dbsqlc.CompleteJobParams{Output: []byte("{}"), ID: 1}),
		"CountAllMemories":          {SQL: dbsqlc.CountAllMemories},
		"CountBareTurns":            queue(batch, queries.CountBareTurns, model),
		"DeleteArchivedMemories":    queue(batch, queries.DeleteArchivedMemories, dbsqlc.DeleteArchivedMemoriesParams{Days: 100, Most: usersAtOnce}),
		"DeleteExpiredChats":        queue(batch, queries.DeleteExpiredChats, dbsqlc.DeleteExpiredChatsParams{Days: 30, Most: 500}),
		"DeleteIdleChats":           queue(batch, queries.DeleteIdleChats, dbsqlc.DeleteIdleChatsParams{Days: 30, Most: 500}),
		"DeleteSpentDeltas":         queueExec(batch, queries.DeleteSpentDeltas, ids),
		"DeleteStrayDeltas":         queue(batch, queries.DeleteStrayDeltas, 10),
		"FadeMemories":              queue(batch, queries.FadeMemories, dbsqlc.FadeMemoriesParams{Day: pgtype.Date{Time: today, Valid: true}, Most: usersAtOnce}),
		"FindBareChats":             queue(batch, queries.FindBareChats, dbsqlc.FindBareChatsParams{Model: model, Most: 100}),
		"FindBareMemoryUsers":       queue(batch, queries.FindBareMemoryUsers, dbsqlc.FindBareMemoryUsersParams{Model: model, Most: 100}),
		"FindDueBriefs":             queue(batch, queries.FindDueBriefs, limits),
		"FindDueExtractions":        {SQL: dbsqlc.FindDueExtractions},
		"FoldBacklog":               {SQL: dbsqlc.FoldBacklog},
		"HurryExtractions":          queue(batch, queries.HurryExtractions, dbsqlc.HurryExtractionsParams{UserID: userID, ChatID: chatID}),
		"IndexRestedChats":          queue(batch, queries.IndexRestedChats, dbsqlc.IndexRestedChatsParams{RestSeconds: 60, Most: restedAtOnce}),
		"InterruptAbandonedReplies": queue(batch, queries.InterruptAbandonedReplies, new(120.0)),
		"MergeSearchEntries":        {SQL: dbsqlc.MergeSearchEntries},
		"OldestUnextracted":         {SQL: dbsqlc.OldestUnextracted},
		"QueueDepths":               {SQL: dbsqlc.QueueDepths},
		"RenewLeases":               queueExec(batch, queries.RenewLeases, dbsqlc.RenewLeasesParams{LeaseSeconds: 15, MessageIds: ids}),
		"ReviveDeadExtractions":     queue(batch, queries.ReviveDeadExtractions, 15),
		"ReviveDeadFolds":           queue(batch, queries.ReviveDeadFolds, 15),
		"SettleRestedBriefs":        queue(batch, queries.SettleRestedBriefs, dbsqlc.SettleRestedBriefsParams(limits)),
		"InsertDeltas": queueExec(batch, queries.InsertDeltas, dbsqlc.InsertDeltasParams{
			MessageIds: ids[:1], UserIds: ids[1:], StartChars: []int{0}, Deltas: []string{"x"},
		}),
	}
}

// What runs by itself, every few seconds on every server, reads nothing of the chats that rest.
func TestIdleChatsCostNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.fillIdle()
	due, limited := b.newChat(4), b.newChat(4)
	b.exec("update conversation_briefs set pending_tokens = 9000 where chat_id = $1", due)
	b.exec("update chats set max_turns = 3 where id = $1", limited)
	b.exec("update chats set ttl_hours = 1, created_at = now() - interval '100 days', last_message_at = null where id = $1", b.newChat(1))
	if chats, err := b.index.IndexRested(t.Context(), time.Minute, testkit.Patience); err != nil || chats != 1 {
		t.Fatalf("%d chats were indexed, %v", chats, err)
	}
	b.start(turnIn(due, "Wait."))
	b.exec("update messages set lease_until = now() - interval '1 hour' where status = 'streaming'")
	b.exec("update conversation_briefs set lease_token = gen_random_uuid(), lease_until = now() - interval '1 hour' where chat_id = $1", due)
	b.exec(`insert into river.river_job (kind, queue, max_attempts, args, state, attempt, attempted_at)
		values ('fold_brief', 'memory', 9, jsonb_build_object('chat_id', $1::uuid), 'running', 1, now() - interval '1 hour')`, due)
	b.exec("insert into message_deltas (message_id, user_id, start_char, delta) select id, user_id, 0, 'x' from messages where chat_id = $1 and seq < 3", due)
	tx := b.begin()
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		testkit.Exec(t, tx, "select set_config('plan_cache_mode', $1, true)", mode)
		for name, query := range periodic(b.user.UserID, due) {
			_, _ = blocksRead(t, tx, query) // loads what a connection reads once
			blocks, plan := blocksRead(t, tx, query)
			t.Logf("%s: %d blocks", name, blocks)
			if blocks > 300 {
				t.Errorf("%s reads %d blocks with %s:\n%s", name, blocks, mode, plan)
			}
		}
	}
	folds, rebuilds, err := NewMaintenance(b.pool, b.limits).DueChats(t.Context())
	if err != nil || len(folds) != 1 || folds[0] != limited || len(rebuilds) != 0 { // the other has a job
		t.Errorf("due are %d and %d chats, %v", len(folds), len(rebuilds), err)
	}
}
