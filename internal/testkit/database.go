package testkit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed" // for locksSQL
	"encoding/hex"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/dev/localpg"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/supabase"
)

// Database is a test's own database. No password is needed.
type Database struct {
	// DSN connects as postgres, which owns the tables: no superuser. It goes through the
	// transaction pooler when the tests run with one; use Direct for a session.
	DSN string
	// ServerDSN is DSN as supabase.ServerRole, which is what a server connects as.
	ServerDSN string
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
	return newDatabase(t, migrated)
}

// NewEmptyDatabase makes a database that looks like a fresh Supabase project, without our migrations. Roles belong to
// the whole cluster: those of other tests' migrations exist.
func NewEmptyDatabase(t testing.TB) Database {
	return newDatabase(t, fresh)
}

func newDatabase(t testing.TB, from template) Database {
	admin, err := superuserDSN()
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	database, err := from.copy(ctx, admin)
	check(t, err)
	t.Cleanup(func() {
		// The test's own context is over.
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		assert.NoError(t, execute(ctx, admin, "drop database if exists "+database.Name+" with (force)"), "testkit")
	})
	return database
}

// CreateMigrated makes a database as NewDatabase does, outside of a test. It is not dropped.
func CreateMigrated(ctx context.Context, superuserDSN string) (Database, error) {
	return migrated.copy(ctx, superuserDSN)
}

// copy makes a database from the template, which it makes first if the cluster does not have it yet.
func (t template) copy(ctx context.Context, admin string) (made Database, err error) {
	defer kit.Catch(&err)
	from := kit.Must(t.ensure(ctx, admin))
	name := "test_" + strings.ToLower(rand.Text()[:12])
	// Copying the files costs less than logging a copy of them. Rights on the database itself are not copied.
	return at(admin, name), execute(ctx, admin,
		"create database "+name+" template "+from+" strategy file_copy",
		"grant all on database "+name+" to postgres")
}

func at(admin, name string) Database {
	address := parse(admin)
	address.User, address.Path = url.User(localpg.Superuser), "/"+name
	d := Database{AdminDSN: address.String(), Name: name}
	address.User = url.User("postgres")
	d.DSN, d.direct = address.String(), address.String()
	d.DSN = ThroughPooler(os.Getenv(PoolerEnv), d.direct)
	d.ServerDSN = AsServer(d.DSN)
	return d
}

// AsServer is a DSN as the role of servers.
func AsServer(dsn string) string {
	return strings.Replace(dsn, "//postgres@", "//"+supabase.ServerRole+"@", 1)
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
	return kit.Exec(ctx, conn, statements...)
}

// JWTSecret signs the tokens of Token. It protects nothing.
const JWTSecret = "a-secret-for-tests-that-protects-nothing"

// NewUser makes a user in the database's auth schema.
func NewUser(t testing.TB, database Database) uuid.UUID {
	conn := Connect(t, database.AdminDSN)
	defer func() { _ = conn.Close(t.Context()) }() // a test may make hundreds
	id, _, err := kit.NewUser(t.Context(), conn)
	check(t, err)
	return id
}

// Token returns an access token of the user, valid for an hour, signed with JWTSecret.
func Token(t testing.TB, userID uuid.UUID) string {
	token, err := auth.Mint([]byte(JWTSecret), userID, "", time.Hour, time.Now())
	check(t, err)
	return token
}

// template is a database that the tests' databases are copies of. Making one takes seconds and copying it milliseconds:
// it is made once per cluster, under a lock. Its name ends with a hash of the source: an edited migration makes another.
type template struct {
	prefix string
	fill   func(context.Context, Database) error
}

var (
	// fresh looks like a fresh Supabase project.
	fresh = template{"fresh_", bootstrap}
	// migrated has all migrations applied.
	migrated = template{"migrated_", migrate}
)

func bootstrap(ctx context.Context, database Database) error {
	return localpg.Bootstrap(ctx, database.AdminDSN, supabase.BootstrapSQL)
}

func migrate(ctx context.Context, database Database) (err error) {
	defer kit.Catch(&err)
	kit.Check(bootstrap(ctx, database))
	kit.Check(execute(ctx, database.AdminDSN, "grant all on database "+database.Name+" to postgres"))
	// A pooler would stay connected, and the template could not be renamed.
	kit.Must(supabase.Migrate(ctx, database.Direct(), slog.New(slog.DiscardHandler)))
	return execute(ctx, database.AdminDSN, locksSQL, "alter role "+supabase.ServerRole+" login",
		"grant pg_monitor, pg_signal_backend to postgres") // as on Supabase
}

// known holds the names of the templates that this process has seen complete.
var known sync.Map

// ensure makes the template unless it exists, and returns its name. Until it is complete it has another name.
func (t template) ensure(ctx context.Context, admin string) (name string, err error) {
	defer kit.Catch(&err)
	name = t.prefix + sourceHash()
	if _, ok := known.Load(name); ok {
		return name, nil
	}
	defer kit.In("making the template %s", name)
	conn := kit.Must(pgx.Connect(ctx, admin))
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // which releases the lock
	kit.Must(conn.Exec(ctx, "select pg_advisory_lock(5432216)"))  // all makers of templates share it
	var exists bool
	kit.Check(conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", name).Scan(&exists))
	if !exists {
		unfinished := at(admin, "making_"+name)
		kit.Check(execute(ctx, admin, "drop database if exists "+unfinished.Name+" with (force)", "create database "+unfinished.Name))
		kit.Check(t.fill(ctx, unfinished))
		kit.Check(execute(ctx, admin, "alter database "+unfinished.Name+" rename to "+name,
			"alter database "+name+" with is_template true allow_connections false"))
	}
	known.Store(name, true)
	return name, nil
}

//go:embed locks.sql
var locksSQL string

// sourceHash is a short hash of what templates are made from: the bootstrap and the migrations.
var sourceHash = sync.OnceValue(func() string {
	sum := sha256.New()
	_, _ = io.WriteString(sum, locksSQL)
	_, _ = io.WriteString(sum, supabase.BootstrapSQL)            // a hash takes everything
	paths, _ := fs.Glob(supabase.Migrations, "migrations/*.sql") // fails on a malformed pattern alone
	for _, path := range paths {
		migration, _ := supabase.Migrations.ReadFile(path) // it is embedded
		_, _ = io.WriteString(sum, path)
		_, _ = sum.Write(migration)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
})

// Server is a test's own Postgres, with all migrations, that can be stopped and started again.
type Server struct {
	Database
	t       testing.TB
	options localpg.Options
	cluster *localpg.Cluster
}

// NewServer starts a server and removes it when the test ends.
func NewServer(t testing.TB) *Server {
	dir, err := newFolder()
	check(t, err)
	s := &Server{t: t, options: localpg.Options{Dir: dir, Settings: map[string]string{"fsync": "off", "shared_buffers": "64MB"}}}
	s.Start()
	s.options.Port = s.cluster.Port()
	t.Cleanup(func() {
		assert.NoError(t, s.cluster.Destroy(), "testkit")
	})
	s.Database = at(s.cluster.DSN(localpg.Superuser, "postgres"), "postgres")
	check(t, migrate(t.Context(), s.Database))
	if s.Pooled() { // that pooler is in front of another server
		s.DSN = NewTransactionPooler(t, s.Database)
		s.ServerDSN = AsServer(s.DSN)
	}
	return s
}

// Start starts the server again, on the same port.
func (s *Server) Start() {
	cluster, err := localpg.Start(s.t.Context(), s.options)
	check(s.t, err)
	s.cluster = cluster
	if s.Pooled() { // a pooler tries again once a second whether its server is back
		Eventually(s.t, "the server answers through its pooler", s.answers)
	}
}

func (s *Server) answers() bool {
	conn, err := connectTo(s.t.Context(), s.DSN)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(s.t.Context()) }()
	return conn.Ping(s.t.Context()) == nil
}

// Stop ends the server as an operator does.
func (s *Server) Stop() {
	// A stopped server's folder looks abandoned to other test runs unless it is young.
	now := time.Now()
	require.NoErrorf(s.t, os.Chtimes(s.options.Dir, now, now), "testkit: %s is gone", s.options.Dir)
	check(s.t, s.cluster.Stop())
}

// Crash ends the server at once. The next start recovers from its log.
func (s *Server) Crash() {
	check(s.t, s.cluster.Crash())
}
