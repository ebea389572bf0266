package transfer

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// importsAtOnce is how many imports one process checks and writes at the same time. Each may need some 50 MB, for the ids
// of a file of very many messages.
const importsAtOnce = 4

// desk admits a few imports at once, one of each user; the others wait.
type desk struct {
	places chan struct{}

	mu    sync.Mutex
	users map[uuid.UUID]*line
}

// line is where one user's imports wait for each other.
type line struct {
	first  chan struct{}
	length int // who waits or was admitted
}

func newDesk(places int) *desk {
	return &desk{places: make(chan struct{}, places), users: map[uuid.UUID]*line{}}
}

// enter waits for a place, which the caller leaves. It returns the error of ctx if that ends first.
func (d *desk) enter(ctx context.Context, user uuid.UUID) (leave func(), err error) {
	own := d.join(user)
	if err := take(ctx, own.first); err != nil {
		d.quit(user)
		return nil, err
	}
	if err := take(ctx, d.places); err != nil {
		<-own.first
		d.quit(user)
		return nil, err
	}
	return func() {
		<-d.places
		<-own.first
		d.quit(user)
	}, nil
}

func take(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *desk) join(user uuid.UUID) *line {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users[user] == nil {
		d.users[user] = &line{first: make(chan struct{}, 1)}
	}
	d.users[user].length++
	return d.users[user]
}

func (d *desk) quit(user uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users[user].length--
	if d.users[user].length == 0 {
		delete(d.users, user)
	}
}
