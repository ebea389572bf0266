package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/arcoscribe/throughline/internal/memory/lease"
)

func TestKeepRenewsUntilItIsStopped(t *testing.T) {
	t.Parallel()
	renewed := make(chan bool, 100)
	ctx, stop := lease.Keep(t.Context(), 3*time.Millisecond, func(context.Context) (bool, error) {
		renewed <- true
		return false, errors.New("Postgres is away") // the lease may still be held
	})
	for range 3 {
		<-renewed
	}
	if ctx.Err() != nil {
		t.Errorf("the context ended: %v", context.Cause(ctx))
	}
	stop()
	for len(renewed) > 0 {
		<-renewed
	}
	if ctx.Err() == nil {
		t.Error("the context goes on after the end")
	}
}

func TestKeepEndsTheContextOfALostLease(t *testing.T) {
	t.Parallel()
	ctx, stop := lease.Keep(t.Context(), time.Millisecond, func(context.Context) (bool, error) { return false, nil })
	defer stop()
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, lease.ErrLost) {
		t.Errorf("the cause is %v", cause)
	}
}

func TestAfterwardsOutlivesTheJob(t *testing.T) {
	t.Parallel()
	job, end := context.WithCancel(t.Context())
	end()
	ctx, cancel := lease.Afterwards(job)
	defer cancel()
	if _, bounded := ctx.Deadline(); ctx.Err() != nil || !bounded {
		t.Errorf("%v, bounded %v", ctx.Err(), bounded)
	}
}
