package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// replicas are server processes on one database, with one model behind them.
type replicas struct {
	model   *process
	servers []endpoint
}

// startReplicas starts servers that are configured alike, beyond what every server of the benchmark is.
func (e *environment) startReplicas(ctx context.Context, count int, settings ...string) (*replicas, error) {
	r := &replicas{}
	var err error
	if r.model, err = startRole(ctx, roleModel); err != nil {
		return nil, err
	}
	args := []string{roleServer, "-model", r.model.address, "-database", e.at.server}
	for _, setting := range settings {
		args = append(args, "-set", setting)
	}
	for n := range count {
		server, err := startRole(ctx, args...)
		if err != nil {
			return nil, errors.Join(err, r.stop())
		}
		r.servers = append(r.servers, endpoint{name: fmt.Sprintf("replica %d", n+1), process: server, ours: true})
	}
	return r, nil
}

func (r *replicas) stop() error {
	var errs []error
	for _, server := range r.servers {
		errs = append(errs, server.process.stop())
	}
	return errors.Join(errors.Join(errs...), r.model.stop())
}

// client is one that sends a message and keeps what it hears of the reply.
type client struct {
	asking
	heard
}

// clients makes a number of them, each with a chat of its own.
func (e *environment) clients(count int) []*client {
	all := make([]*client, count)
	for i := range all {
		all[i] = &client{asking: ask(e.next())}
	}
	return all
}

// start sends the client's request and listens until enough says so. The connection is the caller's, also
// after an error.
func (c *client) start(ctx context.Context, p endpoint, request []byte, enough func() bool) (*connection, error) {
	conn, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	body, err := conn.send(request)
	if err != nil {
		return conn, err
	}
	return conn, c.listen(body, enough)
}

// evenly runs work for each client on a goroutine of its own, begun evenly over the ramp, and gives the
// first failure. After one the context of the others has ended.
func evenly(ctx context.Context, clients []*client, ramp time.Duration, work func(ctx context.Context, i int, c *client) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	failures := make([]error, len(clients))
	var wait sync.WaitGroup
	for i, c := range clients {
		wait.Go(func() {
			err := sleepUntil(ctx, began.Add(ramp*time.Duration(i)/time.Duration(len(clients))))
			if err == nil {
				err = work(ctx, i, c)
			}
			if failures[i] = err; err != nil {
				cancel()
			}
		})
	}
	wait.Wait()
	return firstOf(failures)
}
