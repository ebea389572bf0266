package testkit

import (
	"cmp"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy is a network in front of a server that a test can break, on a loopback port of its own. A fault applies to open
// and to new connections. Answers are what the server sends.
type Proxy struct {
	t       testing.TB
	address string
	running sync.WaitGroup

	mu       sync.Mutex // guards what follows
	upstream string
	listener net.Listener // nil while it is down
	links    map[*link]bool
	faults   Faults
	cuts     int
}

// Faults are the faults of a network; the zero value is nothing.
type Faults struct {
	// Latency delays each piece of an answer.
	Latency time.Duration
	// Rate is how many KB of answers pass in a second, and Slice how many bytes at once; 0 for any number.
	Rate, Slice int
	// Cut closes each connection when the answers go beyond After bytes, counted from the break on, or from where a piece of an
	// answer has the word Within. After so many Times the network is well again; 0 for never.
	Cut          bool
	After, Times int
	Within       string
	// Abrupt makes connections end with a reset, whichever side closes them.
	Abrupt bool
	// HalfOpen connections are accepted, and all data is dropped, both ways.
	HalfOpen bool
}

type link struct {
	proxy          *Proxy
	client, server net.Conn
	sent           int  // bytes of answers since the break; guarded by the proxy, as is
	frozen         bool // whether answers are dropped
}

// NewProxy starts a proxy in front of the server at upstream (host:port). It stops when the test ends.
func NewProxy(t testing.TB, upstream string) *Proxy {
	p := &Proxy{t: t, upstream: upstream, address: "127.0.0.1:0", links: map[*link]bool{}}
	p.Up()
	t.Cleanup(p.Down)
	return p
}

// Addr is where the proxy listens, host:port.
func (p *Proxy) Addr() string { return p.address }

// DSN is the address of a database through the proxy.
func (p *Proxy) DSN(dsn string) string {
	address := parse(dsn)
	address.Host = p.Addr()
	return address.String()
}

// HostOf is the host:port of a database or an API, for NewProxy.
func HostOf(address string) string { return parse(address).Host }

// Break sets the faults from now on, in place of the earlier ones. Half-open connections end with their fault.
func (p *Proxy) Break(with Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults.HalfOpen && !with.HalfOpen {
		p.hangUp()
	}
	p.faults = with
	for l := range p.links {
		l.sent = 0
	}
}

// Heal is Break with nothing wrong.
func (p *Proxy) Heal() { p.Break(Faults{}) }

func (p *Proxy) now() Faults {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

// RouteTo leads new connections to another server, as a load balancer does.
func (p *Proxy) RouteTo(upstream string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = upstream
}

// CutNow resets all connections. New ones are accepted.
func (p *Proxy) CutNow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = Faults{Abrupt: true}
	p.hangUp()
	p.faults, p.cuts = Faults{}, p.cuts+1
}

// Cuts returns how often connections were cut.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Freeze drops all further answers on the open connections, without an error. New connections work.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.frozen = true
	}
}

// Down ends all connections and refuses new ones, until Up.
func (p *Proxy) Down() {
	p.mu.Lock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.hangUp()
	p.mu.Unlock()
	p.running.Wait()
}

// hangUp ends all connections. The proxy is locked.
func (p *Proxy) hangUp() {
	for l := range p.links {
		l.close()
	}
}

// Up listens again, on the same port.
func (p *Proxy) Up() {
	listener, err := net.Listen("tcp", p.address)
	check(p.t, err)
	p.mu.Lock()
	p.listener, p.address = listener, listener.Addr().String()
	p.mu.Unlock()
	p.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // it is down
			}
			p.connect(client)
		}
	})
}

// connect joins a client to the server, or hangs up where there is none.
func (p *Proxy) connect(client net.Conn) {
	p.mu.Lock()
	upstream := p.upstream
	p.mu.Unlock()
	server, err := net.Dial("tcp", upstream)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.links[l] = true
	if p.listener == nil { // it went down meanwhile
		l.close()
	}
	p.running.Go(func() { l.pass(server, l.answer) })
	p.running.Go(func() { l.pass(client, l.ask) })
}

// close ends both connections. The proxy is locked.
func (l *link) close() {
	for _, conn := range []net.Conn{l.client, l.server} {
		if l.proxy.faults.Abrupt {
			_ = conn.(*net.TCPConn).SetLinger(0) // fails when it is closed
		}
		_ = conn.Close() // it may be closed
	}
	delete(l.proxy.links, l)
}

// pass hands on what it reads, until one side is gone or to says that it is enough.
func (l *link) pass(from net.Conn, to func(piece []byte) bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !to(buffer[:n]) || err != nil {
			break
		}
	}
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	l.close()
}

// ask sends what a client said to the server.
func (l *link) ask(piece []byte) bool {
	if l.proxy.now().HalfOpen {
		return true
	}
	_, err := l.server.Write(piece)
	return err == nil
}

// answer sends what the server said to the client, as the faults let it.
func (l *link) answer(piece []byte) bool {
	allowed, f := l.allow(piece)
	if f.HalfOpen {
		return true
	}
	time.Sleep(f.Latency)
	whole := allowed == len(piece)
	piece = piece[:allowed]
	size := cmp.Or(f.Slice, f.Rate*10, len(piece))
	for len(piece) > 0 {
		n := min(size, len(piece))
		if f.Rate > 0 {
			time.Sleep(time.Duration(n) * time.Millisecond / time.Duration(f.Rate))
		}
		if _, err := l.client.Write(piece[:n]); err != nil {
			return false
		}
		piece = piece[n:]
		if f.Slice > 0 {
			time.Sleep(100 * time.Microsecond) // so that the pieces arrive apart
		}
	}
	if !whole {
		l.cut()
	}
	return whole
}

// allow counts bytes of an answer, and returns how many of them may pass, and with which faults.
func (l *link) allow(piece []byte) (bytes int, f Faults) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	bytes, f = len(piece), l.proxy.faults
	f.HalfOpen = f.HalfOpen || l.frozen
	at := strings.Index(string(piece), f.Within)
	switch {
	case f.Cut && f.Within == "":
		bytes = min(bytes, max(0, f.After-l.sent))
	case f.Cut && at >= 0:
		bytes = min(bytes, at+f.After)
	}
	l.sent += bytes
	return bytes, f
}

// cut ends a connection whose answer has gone too far.
func (l *link) cut() {
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	l.close()
	p.cuts++
	if p.faults.Times--; p.faults.Times == 0 {
		p.faults = Faults{}
	}
}
