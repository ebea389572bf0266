package testkit

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
)

// databaseTimeout bounds the making or dropping of one database.
const databaseTimeout = time.Minute

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

// Direct is DSN without a pooler: DATABASE_DIRECT_URL where DSN is DATABASE_URL. A test that uses it explains why
// a transaction pooler does not suffice.
func (d Database) Direct() string { return d.direct }

// Pooled reports whether DSN goes through a transaction pooler.
func (d Database) Pooled() bool { return d.DSN != d.direct }

// NewDatabase makes a database with all migrations applied. It is dropped when the test ends, even if there are
// connections to it.
func NewDatabase(t testing.TB) Database {
	t.Helper()
	return newDatabase(t, migratedTemplate)
}

// NewEmptyDatabase makes a database that looks like a fresh Supabase project, without our migrations. Roles belong to
// the whole cluster: those of other tests' migrations exist.
func NewEmptyDatabase(t testing.TB) Database {
	t.Helper()
	return newDatabase(t, freshTemplate)
}

func newDatabase(t testing.TB, from func(context.Context, string) (string, error)) Database {
	t.Helper()
	admin, err := superuserDSN()
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	database, err := createFrom(ctx, admin, from)
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	t.Cleanup(func() {
		if err := database.drop(admin); err != nil {
			t.Errorf("testkit: %v", err)
		}
	})
	return database
}

// CreateMigrated makes a database as NewDatabase does, outside of a test. It is not dropped.
func CreateMigrated(ctx context.Context, superuserDSN string) (Database, error) {
	return createFrom(ctx, superuserDSN, migratedTemplate)
}

func createFrom(ctx context.Context, admin string, from func(context.Context, string) (string, error)) (Database, error) {
	template, err := from(ctx, admin)
	if err != nil {
		return Database{}, err
	}
	name := "test_" + strings.ToLower(rand.Text()[:12])
	if err := execute(ctx, admin, cloneSQL(name, template)...); err != nil {
		return Database{}, err
	}
	return at(admin, name)
}

// cloneSQL copies a template. The rights on the database itself are not copied with it.
func cloneSQL(name, template string) []string {
	return []string{
		"create database " + name + " template " + template,
		"grant all on database " + name + " to postgres",
	}
}

// at returns the database of a name in the cluster of a superuser's DSN.
func at(admin, name string) (Database, error) {
	adminDSN, err := withTarget(admin, localpg.Superuser, name)
	if err != nil {
		return Database{}, err
	}
	direct, err := withTarget(admin, "postgres", name)
	if err != nil {
		return Database{}, err
	}
	dsn := direct
	if pooler := os.Getenv(PoolerEnv); pooler != "" {
		dsn, err = throughPooler(pooler, direct)
	}
	return Database{DSN: dsn, AdminDSN: adminDSN, Name: name, direct: direct}, err
}

// withTarget returns a DSN with another user and database.
func withTarget(dsn, user, database string) (string, error) {
	address, err := url.Parse(dsn)
	if err != nil {
		return "", fmt.Errorf("%s is not a postgres:// address", PostgresEnv)
	}
	address.User, address.Path = url.User(user), "/"+database
	return address.String(), nil
}

func (d Database) drop(admin string) error {
	// A test's own context is over by now.
	ctx, cancel := context.WithTimeout(context.Background(), databaseTimeout)
	defer cancel()
	return execute(ctx, admin, "drop database if exists "+d.Name+" with (force)")
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
