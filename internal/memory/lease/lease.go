// Package lease is the life of a job that asks a model: it takes a lease in a short transaction, asks while the lease is
// renewed and no transaction is open, and writes what came of it, with the completion of the job, in one transaction that
// compares what it read with what is there. Folds live like this, and extractions of memories.
package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Lease is an exclusive right. It ends Duration after it was taken or renewed.
type Lease struct {
	Token    uuid.UUID
	Duration time.Duration
	// PerUser is with how many leases on a user's other chats this one can no longer be taken; 0 for any number.
	PerUser int
}

// Claim is the outcome of a claim.
type Claim int

// The outcomes of a claim.
const (
	// Gone: the chat was deleted.
	Gone Claim = iota
	// Occupied: another worker has the lease, or the user's other chats have as many as may be.
	Occupied
	// Taken: the caller has the lease.
	Taken
)

// Result is what a job reports that has not taken the lease.
func (c Claim) Result() Result {
	if c == Occupied {
		return Busy
	}
	return Nothing
}

// Result is the outcome of a job, as logs and metrics name it.
type Result string

// The results.
const (
	// Done: the change was written.
	Done Result = "done"
	// Nothing: there was nothing to do, or the chat was deleted.
	Nothing Result = "nothing"
	// Busy: another worker has the lease, or the user's others are as many as may run; try again later.
	Busy Result = "elsewhere"
	// Paused: the change has had its turn, or its worker is stopped. Its progress is stored; go on when those that wait
	// have had their turns.
	Paused Result = "paused"
	// Conflict: what the change was planned from was changed meanwhile; plan again.
	Conflict Result = "lost"
	// Refused: the model's answer was refused for good. The chat is put off.
	Refused Result = "refused"
	// Failed: the model or Postgres failed. The job's next attempt tries again.
	Failed Result = "failed"
)

var (
	// ErrLost reports that another worker has the lease, or that a message was changed.
	ErrLost = errors.New("another worker took the change over, or a message was changed")
	// ErrPaused reports that the change has had its turn.
	ErrPaused = errors.New("the change has had its turn")
)

// Keep renews a lease three times in duration until stop is called. The returned context ends with the cause ErrLost
// when renew reports that the lease is lost.
func Keep(ctx context.Context, duration time.Duration, renew func(context.Context) (held bool, err error)) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(duration / 3)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			// After an error the lease may still be held; the commit checks it in the end.
			if held, err := renew(ctx); err == nil && !held {
				cancel(ErrLost)
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-stopped
	}
}

// Afterwards returns a context for what is to be done after the job's deadline as well, such as a release.
func Afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
}

// GiveBack runs what ends a lease, after the job's deadline as well.
func GiveBack(ctx context.Context, end func(context.Context) error) error {
	ctx, cancel := Afterwards(ctx)
	defer cancel()
	if err := end(ctx); err != nil {
		return fmt.Errorf("give the lease back: %w", err)
	}
	return nil
}
