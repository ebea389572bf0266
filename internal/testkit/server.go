package testkit

import (
	"os"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
)

// Server is a test's own Postgres, with all migrations, that can be stopped and started again.
type Server struct {
	Database
	t       testing.TB
	options localpg.Options
	cluster *localpg.Cluster
}

// NewServer starts a server and removes it when the test ends.
func NewServer(t testing.TB) *Server {
	t.Helper()
	dir, err := newFolder()
	check(t, err)
	s := &Server{t: t, options: localpg.Options{Dir: dir, Settings: map[string]string{"fsync": "off", "shared_buffers": "64MB"}}}
	s.Start()
	s.options.Port = s.cluster.Port()
	t.Cleanup(func() {
		if err := s.cluster.Destroy(); err != nil {
			t.Errorf("testkit: %v", err)
		}
	})
	s.Database = at(s.cluster.DSN(localpg.Superuser, "postgres"), "postgres")
	check(t, migrate(t.Context(), s.Database))
	if s.Pooled() { // that pooler is in front of another server
		s.DSN = NewTransactionPooler(t, s.Database)
	}
	return s
}

// Start starts the server again, on the same port.
func (s *Server) Start() {
	s.t.Helper()
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
	s.t.Helper()
	// A stopped server's folder looks abandoned to other test runs unless it is young.
	if now := time.Now(); os.Chtimes(s.options.Dir, now, now) != nil {
		s.t.Fatalf("testkit: %s is gone", s.options.Dir)
	}
	check(s.t, s.cluster.Stop())
}

// Crash ends the server at once. The next start recovers from its log.
func (s *Server) Crash() {
	s.t.Helper()
	check(s.t, s.cluster.Crash())
}
