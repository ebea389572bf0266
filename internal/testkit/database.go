package testkit

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
)

// Database is a test's own database. No password is needed.
type Database struct {
	// DSN connects as postgres, as a server on Supabase does: no superuser. It goes through the
	// transaction pooler when the tests run with one; use Direct for a session.
	DSN string
	// AdminDSN connects as the cluster's superuser, past any pooler.
	AdminDSN string
	Name     string

	direct string
}

// Cold is what keeps, behind a DSN, a server from opening connections at its start: most servers of tests live for a few turns.
const Cold = "&pool_min_conns=0"

// Direct is DSN without a pooler: DATABASE_DIRECT_URL where DSN is DATABASE_URL. A test that uses it explains why
// a transaction pooler does not suffice.
func (d Database) Direct() string { return d.direct }

// Pooled reports whether DSN goes through a transaction pooler.
func (d Database) Pooled() bool { return d.DSN != d.direct }

// NewDatabase makes a database with all migrations applied. It is dropped when the test ends, even if there are
// connections to it.
func NewDatabase(t testing.TB) Database {
	t.Helper()
	return newDatabase(t, migrated)
}

// NewEmptyDatabase makes a database that looks like a fresh Supabase project, without our migrations. Roles belong to
// the whole cluster: those of other tests' migrations exist.
func NewEmptyDatabase(t testing.TB) Database {
	t.Helper()
	return newDatabase(t, fresh)
}

func newDatabase(t testing.TB, from template) Database {
	t.Helper()
	admin, err := superuserDSN()
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	database, err := from.copy(ctx, admin)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context is over.
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		if err := execute(ctx, admin, "drop database if exists "+database.Name+" with (force)"); err != nil {
			t.Errorf("testkit: %v", err)
		}
	})
	return database
}

// CreateMigrated makes a database as NewDatabase does, outside of a test. It is not dropped.
func CreateMigrated(ctx context.Context, superuserDSN string) (Database, error) {
	return migrated.copy(ctx, superuserDSN)
}

// copy makes a database from the template, which it makes first if the cluster does not have it yet.
func (t template) copy(ctx context.Context, admin string) (Database, error) {
	from, err := t.ensure(ctx, admin)
	if err != nil {
		return Database{}, err
	}
	name := "test_" + strings.ToLower(rand.Text()[:12])
	// Copying the files costs less than logging a copy of them. Rights on the database itself are not copied.
	return at(admin, name), execute(ctx, admin,
		"create database "+name+" template "+from+" strategy file_copy",
		"grant all on database "+name+" to postgres")
}

// at returns the database of a name in the cluster of a superuser's DSN.
func at(admin, name string) Database {
	address := parse(admin)
	address.User, address.Path = url.User(localpg.Superuser), "/"+name
	d := Database{AdminDSN: address.String(), Name: name}
	address.User = url.User("postgres")
	d.DSN, d.direct = address.String(), address.String()
	if pooler := os.Getenv(PoolerEnv); pooler != "" {
		d.DSN = throughPooler(pooler, d.direct)
	}
	return d
}

// parse reads an address. All but that in PostgresEnv are our own.
func parse(address string) *url.URL {
	parsed, err := url.Parse(address)
	if err != nil {
		panic("testkit: an address, perhaps that in " + PostgresEnv + ", is not a URL")
	}
	return parsed
}

// execute runs statements one by one, each in its own transaction, as database commands need it.
func execute(ctx context.Context, dsn string, statements ...string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
