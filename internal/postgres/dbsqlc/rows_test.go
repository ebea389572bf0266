package dbsqlc

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

type described interface {
	Targets(columns []pgconn.FieldDescription) ([]any, error)
}

// What Postgres sends for every query is what its rows are read into, by the names and types of the columns.
func TestRowsHaveTheColumnsOfTheirQueries(t *testing.T) {
	t.Parallel()
	conn := testkit.Connect(t, testkit.NewDatabase(t).AdminDSN)
	for _, query := range all {
		sql := reflect.ValueOf(query).Elem().FieldByName("SQL").String()
		statement, err := conn.Prepare(t.Context(), "", sql)
		if err != nil {
			t.Errorf("%v:\n%s", err, sql)
			continue
		}
		targets, err := query.Targets(statement.Fields)
		if err != nil {
			t.Errorf("%v:\n%s", err, sql)
			continue
		}
		for n, target := range targets {
			if _, nothing := target.(*struct{}); !nothing && !readable(conn.TypeMap(), statement.Fields[n], target) {
				t.Errorf("%s cannot be read into %T:\n%s", statement.Fields[n].Name, target, sql)
			}
		}
	}
	assert.Truef(t, len(all) >= 230, "%d queries were checked, which cannot be all", len(all))
}

// What a server sends without naming a user finds no word of anybody's, whichever ids it is given.
func TestServerWithoutAUserReadsNoWords(t *testing.T) {
	t.Parallel()
	db := testkit.NewDatabase(t)
	user, admin := testkit.NewUser(t, db), testkit.Connect(t, db.AdminDSN)
	for _, sql := range []string{ // all rows have one id, so that a statement that asks for two of them finds both
		"insert into chats (id, user_id, title, system_prompt) values ($1, $1, 'Zyzzyva', 'Zyzzyva')",
		"insert into messages (id, chat_id, user_id, role, content, status) values ($1, $1, $1, 'user', 'Zyzzyva', 'complete')",
		"insert into messages (chat_id, user_id, role, content, status, reply_to) values ($1, $1, 'assistant', '', 'streaming', $1)",
		`insert into message_deltas (message_id, user_id, start_char, delta)
			select id, user_id, 0, 'Zyzzyva' from messages where chat_id = $1 and status = 'streaming'`,
		"insert into memory_users (user_id) values ($1)",
		"insert into memories (id, user_id, content) values ($1, $1, 'Zyzzyva')",
		`insert into topics (id, chat_id, user_id, number, title, summary, first_seq, last_seq, created_at, last_active_at)
			values ($1, $1, $1, 1, 'Zyzzyva', 'Zyzzyva', 1, 1, now(), now())`,
	} {
		testkit.Exec(t, admin, sql, user)
	}
	found := map[string]int{}
	for _, dsn := range []string{db.ServerDSN, db.DSN} {
		conn := testkit.Connect(t, dsn)
		for _, query := range all {
			sql := reflect.ValueOf(query).Elem().FieldByName("SQL").String()
			for _, text := range []string{user.String(), "Zyzzyva"} {
				if bytes.Contains(answerTo(t, conn, sql, user.String(), text), []byte("Zyzzyva")) {
					found[dsn]++
					assert.NotEqualf(t, db.ServerDSN, dsn, "%s", sql)
					break
				}
			}
		}
	}
	t.Logf("as the owner %d of %d statements find words", found[db.DSN], len(all))
	assert.Truef(t, found[db.DSN] > 10, "as the owner only %d statements found words", found[db.DSN])
}

// answerTo is what a statement reads of which each id is the same and each text, in a transaction that is rolled back.
func answerTo(t *testing.T, conn *pgx.Conn, sql, id, text string) (answer []byte) {
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(t.Context())) }()
	statement, err := conn.PgConn().Prepare(t.Context(), "", sql, nil)
	if err != nil {
		return nil // it may name what the role may not use
	}
	values := make([][]byte, len(statement.ParamOIDs))
	for n, kind := range statement.ParamOIDs {
		switch kind {
		case pgtype.UUIDOID:
			values[n] = []byte(id)
		case pgtype.TextOID:
			values[n] = []byte(text)
		case pgtype.UUIDArrayOID:
			values[n] = []byte("{" + id + "}")
		case pgtype.Int4OID, pgtype.Int8OID, pgtype.Float8OID:
			values[n] = []byte("100")
		}
	}
	rows := conn.PgConn().ExecPrepared(t.Context(), "", values, nil, nil).Read()
	for _, row := range rows.Rows {
		answer = append(answer, bytes.Join(row, nil)...)
	}
	return answer
}

// readable reports whether pgx knows how to read a column. If not, its plan is one that fails.
func readable(types *pgtype.Map, column pgconn.FieldDescription, target any) bool {
	plan := types.PlanScan(column.DataTypeOID, types.FormatCodeForOID(column.DataTypeOID), target)
	return fmt.Sprintf("%T", plan) != "*pgtype.scanPlanFail"
}

func TestReadable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		oid    uint32
		target any
		want   bool
	}{
		{pgtype.TextOID, new(string), true}, {pgtype.TextOID, new(int), false}, {pgtype.Int8OID, new(*int64), true}, {pgtype.Int8OID, new(bool), false},
	} {
		assert.Equalf(t, c.want, readable(pgtype.NewMap(), pgconn.FieldDescription{DataTypeOID: c.oid}, c.target),
			"%d into %T", c.oid, c.target)
	}
}
