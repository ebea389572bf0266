package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// farPool returns a pool of a database behind a network that a test can break.
func farPool(t *testing.T, parameters string) (*testkit.Proxy, func(most time.Duration) error) {
	t.Helper()
	b := newBed(t)
	network := testkit.NewProxy(t, testkit.HostOf(b.db.Direct()))
	pool, _, err := Open(t.Context(), network.DSN(b.db.Direct())+parameters, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return network, func(most time.Duration) error {
		return sendWithin(t.Context(), most, pool, func(batch *pgx.Batch) { batch.Queue("select 1") })
	}
}

// If Postgres takes a statement and never answers, the call ends after its timeout with fault.NotReady. The
// next one uses another connection.
func TestSilentPostgresIsNotReady(t *testing.T) {
	t.Parallel()
	network, look := farPool(t, "")
	if err := look(testkit.Patience); err != nil {
		t.Fatal(err)
	}
	network.Timeout()
	if err := look(300 * time.Millisecond); fault.CodeOf(err) != fault.NotReady {
		t.Errorf("a silent connection: %v", err)
	}
	network.Heal()
	if err := look(testkit.Patience); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A server that accepts connections and stays silent is given up after connect_timeout, and occupies the pool
// no longer.
func TestSilentPostgresIsNotConnectedTo(t *testing.T) {
	t.Parallel()
	network, look := farPool(t, "&connect_timeout=1")
	network.Timeout()
	for range 3 { // more than the pool has places
		if err := look(testkit.Patience); fault.CodeOf(err) != fault.NotReady {
			t.Errorf("a silent server: %v", err)
		}
	}
	network.Heal()
	// A busy machine may need longer than connect_timeout.
	testkit.Eventually(t, "it is connected to", func() bool { return look(testkit.Patience) == nil })
}

func TestTimeoutsOfAConnection(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string][2]time.Duration{
		"postgres://localhost/db": {connectTimeout, pingTimeout},
		"postgres://localhost/db?connect_timeout=11&pool_ping_timeout=300ms": {11 * time.Second, 300 * time.Millisecond},
	} {
		config, _, err := ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]time.Duration{config.ConnConfig.ConnectTimeout, config.PingTimeout}; got != want {
			t.Errorf("%s: %v, want %v", dsn, got, want)
		}
	}
}
