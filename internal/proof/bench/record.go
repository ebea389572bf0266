package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// recording is the size of measureRecord.
type recording struct {
	stage
	followed int // of the streams, each by one reader on another replica
}

// measureRecord follows running replies on another replica, which reads what is recorded of them: how late is that?
func measureRecord(ctx context.Context, e *environment) (g group, err error) {
	g.title = fmt.Sprintf("%d streams recorded in Postgres while they run, %d of them followed on another replica", e.record.streams, e.record.followed)
	g.columns = []string{"other replica", "same replica"}
	if err := e.settle(ctx); err != nil {
		return g, err
	}
	f, err := e.startFleet(ctx, role{})
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	var servers [2]endpoint
	for i := range servers {
		if servers[i], err = f.server(ctx, shipped, nil); err != nil {
			return g, err
		}
	}
	chats := e.unused(e.record.streams)
	var behind kit.Times
	same, err := e.loadWith(ctx, servers[0], e.record.stage, chats, func(ctx context.Context, from, to time.Time) error {
		read := make([]stream, e.record.followed)
		err := evenly(ctx, len(read), 0, func(ctx context.Context, i int) (err error) {
			read[i], err = servers[1].follow(ctx, chats[i], e.record.tokens())
			return err
		})
		behind = sentBetween(read, from, to)
		return err
	})
	if err != nil {
		return g, err
	}
	for _, p := range percentiles {
		g.add(row{what: "token lag, " + p.name, unit: "ms", values: []float64{behind.MS(p.q), same.lag.MS(p.q)}})
	}
	g.rows[1].target = atMost(300)
	return g, nil
}

// follow reads the running reply of a chat, as soon as there is one.
func (p endpoint) follow(ctx context.Context, c conversation, tokens int) (stream, error) {
	const again = 20 * time.Millisecond
	for {
		found, err := p.oneStream(ctx, newClient(c).resume(), tokens)
		answer, answered := errors.AsType[*refused](err)
		if !answered || answer.status != http.StatusNoContent {
			return found, err
		}
		if err := kit.Sleep(ctx, again); err != nil {
			return found, err
		}
	}
}
