package httpapi

import (
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/arcoscribe/throughline/internal/fault"
)

// rateLimiter is one token bucket per user. A bucket that has filled up again is the same as none,
// so those are forgotten: the memory is that of the users seen in the last minute or two.
type rateLimiter struct {
	perMinute int

	mu      sync.Mutex
	buckets map[uuid.UUID]*rate.Limiter
	swept   time.Time
}

func newRateLimiter(perMinute int) *rateLimiter {
	return &rateLimiter{perMinute: perMinute, buckets: make(map[uuid.UUID]*rate.Limiter)}
}

// take takes one token, or tells how long there will be none.
func (l *rateLimiter) take(user uuid.UUID, now time.Time) (wait time.Duration) {
	if l.perMinute <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	bucket := l.buckets[user]
	if bucket == nil {
		bucket = rate.NewLimiter(rate.Every(time.Minute/time.Duration(l.perMinute)), l.perMinute)
		l.buckets[user] = bucket
	}
	reservation := bucket.ReserveN(now, 1)
	wait = reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// sweep forgets full buckets, at most once a minute: no bucket takes longer to fill.
func (l *rateLimiter) sweep(now time.Time) {
	if now.Sub(l.swept) < time.Minute {
		return
	}
	l.swept = now
	for user, bucket := range l.buckets {
		if bucket.TokensAt(now) >= float64(l.perMinute) {
			delete(l.buckets, user)
		}
	}
}

// streamLimiter counts what each user has open.
type streamLimiter struct {
	most int

	mu   sync.Mutex
	open map[uuid.UUID]int
}

func newStreamLimiter(most int) *streamLimiter {
	return &streamLimiter{most: most, open: make(map[uuid.UUID]int)}
}

// acquire takes a place. The caller leaves it, unless somebody else took it over.
func (l *streamLimiter) acquire(user uuid.UUID) (*place, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most > 0 && l.open[user] >= l.most {
		return nil, &fault.Error{Code: fault.OverRequestRateLimit, Message: "Too many replies are open at once.",
			Details: map[string]any{"max_streams": l.most}}
	}
	l.open[user]++
	return &place{limiter: l, user: user}, nil
}

func (l *streamLimiter) release(user uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[user]--
	if l.open[user] <= 0 {
		delete(l.open, user)
	}
}

// place is one of a user's places. It is used by one goroutine.
type place struct {
	limiter *streamLimiter
	user    uuid.UUID
	left    bool
}

// leave gives the place back. Only the first call counts.
func (p *place) leave() {
	if !p.left {
		p.left = true
		p.limiter.release(p.user)
	}
}

// takeOver makes a place that is left in place of this one.
func (p *place) takeOver() *place {
	p.left = true
	return &place{limiter: p.limiter, user: p.user}
}
