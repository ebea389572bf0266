package testkit

import (
	"errors"
	"net"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A pass through the pooler that went past it would prove nothing, and neither would one in session mode. These
// tests hold the databases that a pass hands out to it.

// passedOn tells whether somebody stands between a connection and its backend, which sees another port then.
func passedOn(t *testing.T, conn *pgx.Conn) bool {
	ours := conn.PgConn().Conn().LocalAddr().(*net.TCPAddr).Port
	return Ask[int](t, conn, "select inet_client_port()") != ours
}

func TestDatabasesAreReachedAsThePassSays(t *testing.T) {
	t.Parallel()
	pooled := os.Getenv(PoolerEnv) != ""
	for name, database := range map[string]Database{"migrated": NewDatabase(t), "empty": NewEmptyDatabase(t), "server": NewServer(t).Database} {
		if got := passedOn(t, Connect(t, database.DSN)); got != pooled || database.Pooled() != pooled {
			t.Errorf("%s: through a pooler %v, and says %v, want %v", name, got, database.Pooled(), pooled)
		}
		for _, dsn := range []string{database.Direct(), database.AdminDSN} {
			assert.Falsef(t, passedOn(t, Connect(t, dsn)), "%s: %s leads through a pooler", name, dsn)
		}
	}
}

// poolers are a test's own, and the pass's where there is one.
func poolers(t *testing.T, database Database) map[string]string {
	found := map[string]string{"own": NewTransactionPooler(t, database)}
	if database.Pooled() {
		found["of the pass"] = database.DSN
	}
	return found
}

// Of two transactions of one client, the second is on another backend when somebody else took the first's.
func TestPoolerGivesConnectionsToTransactions(t *testing.T) {
	t.Parallel()
	database := NewDatabase(t)
	for name, dsn := range poolers(t, database) {
		client, other := Connect(t, dsn), Connect(t, dsn)
		first := Ask[int](t, client, "select pg_backend_pid()")
		held, err := other.Begin(t.Context())
		require.NoError(t, err)
		got := Ask[int](t, held, "select pg_backend_pid()")
		assert.Truef(t, got == first, "%s: the other client got backend %d, not %d, which no client uses", name, got, first)
		assert.Truef(t, Ask[int](t, client, "select pg_backend_pid()") != first,
			"%s: both clients have backend %d", name, first)
		assert.NoError(t, held.Rollback(t.Context()))
	}
}

// What breaks behind the real one breaks here: a named statement is on a backend that is another's by now.
func TestPoolerLosesNamedStatements(t *testing.T) {
	t.Parallel()
	database := NewDatabase(t)
	for name, dsn := range poolers(t, database) {
		client, other := Connect(t, dsn), Connect(t, dsn)
		if _, err := client.Prepare(t.Context(), "p", "select 1"); err != nil {
			t.Fatal(err)
		}
		held, err := other.Begin(t.Context())
		require.NoError(t, err)
		_, err = client.Exec(t.Context(), "execute p", pgx.QueryExecModeSimpleProtocol)
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "26000" { // invalid_sql_statement_name
			t.Errorf("%s: a statement that was prepared on another backend: %v", name, err)
		}
		assert.NoError(t, held.Rollback(t.Context()))
	}
}
