package testkit

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// echo is a server that sends back all that it hears.
func echo(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return listener.Addr().String()
}

// say sends a line over a connection to the proxy and reads so many bytes back.
func say(conn net.Conn, line string, back int) (string, error) {
	if _, err := io.WriteString(conn, line); err != nil {
		return "", err
	}
	raw := make([]byte, back)
	n, err := io.ReadFull(conn, raw)
	return string(raw[:n]), err
}

func dial(t *testing.T, p *Proxy) net.Conn {
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestProxyBreaksConnections(t *testing.T) {
	t.Parallel()
	p := NewProxy(t, echo(t))
	conn := dial(t, p)
	got, err := say(conn, "hello", 5)
	require.Truef(t, got == "hello" && err == nil, "%q, %v", got, err)
	p.Break(Faults{Cut: true, After: 3})
	got, err = say(conn, "hello", 5)
	assert.Truef(t, got == "hel" && errors.Is(err, io.ErrUnexpectedEOF), "limited: %q, %v", got, err)
	p.Heal()
	p.Break(Faults{Abrupt: true, Cut: true, After: 3})
	got, err = say(dial(t, p), "hello", 5)
	assert.Truef(t, len(got) <= 3 && errors.Is(err, syscall.ECONNRESET), "reset: %q, %v", got, err)
	p.Heal()
	conn = dial(t, p)
	p.Break(Faults{HalfOpen: true})
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	got, err = say(conn, "hello", 5)
	assert.Truef(t, got == "" && errors.Is(err, os.ErrDeadlineExceeded), "half-open: %q, %v", got, err)
	p.Heal()
	p.Break(Faults{Slice: 1, Latency: time.Millisecond, Rate: 100})
	conn = dial(t, p)
	got, err = say(conn, "hello", 5)
	assert.Truef(t, got == "hello" && err == nil, "slow: %q, %v", got, err)
	p.Down()
	got, err = say(conn, "hello", 5)
	assert.Errorf(t, err, "down: %q", got)
	if refused, err := net.Dial("tcp", p.Addr()); err == nil {
		_ = refused.Close()
		t.Error("down: connected")
	}
	p.Up()
	got, err = say(dial(t, p), "hello", 5)
	assert.Truef(t, got == "hello" && err == nil, "up again: %q, %v", got, err)
}
