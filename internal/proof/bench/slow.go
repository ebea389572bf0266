package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// slowness is the size of measureSlow.
type slowness struct {
	readers int
	tokens  int
	others  stage
}

// slowToken is the size of the first token of a slow reader's reply in bytes: more than all buffers between
// server and reader hold.
const slowToken = 128 << 10

// measureSlow has some clients read one byte per second, beside others that read at once.
func measureSlow(ctx context.Context, e *environment) (g group, err error) {
	size := e.slow
	g.Title = fmt.Sprintf("%d clients that read 1 byte/s beside %d streams of %d tokens/s", size.readers, size.others.streams, tokensPerSecond)
	r, err := e.startReplicas(ctx, 1)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	alike := size.others
	alike.streams += size.readers
	without, err := e.load(ctx, r.servers[0], alike)
	if err != nil {
		return g, fmt.Errorf("without slow readers: %w", err)
	}
	all := e.clients(size.readers)
	slow, err := e.startSlow(ctx, r.servers[0], all)
	defer slow.close()
	if err != nil {
		return g, fmt.Errorf("slow readers: %w", err)
	}
	with, err := e.load(ctx, r.servers[0], size.others)
	if err != nil {
		return g, fmt.Errorf("beside slow readers: %w", err)
	}
	held, err := slow.wait(ctx)
	if err != nil {
		return g, err
	}
	const against = "as many, none slow"
	for _, p := range percentiles {
		g.add(row{What: "token lag of the others, " + p.name, Unit: "ms", Value: with.lag.MS(p.q), Baseline: without.lag.MS(p.q), Against: against})
	}
	g.add(row{What: "slow handlers ended within", Unit: "s", Value: held.Seconds(), Target: atMost(11)})
	return g, slow.report(ctx, r, all, &g)
}

// slowReaders are connections that are read slowly.
type slowReaders struct {
	*environment
	server endpoint
	conns  []net.Conn
	bodies []io.Reader
	since  time.Time // when all of them had become slow

	stop    context.CancelFunc
	reading sync.WaitGroup
}

// startSlow sends the clients' requests and reads the beginning of each answer; the rest is then read byte by
// byte. The result is to be closed, also after an error.
func (e *environment) startSlow(ctx context.Context, server endpoint, all []*client) (*slowReaders, error) {
	reading, stop := context.WithCancel(ctx)
	s := &slowReaders{environment: e, server: server, stop: stop}
	for _, c := range all {
		conn, err := dialNarrow(ctx, server)
		if err != nil {
			return s, err
		}
		s.conns = append(s.conns, conn)
		if _, err := conn.Write(c.named(e.slow.tokens, slowToken)); err != nil {
			return s, err
		}
		response, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil) //nolint:bodyclose // the connection is closed
		if err != nil {
			return s, err
		}
		if response.StatusCode != http.StatusOK {
			return s, fmt.Errorf("HTTP %d", response.StatusCode)
		}
		s.bodies = append(s.bodies, response.Body)
	}
	s.since = time.Now()
	for _, body := range s.bodies {
		s.reading.Go(func() { trickle(reading, body) })
	}
	return s, nil
}

func trickle(ctx context.Context, body io.Reader) {
	one := make([]byte, 1)
	for kit.Sleep(ctx, time.Second) == nil {
		if _, err := body.Read(one); err != nil {
			return
		}
	}
}

func (s *slowReaders) close() {
	defer s.reading.Wait()
	s.stop()
	for _, conn := range s.conns {
		_ = conn.Close() // it is not used any more
	}
}

// dialNarrow connects as over a phone's network, with small segments and a small window. Otherwise the kernel
// would buffer megabytes over loopback, and the server never notice a reader that does not read.
func dialNarrow(ctx context.Context, p endpoint) (net.Conn, error) {
	const segment, window = 1200, 4 << 10
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = errors.Join(syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, segment),
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, window))
		})
		return errors.Join(err, failed)
	}}
	return dialer.DialContext(ctx, "tcp", p.host())
}

// wait waits until the server has no open streams, and returns how long that took.
func (s *slowReaders) wait(ctx context.Context) (time.Duration, error) {
	const every = 20 * time.Millisecond
	for {
		open, err := s.server.openStreams(ctx)
		if err != nil || open == 0 {
			return time.Since(s.since), err
		}
		if err := kit.Sleep(ctx, every); err != nil {
			return 0, fmt.Errorf("%d handlers do not end: %w", open, err)
		}
	}
}

// openStreams returns how many clients the server is streaming to.
func (p endpoint) openStreams(ctx context.Context) (int, error) {
	metrics, err := kit.Get(ctx, http.DefaultClient, p.process.Address+"/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(metrics)) {
		if value, found := strings.CutPrefix(line, "throughline_open_streams "); found {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, errors.New("the metrics do not tell the open streams")
}

// report checks that the server ended each slow stream, and that each client can read its whole reply afterwards,
// as it is stored.
func (s *slowReaders) report(ctx context.Context, r *replicas, all []*client, g *group) error {
	s.stop()
	s.reading.Wait()
	for i, c := range all {
		if err := c.read(s.bodies[i], never); err == nil {
			return errors.New("a slow reader got its reply without reading it: nothing was measured")
		}
		if _, err := c.finish(ctx, s.server, c.sentMessage); err != nil {
			return fmt.Errorf("after the slow reading: %w", err)
		}
		if err := s.checkWhole(ctx, r.model, c.sentMessage, &c.reply); err != nil {
			return err
		}
	}
	g.add(row{What: "their replies saved whole", Unit: of(len(all)), Value: float64(len(all)), Target: atLeast(float64(len(all)))})
	g.note("ended: until the server streams to nobody, from when all are slow, after a first delta that no buffer holds")
	g.note("each of them then reads on where it was")
	return nil
}
