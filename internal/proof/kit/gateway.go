package kit

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"
)

// Gateway stands before Postgres as a pooler does that keeps its clients' connections when the server changes: where a server is
// gone, the next one is sent what the client began with. What the session had, such as LISTEN, is gone, and the client is told
// nothing. Clients use neither TLS nor a password.
type Gateway struct {
	upstream string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // open ones; nil when the gateway is closed
}

// StartGateway starts one before the server at upstream, host:port. Close it.
func StartGateway(upstream string) (*Gateway, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // Close ends it
	if err != nil {
		return nil, err
	}
	g := &Gateway{upstream: upstream, listener: listener, conns: map[net.Conn]bool{}}
	g.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			g.running.Go(func() { g.serve(client) })
		}
	})
	return g, nil
}

// Address is where clients connect, host:port.
func (g *Gateway) Address() string { return g.listener.Addr().String() }

// ChangeServer takes the servers from the clients: the next ones are found at the same address.
func (g *Gateway) ChangeServer() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for conn, isServer := range g.conns {
		if isServer {
			_ = conn.Close()
		}
	}
}

// Close ends all connections.
func (g *Gateway) Close() {
	_ = g.listener.Close()
	g.mu.Lock()
	for conn := range g.conns {
		_ = conn.Close()
	}
	g.conns = nil
	g.mu.Unlock()
	g.running.Wait()
}

// keep reports whether a connection is one to end with the gateway, or closes it.
func (g *Gateway) keep(conn net.Conn, isServer bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conns == nil {
		_ = conn.Close()
		return false
	}
	g.conns[conn] = isServer
	return true
}

func (g *Gateway) drop(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, conn) // deleting from nil does nothing
	_ = conn.Close()
}

// serve joins a client to one server after the other, until it leaves.
func (g *Gateway) serve(client net.Conn) {
	if !g.keep(client, false) {
		return
	}
	defer g.drop(client)
	startup, err := frame(client, nil)
	if err != nil {
		return
	}
	var mu sync.Mutex
	var server net.Conn // nil when the client is gone
	gone := make(chan struct{})
	g.running.Go(func() {
		defer close(gone)
		for piece := make([]byte, 32<<10); ; {
			n, err := client.Read(piece)
			mu.Lock()
			if server != nil {
				_, _ = server.Write(piece[:n]) // without a server it is lost
			}
			if err != nil && server != nil {
				_ = server.Close()
			}
			mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	for again := false; ; again = true {
		next, answers := g.connect(startup, again, gone)
		if next == nil {
			return
		}
		mu.Lock()
		server = next
		mu.Unlock()
		for {
			said, err := frame(answers, make([]byte, 1))
			if err != nil || isEnd(said) {
				break
			}
			if _, err := client.Write(said); err != nil {
				break
			}
		}
		g.drop(next)
	}
}

// connect returns the next server, once it takes what the client began with; nil when the client is gone. The answers to a
// repeated beginning are not for the client.
func (g *Gateway) connect(startup []byte, again bool, gone <-chan struct{}) (net.Conn, *bufio.Reader) {
	for {
		select {
		case <-gone:
			return nil, nil
		case <-time.After(20 * time.Millisecond):
		}
		server, err := net.DialTimeout("tcp", g.upstream, time.Second)
		if err != nil {
			continue
		}
		if !g.keep(server, true) {
			return nil, nil
		}
		answers := bufio.NewReader(server)
		_, err = server.Write(startup)
		for said := []byte(nil); again && err == nil && (said == nil || said[0] != 'Z'); {
			if said, err = frame(answers, make([]byte, 1)); err == nil && said[0] == 'E' {
				err = io.EOF
			}
		}
		if err == nil {
			return server, answers
		}
		g.drop(server)
	}
}

// frame reads a message of Postgres' protocol: its type, if head has room for one, a length and the rest.
func frame(from io.Reader, head []byte) ([]byte, error) {
	head = append(head, 0, 0, 0, 0)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	rest := make([]byte, max(0, int(binary.BigEndian.Uint32(head[len(head)-4:]))-4))
	_, err := io.ReadFull(from, rest)
	return append(head, rest...), err
}

// isEnd reports whether a server says with this that it ends the connection.
func isEnd(said []byte) bool { return said[0] == 'E' && bytes.Contains(said, []byte("\x00VFATAL\x00")) }
