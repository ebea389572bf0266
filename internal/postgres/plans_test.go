package postgres

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
)

// explain is what Postgres does with a query within a transaction, which is rolled back.
func explain(t *testing.T, tx pgx.Tx, sql string, args ...any) string {
	t.Helper()
	savepoint, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := savepoint.Query(t.Context(), "explain (analyze, costs off, timing off, summary off) "+sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if err := savepoint.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

var (
	scansWhole = regexp.MustCompile(`Seq Scan on (messages|conversation_briefs|chats|river_job)`)
	rowsRead   = regexp.MustCompile(`actual rows=([0-9.]+)`)
)

// mostRows is the largest number of rows that any step of a plan gave.
func mostRows(t *testing.T, plan string) int {
	t.Helper()
	most := 0.0
	for _, found := range rowsRead.FindAllStringSubmatch(plan, -1) {
		n, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
	}
	return int(most)
}

// fill makes a long chat beside many short ones, jobs of theirs, and lets Postgres know.
func (b *bed) fill(chats, long int) (longChat, shortChat uuid.UUID) {
	b.t.Helper()
	b.exec("alter table messages disable trigger user")
	index := ask[string](b, "select indexdef from pg_indexes where indexname = 'messages_search_idx'")
	b.exec("drop index messages_search_idx") // and made afterwards, which is faster
	b.exec("insert into chats (user_id, last_seq) select $1, 20 from generate_series(1, $2)", b.user.UserID, chats)
	const message = `n, case when n % 2 = 1 then 'user' else 'assistant' end, 'some words of message ' || n, 6`
	b.exec("insert into messages (chat_id, user_id, seq, role, content, token_count) select id, user_id, " + message + " from chats, generate_series(1, 20) n")
	longChat = ask[uuid.UUID](b, "insert into chats (user_id, last_seq) values ($1, $2) returning id", b.user.UserID, long)
	b.exec("insert into messages (chat_id, user_id, seq, role, content, token_count) select $1, $2, "+message+" from generate_series(1, $3) n", longChat, b.user.UserID, long)
	b.exec("alter table messages enable trigger user")
	b.exec(index)
	b.exec(`update conversation_briefs b set version = 1, covered_seq = c.last_seq - 12, pending_tokens = 72, pending_turns = 6 from chats c where c.id = b.chat_id`)
	b.exec(`insert into river.river_job (kind, queue, max_attempts, args, state, finalized_at)
		select 'fold_brief', 'memory', 2000, jsonb_build_object('chat_id', id), 'completed', now() from chats`)
	for _, table := range []string{"chats", "messages", "conversation_briefs", "river.river_job"} {
		b.exec("analyze " + table)
	}
	return longChat, ask[uuid.UUID](b, "select id from chats where id <> $1 limit 1", longChat)
}

func (b *bed) message(chatID uuid.UUID, seq int) uuid.NullUUID {
	b.t.Helper()
	return nullable(ask[uuid.UUID](b, "select id from messages where chat_id = $1 and seq = $2", chatID, seq))
}

// No query of a turn, and none of the sweep, reads a table from end to end, and a turn reads as many rows
// in a chat of ten thousand messages as in one of twenty.
func TestPlansUseTheIndexes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	long, short := b.fill(2000, 10_000)
	b.exec("update messages set status = 'streaming', lease_until = now() + interval '1 hour' where chat_id = $1 and seq = 10000", long)
	lease, last := uuid.New(), map[uuid.UUID]int{short: 20, long: 10_000}
	b.exec("update conversation_briefs set lease_token = $2, lease_until = now() where chat_id = any($1)", []uuid.UUID{long, short}, lease)
	for name, c := range map[string]struct {
		sql  string
		args func(chatID uuid.UUID) []any
		most int // rows
	}{
		"ReadBrief":               {dbsqlc.ReadBrief, func(id uuid.UUID) []any { return []any{id} }, 1},
		"ReadBuffer":              {dbsqlc.ReadBuffer, func(id uuid.UUID) []any { return []any{id, uuid.New(), uuid.New(), 1000} }, 13},
		"ReadKept":                {dbsqlc.ReadKept, func(id uuid.UUID) []any { return []any{id} }, 1},
		"ReadFiles":               {dbsqlc.ReadFiles, func(id uuid.UUID) []any { return []any{100_000, id} }, 1},
		"LockChat":                {dbsqlc.LockChat, func(id uuid.UUID) []any { return []any{id} }, 1},
		"ReleaseAbandonedReplies": {dbsqlc.ReleaseAbandonedReplies, func(id uuid.UUID) []any { return []any{id} }, 1},
		"FindRunningReply":        {dbsqlc.FindRunningReply, func(id uuid.UUID) []any { return []any{id} }, 1},
		"FindEarlierTurn":         {dbsqlc.FindEarlierTurn, func(uuid.UUID) []any { return []any{b.user.UserID, uuid.NullUUID{UUID: uuid.New(), Valid: true}} }, 1},
		"FindReply, the latest":   {dbsqlc.FindReply, func(id uuid.UUID) []any { return []any{0, uuid.NullUUID{}, id} }, 1},
		"FindReply, an old one":   {dbsqlc.FindReply, func(id uuid.UUID) []any { return []any{0, b.message(id, 2), id} }, 1},
		"InsertTurn": {dbsqlc.InsertTurn, func(id uuid.UUID) []any {
			return []any{uuid.New(), "x", 1, []byte("{}"), uuid.NullUUID{UUID: uuid.New(), Valid: true}, nil, uuid.New(), []byte("{}"), 60.0, id, false}
		}, 2},
		"InsertAgain": {dbsqlc.InsertAgain, func(id uuid.UUID) []any {
			return []any{uuid.New(), []byte("{}"), 60.0, b.message(id, 1), id, false, b.message(id, 2)}
		}, 1},
		"SupersedeReply": {dbsqlc.SupersedeReply, func(id uuid.UUID) []any { return []any{b.message(id, 2), b.message(id, 4)} }, 1},
		"SaveReply":      {dbsqlc.SaveReply, func(uuid.UUID) []any { return []any{"x", "complete", 1, []byte("{}"), uuid.New()} }, 1},
		"ReadCounters":   {dbsqlc.ReadCounters, func(id uuid.UUID) []any { return []any{id} }, 1},
		"ActAsChatOwner": {dbsqlc.ActAsChatOwner, func(id uuid.UUID) []any { return []any{id} }, 1},
		"ClaimBrief":     {dbsqlc.ClaimBrief, func(id uuid.UUID) []any { return []any{uuid.New(), 20.0, id} }, 1},
		"ReadFoldable":   {dbsqlc.ReadFoldable, func(id uuid.UUID) []any { return []any{id, false, lease, 2000} }, 12},
		"LockBrief":      {dbsqlc.LockBrief, func(id uuid.UUID) []any { return []any{id} }, 1},
		"WriteBrief": {dbsqlc.WriteBrief, func(id uuid.UUID) []any {
			return []any{"x", uuid.NullUUID{}, 1, last[id] - 6, id, 1, uuid.NullUUID{}, 0, lease, "fold", 9, 1, 1, 1, "inline", "", "", 1, "", []byte("{}")}
		}, 12},
	} {
		err := b.inTxAs(b.user, func(tx pgx.Tx) error {
			for _, chatID := range []uuid.UUID{long, short} {
				plan := explain(t, tx, c.sql, c.args(chatID)...)
				if scansWhole.MatchString(plan) || mostRows(t, plan) > c.most {
					t.Errorf("%s:\n%s", name, plan)
				}
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPlansOfTheSweepUseTheIndexes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	long, _ := b.fill(5000, 10_000)
	b.exec("update conversation_briefs set pending_tokens = 9000, pending_turns = 9 where chat_id = $1", long)
	tx := b.begin()
	for name, c := range map[string]struct {
		sql  string
		args []any
	}{
		"FindDueBriefs":             {dbsqlc.FindDueBriefs, []any{6000, 500, 3, 6000, 1}},
		"OldestUnfoldedTurn":        {dbsqlc.OldestUnfoldedTurn, []any{6000, 500, 3, 6000, 1}},
		"FindExpiredUnfolded":       {dbsqlc.FindExpiredUnfolded, nil},
		"DeleteExpiredChats":        {dbsqlc.DeleteExpiredChats, []any{30, 500}},
		"ClearDeadLeases":           {dbsqlc.ClearDeadLeases, nil},
		"InterruptAbandonedReplies": {dbsqlc.InterruptAbandonedReplies, nil},
		"ReviveDeadFolds":           {dbsqlc.ReviveDeadFolds, []any{15.0}},
		"QueueDepths":               {dbsqlc.QueueDepths, nil},
		"CompleteJob":               {dbsqlc.CompleteJob, []any{[]byte("{}"), 1}},
		"DeleteStrayDeltas":         {dbsqlc.DeleteStrayDeltas, []any{10.0}},
		"CancelRequested":           {dbsqlc.CancelRequested, []any{[]uuid.UUID{uuid.New(), uuid.New()}}},
		"InsertDeltas":              {dbsqlc.InsertDeltas, []any{[]uuid.UUID{uuid.New()}, []uuid.UUID{uuid.New()}, []int{0}, []string{"x"}}},
		"RenewLeases":               {dbsqlc.RenewLeases, []any{15.0, []uuid.UUID{uuid.New(), uuid.New()}}},
	} {
		if plan := explain(t, tx, c.sql, c.args...); scansWhole.MatchString(plan) || mostRows(t, plan) > 2 {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}
