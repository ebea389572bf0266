package main

import (
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

// measureSlow has some clients read one byte per second, beside others that read at once. The server must end
// each slow stream, and each client can read its whole reply afterwards, as it is stored.
func measureSlow(ctx context.Context, e *environment) (g group, err error) {
	size := e.slow
	g.Title = fmt.Sprintf("%d clients that read 1 byte/s beside %d streams of %d tokens/s", size.readers, size.others.streams, tokensPerSecond)
	f, err := e.startFleet(ctx, role{}, roleServer)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	model, server := f[0], f[1]
	alike := size.others
	alike.streams += size.readers
	without, err := e.load(ctx, server, alike)
	if err != nil {
		return g, fmt.Errorf("without slow readers: %w", err)
	}
	all := e.clients(size.readers)
	var with load
	var held time.Duration
	err = readSlowly(ctx, server, all, size.tokens, func(since time.Time) (err error) {
		if with, err = e.load(ctx, server, size.others); err != nil {
			return fmt.Errorf("beside slow readers: %w", err)
		}
		held, err = server.streamsToNobody(ctx, since)
		return err
	})
	if err != nil {
		return g, err
	}
	for _, c := range all {
		if _, err := c.receive(ctx, server, c.resume(), nil); err != nil {
			return g, fmt.Errorf("after the slow reading: %w", err)
		}
		if err := e.checkWhole(ctx, model, c); err != nil {
			return g, err
		}
	}
	const against = "as many, none slow"
	for _, p := range percentiles {
		g.add(row{What: "token lag of the others, " + p.name, Unit: "ms", Value: with.lag.MS(p.q), Baseline: without.lag.MS(p.q), Against: against})
	}
	g.add(row{What: "slow handlers ended within", Unit: "s", Value: held.Seconds(), Target: atMost(11)})
	g.add(row{What: "their replies saved whole", Unit: of(len(all)), Value: float64(len(all)), Target: atLeast(float64(len(all)))})
	g.note("ended: until the server streams to nobody, from when all are slow, after a first delta that no buffer holds")
	g.note("each of them then reads on where it was")
	return g, nil
}

// readSlowly sends the clients' messages and reads the replies a byte each second while meanwhile runs, which is
// told since when all of them are slow. Then they read the rest at once, and none may come to its end.
func readSlowly(ctx context.Context, server endpoint, all []*client, tokens int, meanwhile func(since time.Time) error) error {
	bodies := make([]io.Reader, len(all))
	slow, hurry := context.WithCancel(ctx)
	defer hurry()
	for i, c := range all {
		conn, err := server.connectBy(ctx, narrow)
		if err != nil {
			return fmt.Errorf("slow readers: %w", err)
		}
		defer func() { _ = conn.Close() }()
		if bodies[i], err = conn.send(c.named(tokens, slowToken)); err != nil {
			return fmt.Errorf("slow readers: %w", err)
		}
	}
	ends := make([]error, len(all))
	var reading sync.WaitGroup
	for i, c := range all {
		reading.Go(func() { ends[i] = c.read(trickle{slow, bodies[i]}, nil) })
	}
	if err := meanwhile(time.Now()); err != nil {
		return err
	}
	hurry()
	reading.Wait()
	for _, err := range ends {
		if err == nil {
			return errors.New("a slow reader got its reply without reading it: nothing was measured")
		}
	}
	return nil
}

// trickle reads one byte each second until its context ends, and then all that there is.
type trickle struct {
	slow context.Context //nolint:containedctx // it is what ends the waiting
	io.Reader
}

func (t trickle) Read(p []byte) (int, error) {
	if kit.Sleep(t.slow, time.Second) == nil {
		p = p[:1]
	}
	return t.Reader.Read(p)
}

// narrow connects as over a phone's network, with small segments and a small window. Otherwise the kernel would
// buffer megabytes over loopback, and the server never notice a reader that does not read.
var narrow = &net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
	const segment, window = 1200, 4 << 10
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = errors.Join(syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, segment),
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, window))
	})
	return errors.Join(err, failed)
}}

// streamsToNobody waits until the server has no open streams, and returns how long that took.
func (p endpoint) streamsToNobody(ctx context.Context, since time.Time) (time.Duration, error) {
	const every = 20 * time.Millisecond
	for {
		metrics, err := kit.Get(ctx, http.DefaultClient, p.Address+"/metrics")
		if err != nil {
			return 0, err
		}
		_, value, found := strings.Cut(string(metrics), "\nthroughline_open_streams ")
		value, _, _ = strings.Cut(value, "\n")
		open, err := strconv.Atoi(value)
		if !found || err != nil {
			return 0, errors.Join(errors.New("the metrics do not tell the open streams"), err)
		}
		if open == 0 {
			return time.Since(since), nil
		}
		if err := kit.Sleep(ctx, every); err != nil {
			return 0, fmt.Errorf("%d handlers do not end: %w", open, err)
		}
	}
}
