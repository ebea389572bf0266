package testkit

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

// Proxy is a network in front of a server that a test can break: Toxiproxy on a loopback port of its own. A fault applies
// to open and to new connections unless a method says otherwise. It writes nothing to the test's output.
type Proxy struct {
	t     testing.TB
	proxy *toxiproxy.Proxy
	added int
}

// NewProxy starts a proxy in front of the server at upstream (host:port). It stops when the test ends.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	prepareToxics()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{t: t, proxy: toxiproxy.NewProxy(server, "network", "127.0.0.1:0", upstream)}
	p.Up()
	t.Cleanup(p.proxy.Stop)
	return p
}

// prepareToxics silences the toxics' own log and registers ours.
var prepareToxics = sync.OnceFunc(func() {
	zerolog.SetGlobalLevel(zerolog.Disabled)
	toxics.Register("cut", new(cut))
})

// cut is Toxiproxy's limit_data, but it discards later input, so that its sender does not wait for ever.
type cut struct{ toxics.LimitDataToxic }

// Pipe lets through what the limit allows.
func (c *cut) Pipe(stub *toxics.ToxicStub) {
	c.LimitDataToxic.Pipe(stub)
	for stub.Closed() {
		if _, more := <-stub.Input; !more {
			return
		}
	}
}

// proxyLeftovers ignores the goroutines that Toxiproxy leaks: the two of a direction whose reader hung up while data was
// on its way. They are idle.
func proxyLeftovers() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	}
}

// Addr is where the proxy listens, host:port.
func (p *Proxy) Addr() string { return p.proxy.Listen }

// DSN is the address of a database through the proxy.
func (p *Proxy) DSN(dsn string) string {
	address := parse(dsn)
	address.Host = p.Addr()
	return address.String()
}

// HostOf is the host:port of a database or an API, for NewProxy.
func HostOf(address string) string { return parse(address).Host }

// Latency delays each piece of an answer.
func (p *Proxy) Latency(delay time.Duration) {
	p.add("latency", "downstream", 1, map[string]any{"latency": delay.Milliseconds()})
}

// Bandwidth limits the answers to rate KB/s.
func (p *Proxy) Bandwidth(rate int) {
	p.add("bandwidth", "downstream", 1, map[string]any{"rate": rate})
}

// Slice sends the answers in pieces of size bytes.
func (p *Proxy) Slice(size int) {
	p.add("slicer", "downstream", 1, map[string]any{"average_size": size, "size_variation": 0, "delay": 100})
}

// LimitData closes each connection cleanly after so many bytes of answers, counted from now on.
func (p *Proxy) LimitData(bytes int) {
	p.add("cut", "downstream", 1, map[string]any{"bytes": bytes})
}

// Abrupt makes connections from now on end with a reset, whichever side closes them.
func (p *Proxy) Abrupt() {
	// The toxic never applies to a connection, but its presence makes Toxiproxy reset them.
	p.add("reset_peer", "downstream", 0, map[string]any{"timeout": 0})
}

// ResetPeer resets connections from now on, each after so many bytes of answers.
func (p *Proxy) ResetPeer(bytes int) {
	p.Abrupt()
	p.LimitData(bytes)
}

// Timeout makes the connections half-open: they are accepted, and all data is dropped, both ways.
func (p *Proxy) Timeout() {
	for _, direction := range []string{"upstream", "downstream"} {
		p.add("timeout", direction, 1, map[string]any{"timeout": 0})
	}
}

func (p *Proxy) add(kind, direction string, toxicity float32, attributes map[string]any) {
	p.t.Helper()
	p.added++
	raw, err := json.Marshal(map[string]any{
		"name": fmt.Sprint(kind, p.added), "type": kind, "stream": direction, "toxicity": toxicity, "attributes": attributes,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(string(raw))); err != nil {
		p.t.Fatalf("testkit: %s: %v", kind, err)
	}
}

// Heal removes all faults above. Half-open connections end.
func (p *Proxy) Heal() {
	p.proxy.Toxics.ResetToxics(p.t.Context())
}

// Down ends all connections and refuses new ones, until Up.
func (p *Proxy) Down() { p.proxy.Stop() }

// Up listens again, on the same port.
func (p *Proxy) Up() {
	p.t.Helper()
	if err := p.proxy.Start(); err != nil {
		p.t.Fatalf("testkit: %v", err)
	}
}
