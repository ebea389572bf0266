package postgres

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/postgres/dbsqlc"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// told follows all statements of the stores in all tests of this package: what must be in a transaction is sent in one that
// was begun by name, because a pooler may make a transaction of each statement that is in none.
var told = &sayings{}

type sayings struct {
	seen, unsaid sync.Map
}

// bound are the statements that mean nothing, or too much, without a transaction: role and claims, and locks. A lock that one
// statement takes to change the rows itself is held for as long.
var (
	bound   = regexp.MustCompile(`(?i)set_config\(|pg_(try_)?advisory|\bfor (no key )?update\b|\bfor (key )?share\b`)
	changes = regexp.MustCompile(`(?im)^\s*(with .*\n(.*\n)*?\s*)?(delete from|update|insert into) `)
	named   = regexp.MustCompile(`-- name: (\w+) :`)
)

func (s *sayings) see(conn *pgx.Conn, sql ...string) {
	for _, text := range sql {
		if name := named.FindStringSubmatch(text); name != nil {
			s.seen.Store(name[1], true)
		}
	}
	if conn.PgConn().TxStatus() != 'I' || sql[0] == "begin" {
		return
	}
	if len(sql) > 1 || bound.MatchString(sql[0]) && !changes.MatchString(sql[0]) && !strings.HasPrefix(strings.TrimSpace(sql[0]), "create policy ") {
		s.unsaid.Store(fmt.Sprint(sql), true)
	}
}

func (s *sayings) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	s.see(conn, data.SQL)
	return ctx
}
func (s *sayings) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *sayings) TraceBatchStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	var sql []string
	for _, query := range data.Batch.QueuedQueries {
		sql = append(sql, query.SQL)
	}
	s.see(conn, sql...)
	return ctx
}
func (s *sayings) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (s *sayings) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// mustBeAll fails the tests of the package, of which none knows of the others. When all of them ran, they have sent all
// statements that are bound to a transaction.
func (s *sayings) mustBeAll() {
	var failures []error
	s.unsaid.Range(func(sql, _ any) bool {
		failures = append(failures, fmt.Errorf("outside of a transaction: %s", sql))
		return true
	})
	if flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.bench").Value.String() == "" {
		paths, _ := filepath.Glob("dbsqlc/*.sql.go") // fails on a malformed pattern alone
		for _, path := range paths {
			text, err := os.ReadFile(path)
			failures = append(failures, err)
			for sql := range strings.SplitSeq(string(text), "`") {
				name := named.FindStringSubmatch(sql)
				if name == nil || !bound.MatchString(sql) {
					continue
				}
				if _, ok := s.seen.Load(name[1]); !ok {
					failures = append(failures, fmt.Errorf("no test of this package has sent %s", name[1]))
				}
			}
		}
	}
	if err := errors.Join(failures...); err != nil {
		panic(err)
	}
}

// A batch that fails leaves nothing of itself and a connection that works.
func TestBatchThatFailsLeavesItsConnection(t *testing.T) {
	t.Parallel()
	b := newBedOn(t, testkit.NewDatabase(t), newBed(t).limits, 1)
	backend := ask[int](b, "select pg_backend_pid()")
	chatID := uuid.New()
	err := sendAs(t.Context(), b.pool, b.user, "try", func(batch *pgx.Batch) {
		dbsqlc.InsertChat.Queue(batch, dbsqlc.InsertChatParams{ID: chatID, UserID: b.user.UserID, Title: "Kept?"})
		batch.Queue("select 1 / 0")
	})
	is(t, sqlState(err), "22012", "the failure")
	if !b.db.Pooled() {
		is(t, ask[int](b, "select pg_backend_pid()"), backend, "the connection")
	}
	is(t, b.count("chats where id = $1", chatID), 0, "chats of the failed batch")
}
