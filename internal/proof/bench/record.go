package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// measureRecord follows running replies on another replica, which reads what is recorded of them: how late is that?
func measureRecord(ctx context.Context, f *fleet, g *group) error {
	g.title = fmt.Sprintf("%d streams recorded in Postgres while they run, %d of them followed on another replica", f.record.streams, f.followed)
	servers, err := f.replicas(ctx)
	if err != nil {
		return err
	}
	chats := f.unused(f.record.streams)
	var behind kit.Times
	same, err := f.load(ctx, servers[0], f.record, chats, func(ctx context.Context, from, to time.Time) error {
		read := make([]stream, f.followed)
		err := evenly(ctx, len(read), 0, func(ctx context.Context, i int) (err error) {
			read[i], err = servers[1].follow(ctx, chats[i], f.record.tokens())
			return err
		})
		behind = sentBetween(read, from, to)
		return err
	})
	g.times("token lag", "", []*target{nil, atMost(300)}, behind, same.lag)
	return err
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
