package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// place is a database that tests use one after the other, with the server's pool on it: most tests take less time than a
// clone of the template, and less than new connections need to plan what triggers do.
type place struct {
	db   testkit.Database
	pool *pgxpool.Pool
	// wiper deletes a test's rows, without triggers.
	wiper *pgx.Conn
}

// places are those that no test uses now.
var places = make(chan place, 64)

// anyPlace is a place for the test alone, until it ends.
func anyPlace(t *testing.T) place {
	t.Helper()
	var p place
	select {
	case p = <-places:
	default:
		p = newPlace(t)
	}
	t.Cleanup(func() {
		if !t.Failed() && p.wipe(t) {
			places <- p
		}
	})
	return p
}

// lasting is a test whose database outlives it.
type lasting struct{ testing.TB }

func (lasting) Cleanup(do func()) { testkit.AtEnd(do) }

func newPlace(t *testing.T) place {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // it outlives the test
	p := place{db: testkit.NewDatabase(lasting{t})}
	p.pool = openPool(t, p.db, 20)
	p.wiper = must(pgx.Connect(ctx, p.db.AdminDSN))(t)
	testkit.AtEnd(func() {
		p.pool.Close()
		_ = p.wiper.Close(ctx) // the tests are over
	})
	noError(t, errOf(p.wiper.Exec(ctx, "set session_replication_role = replica")))
	return p
}

// wipe deletes all rows, unless somebody is at work yet.
func (p place) wipe(t *testing.T) bool {
	t.Helper()
	const everyRow = `do $$ declare name regclass; begin
		for name in select oid from pg_class where relkind = 'r' and relname <> 'river_migration'
		  and relnamespace::regnamespace::text in ('public', 'auth', 'realtime', 'river') loop
		  execute format('delete from %s', name);
		end loop; end $$`
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if p.pool.Stat().AcquiredConns() > 0 {
		return false
	}
	_, err := p.wiper.Exec(ctx, everyRow)
	return err == nil
}
