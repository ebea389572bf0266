package postgres

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// What a server that is gone or no primary says, itself or through a pooler, is not ready, and never an error of the request.
func TestWhatALostServerSaysIsNotReady(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for said, want := range map[string]fault.Code{
		"57P01 terminating connection due to administrator command": fault.NotReady, "57P02 crash": fault.NotReady,
		"57P03 the database system is starting up": fault.NotReady, "57P05 idle": fault.NotReady, "08006 connection failure": fault.NotReady,
		"25006 cannot execute INSERT in a read-only transaction": fault.NotReady, "28P01 password authentication failed": fault.NotReady,
		"XX000 write tcp: broken pipe": fault.NotReady, "XX000 unexpected EOF": fault.NotReady, "XX000 read: connection reset by peer": fault.NotReady,
		"XX000 cache lookup failed": fault.Internal, "42601 syntax error": fault.Internal,
	} {
		code, message, _ := strings.Cut(said, " ")
		err := send(t.Context(), b.pool, func(batch *pgx.Batch) {
			batch.Queue(fmt.Sprintf("do $$ begin raise exception using errcode = '%s', message = '%s'; end $$", code, message))
		})
		is(t, fault.CodeOf(err), want, "%s", said)
	}
	role := "full_" + b.user.UserID.String()[:8]
	testkit.Exec(t, testkit.Connect(t, b.db.AdminDSN), "create role "+role+" login connection limit 0")
	refused, _, err := Open(t.Context(), strings.Replace(b.db.Direct(), "postgres@", role+"@", 1), 1)
	noError(t, err)
	t.Cleanup(refused.Close)
	err = send(t.Context(), refused, func(batch *pgx.Batch) { batch.Queue("select 1") })
	is(t, tuple(fault.CodeOf(err), sqlState(err)), tuple(fault.NotReady, pgerrcode.TooManyConnections), "a server that takes no more connections")
}

// No connection to a server in recovery is kept: of several hosts the primary is used, a standby is not ready, and once it is
// promoted the same pool works on.
func TestStandbyIsNotReadyUntilItIsPromoted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := t.TempDir()
	standby := must(localpg.Start(t.Context(), localpg.Options{Dir: dir, Settings: map[string]string{"fsync": "off"}}))(t)
	options := localpg.Options{Dir: dir, Port: standby.Port()}
	noError(t, standby.Stop())
	noError(t, os.WriteFile(filepath.Join(options.Dir, "data", "standby.signal"), nil, 0o644))
	standby = must(localpg.Start(t.Context(), options))(t)
	t.Cleanup(func() { _ = standby.Destroy() })
	primary := testkit.HostOf(b.db.Direct())
	for _, attributes := range []string{"", "&target_session_attrs=read-write"} {
		both := strings.Replace(b.db.Direct(), primary, fmt.Sprintf("127.0.0.1:%d,%s", standby.Port(), primary), 1) + attributes
		pool, _, err := Open(t.Context(), both, 1)
		noError(t, err)
		is(t, testkit.Ask[bool](t, pool, "select pg_is_in_recovery()"), false, "of two hosts, %q: in recovery", attributes)
		pool.Close()
		b.listenAt(both)
	}
	alone, _, err := Open(t.Context(), standby.DSN(localpg.Superuser, "postgres"), 1)
	noError(t, err)
	t.Cleanup(alone.Close)
	look := func() error { return send(t.Context(), alone, func(batch *pgx.Batch) { batch.Queue("select 1") }) }
	is(t, tuple(fault.CodeOf(look()), alone.Stat().TotalConns()), tuple(fault.NotReady, 0), "a standby, and the connections to it")
	testkit.Exec(t, testkit.Connect(t, standby.DSN(localpg.Superuser, "postgres")), "select pg_promote()")
	noError(t, look())
}
