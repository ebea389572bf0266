package clients_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// proxy stands between an app and a server as a phone's network does: it passes bytes on, and cuts.
type proxy struct {
	base     string // http://127.0.0.1:port
	listener net.Listener
	done     sync.WaitGroup

	mu    sync.Mutex
	to    string            // host:port of the server for new connections
	open  map[net.Conn]bool // both ends of all connections; false for those that are frozen
	left  int               // bytes to the app until the cut; below 0 there will be none
	word  []byte            // connections end within it,
	after int               // after so many of its bytes,
	times int               // so many times
	cuts  int
	ended bool
}

// newProxy listens until the test ends. It leads to a server, until it is told another.
func newProxy(t *testing.T, to *replica) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{base: "http://" + listener.Addr().String(), listener: listener, open: map[net.Conn]bool{}, left: -1}
	p.RouteTo(to)
	p.done.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) accept() {
	for {
		app, err := p.listener.Accept()
		if err != nil {
			return // it was closed
		}
		p.done.Go(func() { p.carry(app) })
	}
}

// carry passes on one connection until both sides ended it.
func (p *proxy) carry(app net.Conn) {
	server, err := net.Dial("tcp", p.target())
	if err != nil {
		_ = app.Close() // the app sees that nobody is there
		return
	}
	if !p.enter(app, server) {
		return
	}
	defer p.leave(app, server)
	var upward sync.WaitGroup
	upward.Go(func() {
		_, _ = io.Copy(server, app) // how it ends is the other side's to see
		endOfData(server)
	})
	_, _ = io.Copy(counted{p, app}, server)
	endOfData(app)
	upward.Wait()
	_, _ = app.Close(), server.Close()
}

// endOfData hands a clean end on. It fails on a connection that is cut already.
func endOfData(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

func (p *proxy) enter(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		if p.ended {
			hangUp(conn)
			continue
		}
		p.open[conn] = true
	}
	return !p.ended
}

func (p *proxy) leave(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		delete(p.open, conn)
	}
}

// errCut ends a connection that was cut.
var errCut = errors.New("cut")

// counted is the way to the app.
type counted struct {
	proxy *proxy
	app   net.Conn
}

func (c counted) Write(data []byte) (int, error) {
	if c.proxy.frozen(c.app) {
		return len(data), nil // lost on the way
	}
	if pass, ends := c.proxy.endsWithin(data); ends {
		n, _ := c.app.Write(data[:pass])
		endOfData(c.app) // in order, so that all of this arrives
		return n, errCut
	}
	pass, cut := c.proxy.allow(len(data))
	n, err := c.app.Write(data[:pass])
	if cut {
		c.proxy.CutNow()
		return n, errCut
	}
	return n, err
}

// allow returns how many of n bytes may pass, and whether the connection is cut after them.
func (p *proxy) allow(n int) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left < 0 {
		return n, false
	}
	pass := min(n, p.left)
	p.left -= pass
	return pass, p.left == 0
}

// RouteTo routes new connections to a server, as a load balancer does.
func (p *proxy) RouteTo(server *replica) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = strings.TrimPrefix(server.base, "http://")
}

func (p *proxy) target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to
}

// CutAfter cuts all connections once, after so many more bytes to the app, also within an event or a character.
func (p *proxy) CutAfter(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = bytes
}

// endsWithin returns how much of the data comes before a connection's end by CutWithin.
func (p *proxy) endsWithin(data []byte) (int, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.times == 0 {
		return 0, false
	}
	start := bytes.Index(data, p.word)
	if start < 0 {
		return 0, false
	}
	p.times--
	p.cuts++
	return start + p.after, true
}

// CutWithin ends connections to the app within a word, after so many of its bytes, so many times.
func (p *proxy) CutWithin(word string, after, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.word, p.after, p.times = []byte(word), after, times
}

// CutNow resets all connections. New ones are accepted.
func (p *proxy) CutNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = -1
	p.cuts++
	for conn := range p.open {
		hangUp(conn)
	}
}

// Freeze drops all further data to the app on its open connections, without an error. New connections work.
func (p *proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		p.open[conn] = false
	}
}

func (p *proxy) frozen(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	well, open := p.open[conn]
	return open && !well
}

// Cuts returns how often connections were cut.
func (p *proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// hangUp resets a connection: a clean end would look like the server's own.
func hangUp(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // should it fail, the body is still cut
	}
	_ = conn.Close()
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.ended = true
	for conn := range p.open {
		hangUp(conn)
	}
	p.mu.Unlock()
	p.done.Wait()
}
