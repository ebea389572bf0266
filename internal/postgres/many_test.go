package postgres

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
)

// work adds up the rows that the steps of a plan returned or discarded.
func work(t *testing.T, plan string) int {
	t.Helper()
	number := func(text string) float64 {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	sum, loops := 0.0, 1.0
	for line := range strings.Lines(plan) {
		if step := stepDone.FindStringSubmatch(line); step != nil {
			loops = number(step[2])
			sum += number(step[1]) * loops
		}
		if thrown := rowsRemoved.FindStringSubmatch(line); thrown != nil {
			sum += number(thrown[1]) * loops
		}
	}
	return int(sum)
}

var (
	stepDone    = regexp.MustCompile(`actual rows=([0-9.]+) loops=([0-9]+)`)
	rowsRemoved = regexp.MustCompile(`Rows Removed by [A-Za-z ]+: ([0-9]+)`)
)

// The work for all running replies at once grows with their number, not with its square, also with the
// generic plans that Postgres keeps for frequent statements.
func TestManyRunningRepliesCostTheirNumber(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const replies, deltas = 500, 10
	b.fill(500, 20)
	b.exec("alter table messages disable trigger user")
	b.exec("insert into chats (user_id, title) select $1, 'running' from generate_series(1, $2)", b.user.UserID, replies)
	b.exec(`insert into messages (chat_id, user_id, seq, role, status, lease_until, token_count)
		select id, user_id, 1, 'assistant', 'streaming', now() + interval '1 hour', 0 from chats where title = 'running'`)
	b.exec("alter table messages enable trigger user")
	b.exec(`insert into message_deltas (message_id, user_id, start_char, delta)
		select id, user_id, n, 'x' from messages, generate_series(1, $1) n where status = 'streaming'`, deltas)
	ids := ask[string](b, "select array_agg(id)::text from messages where status = 'streaming'")
	each := func(value string) string {
		return "'{" + strings.TrimSuffix(strings.Repeat(value+",", replies), ",") + "}'"
	}

	tx := b.begin()
	if _, err := tx.Exec(t.Context(), "set local plan_cache_mode = force_generic_plan"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ sql, args string }{
		"InsertDeltas":              {dbsqlc.InsertDeltas, fmt.Sprintf("('%s', %s, %s, %s)", ids, each(b.user.UserID.String()), each("0"), each("y"))},
		"RenewLeases":               {dbsqlc.RenewLeases, fmt.Sprintf("(15, '%s')", ids)},
		"CancelRequested":           {dbsqlc.CancelRequested, fmt.Sprintf("('%s')", ids)},
		"InterruptAbandonedReplies": {dbsqlc.InterruptAbandonedReplies, "(120)"},
		"DeleteSpentDeltas":         {dbsqlc.DeleteSpentDeltas, fmt.Sprintf("('%s')", ids)},
		"DeleteStrayDeltas":         {dbsqlc.DeleteStrayDeltas, "(10)"},
	} {
		if did := work(t, explainPrepared(t, tx, c.sql, c.args)); did > 12*replies*deltas {
			t.Errorf("%s handled %d rows for %d replies:\n%s", name, did, replies, explainPrepared(t, tx, c.sql, c.args))
		}
	}
}

// explainPrepared runs a prepared statement and returns its plan.
func explainPrepared(t *testing.T, tx pgx.Tx, sql, args string) (plan string) {
	t.Helper()
	_, sql, _ = strings.Cut(sql, "\n") // sqlc's own line would be the statement's
	savepoint, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := savepoint.Exec(t.Context(), "prepare looked_at as "+sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	rows, err := savepoint.Query(t.Context(), "explain (analyze, costs off, timing off, summary off) execute looked_at"+args, pgx.QueryExecModeSimpleProtocol)
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
	if _, err := tx.Exec(t.Context(), "deallocate looked_at"); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
