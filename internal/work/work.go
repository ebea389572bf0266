// Package work is the one life of background work that asks a model: it takes a lease in a short transaction, reads and
// plans, asks while the lease is renewed and no transaction is open, and writes the result in one transaction that
// compares its reads with the rows. A failure is put off: the item first, and its owner only if more of it
// fails. At most so many items of a user are worked on at once, and a user's next one is woken when a place is free.
package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// Kind is a kind of work, as throughline.work names it.
type Kind string

// The kinds.
const (
	Fold    Kind = "fold"
	Extract Kind = "extract"
	Compact Kind = "compact"
	Graph   Kind = "graph"
)

// Lease is an exclusive right to one item. It ends Duration after it was taken or renewed.
type Lease struct {
	Kind Kind
	// Key is the item: a chat, a topic or a user, by the kind. Its owner is that of the chat, or the user.
	Key, ChatID, UserID uuid.UUID
	Token               uuid.UUID
	Duration            time.Duration
	// PerUser is with how many leases of the kind on a user's other items this one can no longer be taken; 0 for any number.
	PerUser int
	// JobID is the job that is woken when it has waited for a place; 0 for none.
	JobID int64
}

// Claim is the outcome of a claim.
type Claim string

// The outcomes of a claim.
const (
	// Taken: the caller has the lease.
	Taken Claim = "taken"
	// Occupied: another worker has it.
	Occupied Claim = "busy"
	// Waits: the user's other items are as many as may be.
	Waits Claim = "waits"
	// PutOff: it failed, or others of its user did, and it is too early to try again.
	PutOff Claim = "put_off"
	// Gone: there is no such user, or another job waits to do the same.
	Gone Claim = "gone"
)

// Delay is how long an item that was given up is not tried again: one after the other of Soon, and then First, which doubles
// each time and is at most Longest.
type Delay struct {
	Soon           []time.Duration
	First, Longest time.Duration
}

// Store keeps leases and failures. Each method is one short transaction of the server itself.
type Store interface {
	// Claim takes a lease. It may be repeated with the same one. wait is for how long the item is put off.
	Claim(ctx context.Context, lease Lease) (claim Claim, wait time.Duration, err error)
	// Renew extends the lease. It returns false when another worker has taken it over.
	Renew(ctx context.Context, lease Lease) (bool, error)
	// Release ends the lease, and lets the user's next item begin. done forgets the item's failures.
	Release(ctx context.Context, lease Lease, done bool) error
	// PutOff ends the lease of an item that was given up, and returns how often that was and for how long it is not tried
	// again; 0 times when the lease was lost.
	PutOff(ctx context.Context, lease Lease, failure string, delay Delay) (times int, wait time.Duration, err error)
	// Wait ends the lease of an item that may not be tried before a time, which is no failure.
	Wait(ctx context.Context, lease Lease, until time.Time) error
}

// Result is the outcome of a job, as logs and metrics name it.
type Result string

// The results.
const (
	// Done: the change was written.
	Done Result = "done"
	// Nothing: there was nothing to do, or it is put off, or what it is about was deleted.
	Nothing Result = "nothing"
	// Busy: another worker has the lease; try again later.
	Busy Result = "elsewhere"
	// Waiting: the user's others are as many as may run. The job is woken when a place is free.
	Waiting Result = "waiting"
	// Paused: the change has had its turn, or its worker is stopped. Its progress is stored; go on when the waiting ones
	// have had their turns.
	Paused Result = "paused"
	// Conflict: what the change was planned from was changed meanwhile; plan again.
	Conflict Result = "lost"
	// Refused: the model's answer was refused for good. The item is put off.
	Refused Result = "refused"
	// Failed: the model or Postgres failed. The job's next attempt tries again; after the last one the item is put off.
	Failed Result = "failed"
)

var (
	// ErrLost reports that another worker has the lease, or that the rows read have changed.
	ErrLost = errors.New("another worker took the change over, or what it is about was changed")
	// ErrPaused reports that the change has had its turn.
	ErrPaused = errors.New("the change has had its turn")
)

// Task is one piece of work. The methods are called in their order, each once.
type Task interface {
	// Plan reads what there is, and reports whether something is to be done.
	Plan(ctx context.Context) (needed bool, err error)
	// Do does it: it asks, and commits. ctx ends when the lease is lost. Without an error everything is written and the lease
	// has ended with it.
	Do(ctx context.Context) error
	// GiveUp puts the item off after Do has failed for the last time, or with an answer that was refused. It says what became
	// of it, with the error that the job ends with.
	GiveUp(ctx context.Context, cause error) (Result, error)
}

// Run works on one item. last reports that no other attempt follows if this one fails. An error comes with Failed and with
// what GiveUp says.
func Run(ctx context.Context, store Store, lease Lease, last bool, task Task) (Result, error) {
	claim, _, err := store.Claim(ctx, lease)
	switch {
	case err != nil:
		return Failed, err
	case claim == Gone, claim == PutOff:
		return Nothing, nil
	case claim == Waits:
		return Waiting, nil
	case claim != Taken:
		return Busy, nil
	}
	needed, err := task.Plan(ctx)
	switch {
	case err != nil:
		return Failed, errors.Join(err, release(ctx, store, lease))
	case !needed:
		return Nothing, release(ctx, store, lease)
	}
	err = keep(ctx, store, lease, task.Do)
	if denied, ok := errors.AsType[*DeniedError](err); ok {
		return Nothing, store.Wait(ctx, lease, denied.Until)
	}
	result := resultOf(ctx, err)
	switch {
	case result == Done:
		return Done, nil
	case result == Refused, result == Failed && last:
		ctx, cancel := Afterwards(ctx)
		defer cancel()
		if result, err = task.GiveUp(ctx, err); result != Failed && result != Conflict {
			return result, err
		}
	case result != Failed:
		err = nil
	}
	return result, errors.Join(err, release(ctx, store, lease))
}

// RefusedError is an answer that the model will give again: there is no use in another attempt soon.
type RefusedError interface {
	error
	Refused()
}

// resultOf returns the result of a try.
func resultOf(ctx context.Context, err error) Result {
	_, refused := errors.AsType[RefusedError](err)
	switch {
	case err == nil:
		return Done
	case errors.Is(err, ErrLost):
		return Conflict
	case errors.Is(err, ErrPaused), errors.Is(ctx.Err(), context.Canceled): // a worker that is stopped is no failure of its work
		return Paused
	case refused:
		return Refused
	}
	return Failed
}

// keep runs do while it renews the lease, three times in its duration.
func keep(ctx context.Context, store Store, lease Lease, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(cmp.Or(lease.Duration/3, time.Nanosecond))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			// After an error the lease may still be held; the commit checks it in the end.
			if held, err := store.Renew(ctx, lease); err == nil && !held {
				cancel(ErrLost)
				return
			}
		}
	}()
	err := do(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrLost) {
		err = cause
	}
	cancel(nil)
	<-stopped
	return err
}

// Afterwards returns a context for work that runs after the job's deadline as well, such as a release.
func Afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
}

// release ends the lease, so that the next try need not wait for its end.
func release(ctx context.Context, store Store, lease Lease) error {
	ctx, cancel := Afterwards(ctx)
	defer cancel()
	if err := store.Release(ctx, lease, false); err != nil {
		return fmt.Errorf("give the lease back: %w", err)
	}
	return nil
}

// LogEnd writes the log line of work that has ended: a warning with the error, if there is one.
func LogEnd(ctx context.Context, logger *slog.Logger, message string, err error, attrs ...slog.Attr) {
	level := slog.LevelInfo
	if err != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.Any("error", err))
	}
	logger.LogAttrs(ctx, level, message, attrs...)
}
