package testkit

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/assert"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// Manner is how a Gateway treats what passes through it.
type Manner int32

const (
	// Parting makes each statement of a pipeline a pipeline of its own, as Multigres does: what was not begun by name is no
	// transaction.
	Parting Manner = iota
	// Scattering sends one statement to one session and the next to another.
	Scattering
	// Forgetting resets the role after each statement.
	Forgetting
)

// Gateway speaks Postgres' protocol between clients and a server, statement by statement, as poolers do that understand it. Its
// manner may change at any time. Connect through it as through a transaction pooler.
type Gateway struct {
	Manner   atomic.Int32
	Served   atomic.Int64 // groups of messages that were sent on, of one statement each
	listener net.Listener
	server   string
	running  sync.WaitGroup
	open     sync.Map // of net.Conn
}

// NewGateway starts a gateway in front of a database's server, until the test ends.
func NewGateway(t testing.TB, database Database, manner Manner) *Gateway {
	g, err := StartGateway(t.Context(), database.AdminDSN)
	check(t, err)
	g.Manner.Store(int32(manner))
	t.Cleanup(func() { assert.NoError(t, g.Stop(), "testkit") })
	return g
}

// StartGateway starts one that parts. Stop it.
func StartGateway(ctx context.Context, serverDSN string) (*Gateway, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &Gateway{listener: listener, server: HostOf(serverDSN)}
	g.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // it was stopped
			}
			g.running.Go(func() { g.serve(client) })
		}
	})
	return g, nil
}

// Address is host:port, for PoolerEnv.
func (g *Gateway) Address() string { return g.listener.Addr().String() }

// Through is a DSN through the gateway.
func (g *Gateway) Through(dsn string) string {
	return ThroughPooler(g.Address(), dsn)
}

// Stop ends it and all connections through it.
func (g *Gateway) Stop() error {
	err := g.listener.Close()
	g.open.Range(func(conn, _ any) bool { return conn.(net.Conn).Close() == nil || true })
	g.running.Wait()
	return err
}

// serve passes one client's statements on. An error ends the connection, as a broken network does.
func (g *Gateway) serve(conn net.Conn) {
	g.open.Store(conn, true)
	defer func() { g.open.Delete(conn); _ = conn.Close() }()
	s := &gatewaySession{gateway: g, client: pgproto3.NewBackend(conn, conn), status: 'I'}
	_ = s.run() // the client sees the end
	for _, server := range s.servers {
		_ = server.conn.Close()
	}
}

type gatewayServer struct {
	conn net.Conn
	*pgproto3.Frontend
}

type gatewaySession struct {
	gateway *Gateway
	client  *pgproto3.Backend
	startup *pgproto3.StartupMessage
	servers []gatewayServer // one session, or two to scatter over
	turn    int
	group   []byte // the messages of the statement that is being said
	failed  bool   // what follows until Sync is left out
	status  byte
}

func (s *gatewaySession) run() (err error) {
	defer kit.Catch(&err)
	startup := kit.Must(s.client.ReceiveStartupMessage())
	message, ok := startup.(*pgproto3.StartupMessage)
	if !ok {
		return errors.New("no plain start of a session")
	}
	s.startup = message
	kit.Check(s.connect())
	s.client.Send(&pgproto3.AuthenticationOk{})
	s.client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	s.client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	s.client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	s.client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	kit.Check(s.client.Flush())
	for {
		kit.Check(s.take(kit.Must(s.client.Receive())))
	}
}

func (s *gatewaySession) connect() error {
	user, database := s.startup.Parameters["user"], s.startup.Parameters["database"]
	config, err := pgconn.ParseConfig("postgres://" + user + "@" + s.gateway.server + "/" + database + "?sslmode=disable")
	if err != nil {
		return err
	}
	conn, err := pgconn.ConnectConfig(context.Background(), config)
	if err != nil {
		code := "08006"
		if said, ok := errors.AsType[*pgconn.PgError](err); ok {
			code = said.Code
		}
		s.client.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: err.Error()})
		return errors.Join(err, s.client.Flush())
	}
	taken, err := conn.Hijack()
	if err == nil {
		s.gateway.open.Store(taken.Conn, true)
		s.servers = append(s.servers, gatewayServer{taken.Conn, taken.Frontend})
	}
	return err
}

// take acts on one message of the client. Statements end with Execute, or with a Describe that nothing executes.
func (s *gatewaySession) take(message pgproto3.FrontendMessage) error {
	switch m := message.(type) {
	case *pgproto3.Terminate:
		return io.EOF
	case *pgproto3.Sync:
		if err := s.send(); err != nil {
			return err
		}
		s.failed = false
		s.client.Send(&pgproto3.ReadyForQuery{TxStatus: s.status})
		return s.client.Flush()
	case *pgproto3.Query:
		err := errors.Join(s.say(m), s.exchange())
		s.failed = false
		s.client.Send(&pgproto3.ReadyForQuery{TxStatus: s.status})
		return errors.Join(err, s.client.Flush())
	case *pgproto3.Parse, *pgproto3.Bind, *pgproto3.Describe, *pgproto3.Close:
		return s.say(message)
	case *pgproto3.Execute:
		return errors.Join(s.say(m), s.send())
	case *pgproto3.Flush:
	default:
		return errors.New("the gateway does not know this message")
	}
	return nil
}

// say adds a message to the group as it is on the wire: what the message has is gone with the next.
func (s *gatewaySession) say(message pgproto3.FrontendMessage) (err error) {
	s.group, err = message.Encode(s.group)
	return err
}

// send sends the statement that was said, with a Sync of its own, unless one before it has failed.
func (s *gatewaySession) send() error {
	if s.failed || len(s.group) == 0 {
		s.group = nil
		return nil
	}
	return errors.Join(s.say(&pgproto3.Sync{}), s.exchange(), s.client.Flush())
}

// exchange sends the group to a session and passes the answer on, without its end.
func (s *gatewaySession) exchange() error {
	manner := Manner(s.gateway.Manner.Load())
	server := s.servers[0]
	s.gateway.Served.Add(1)
	if manner == Scattering {
		if len(s.servers) == 1 {
			if err := s.connect(); err != nil {
				return err
			}
		}
		server = s.servers[s.turn%2]
		s.turn++
	}
	_, err := server.conn.Write(s.group)
	s.group = nil
	if err = errors.Join(err, s.answer(server, true)); err != nil || manner != Forgetting || s.status == 'E' {
		return err
	}
	server.Send(&pgproto3.Query{String: "reset role"})
	return errors.Join(server.Flush(), s.answer(server, false))
}

// answer reads an answer to its end.
func (s *gatewaySession) answer(server gatewayServer, pass bool) error {
	for {
		message, err := server.Receive()
		if err != nil {
			return err
		}
		switch m := message.(type) {
		case *pgproto3.ReadyForQuery:
			s.status = m.TxStatus
			return nil
		case *pgproto3.ErrorResponse:
			s.failed = true
		}
		if pass {
			s.client.Send(message)
			if err := s.client.Flush(); err != nil { // the message is gone with the next
				return err
			}
		}
		if _, copying := message.(*pgproto3.CopyInResponse); copying {
			if err := s.copyIn(server); err != nil {
				return err
			}
		}
	}
}

// copyIn passes on what the client copies, up to its end.
func (s *gatewaySession) copyIn(server gatewayServer) error {
	for copying := true; copying; {
		message, err := s.client.Receive()
		if err != nil {
			return err
		}
		_, copying = message.(*pgproto3.CopyData)
		server.Send(message)
		if err := server.Flush(); err != nil {
			return err
		}
	}
	return nil
}
