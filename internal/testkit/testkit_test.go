package testkit

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

func TestDatabasesAreMigratedAndApart(t *testing.T) {
	t.Parallel()
	a, b := NewDatabase(t), NewDatabase(t)
	inA, inB := Connect(t, a.DSN), Connect(t, b.DSN)
	if Ask[string](t, inA, "select current_user") != "postgres" || Ask[string](t, Connect(t, a.AdminDSN), "select current_user") != "supabase_admin" {
		t.Error("the DSNs connect as somebody else")
	}
	assert.True(t, Ask[bool](t, inA, "select to_regclass('public.chats') is not null"), "there is no table chats")
	_, err := inA.Exec(t.Context(), "create schema mine")
	require.NoError(t, err)
	assert.False(t, Ask[bool](t, inB, "select exists (select from pg_namespace where nspname = 'mine')"),
		"one test's schema is in another's database")
	assert.False(t, Ask[bool](t, inA, "select rolsuper from pg_roles where rolname = current_user"),
		"postgres is a superuser, which hides missing grants")
}

func TestDatabaseIsDroppedWhoeverIsConnected(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("inner", func(t *testing.T) {
		database := NewDatabase(t)
		name = database.Name
		if _, err := pgx.Connect(context.Background(), database.Direct()); err != nil { // never closed by us
			t.Fatal(err)
		}
	})
	admin, err := superuserDSN()
	require.NoError(t, err)
	assert.Falsef(t, Ask[bool](t, Connect(t, admin), "select exists (select from pg_database where datname = $1)", name),
		"%s is still there", name)
}

func TestTemplateNobodyFinishedIsMadeAgain(t *testing.T) {
	t.Parallel()
	admin, err := superuserDSN()
	require.NoError(t, err)
	interrupted := errors.New("interrupted")
	broken := template{"broken_", func(context.Context, Database) error { return interrupted }}
	if _, err := broken.ensure(t.Context(), admin); !errors.Is(err, interrupted) {
		t.Fatalf("got %v", err)
	}
	calls := 0
	broken.fill = func(context.Context, Database) error { calls++; return nil }
	name, err := broken.ensure(t.Context(), admin)
	require.NoError(t, err)
	if _, err := broken.ensure(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	assert.Truef(t, calls == 1, "made %d times", calls)
	assert.NoError(t, execute(t.Context(), admin, "alter database "+name+" is_template false", "drop database "+name))
}

// A transaction that holds a chat and would then lock its account, which Postgres does at the second update, is refused; one that
// has locked the account first is not.
func TestLocksOutOfOrderAreRefused(t *testing.T) {
	t.Parallel()
	database := NewDatabase(t)
	conn := Connect(t, database.AdminDSN)
	user := NewUser(t, database)
	Exec(t, conn, "insert into public.chats (user_id) values ($1)", user)
	for first, refused := range map[string]bool{"select 1": true, "select from throughline.accounts for key share": false} {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		Exec(t, tx, first)
		Exec(t, tx, "update public.chats set title = 'One'")
		_, err = tx.Exec(t.Context(), "update public.chats set title = 'Two'")
		assert.Equalf(t, refused, err != nil && strings.Contains(err.Error(), "UPDATE of chats locks throughline.accounts"), "%s: %v", first, err)
		require.NoError(t, tx.Rollback(t.Context()))
	}
}
