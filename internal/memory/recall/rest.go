package recall

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
)

// Rest leaves an embedder alone while it fails, for all who ask it: thousands of jobs may wait for it. It is safe for
// concurrent use.
type Rest struct {
	first, longest time.Duration
	logger         *slog.Logger

	mu       sync.Mutex
	failures int
	resumes  time.Time // the embedder is left alone until then
}

// NewRest returns a Rest. The first one after a failure takes first, and each further one twice as long, up to longest. 0
// is 15 s and 10 min.
func NewRest(first, longest time.Duration, logger *slog.Logger) *Rest {
	return &Rest{first: cmp.Or(first, 15*time.Second), longest: cmp.Or(longest, 10*time.Minute), logger: logger}
}

// Left returns for how long the embedder is still left alone, and a little more, so that not all jobs come at once.
func (r *Rest) Left() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := time.Until(r.resumes)
	if wait <= 0 {
		return 0
	}
	return wait + rand.N(wait/4+1) //nolint:gosec // spreads load, guards nothing
}

// Worked says that the embedder answers.
func (r *Rest) Worked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = 0
}

// Failed leaves the embedder alone for a while if it was the embedder that failed. It returns err.
func (r *Rest) Failed(ctx context.Context, model string, err error) error {
	refused, ok := errors.AsType[*fault.Error](err)
	if !ok || !isUpstream(refused.Code) || ctx.Err() != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.resumes) {
		return err // a call that began before
	}
	wait := min(r.first<<min(r.failures, 16), r.longest)
	wait = max(wait, min(refused.RetryAfter, r.longest))
	r.failures++
	r.resumes = time.Now().Add(wait)
	r.logger.LogAttrs(ctx, slog.LevelWarn, "the embedding model fails, turns are found by their words alone meanwhile",
		slog.String("model", model), slog.String("left_alone", wait.String()), slog.Any("error", err))
	return err
}

func isUpstream(code fault.Code) bool {
	return code == fault.UpstreamFailed || code == fault.UpstreamTimeout || code == fault.UpstreamOverloaded
}
