package httpapi

import (
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"github.com/arcoscribe/throughline/internal/fault"
)

// rateLimiter has one token bucket per user. A bucket that has filled up again is the same as none, so it is deleted:
// there are only buckets of users seen in the last minute or two.
type rateLimiter struct {
	perMinute int

	mu      sync.Mutex
	buckets map[uuid.UUID]*rate.Limiter
	swept   time.Time
}

func newRateLimiter(perMinute int) *rateLimiter {
	return &rateLimiter{perMinute: perMinute, buckets: make(map[uuid.UUID]*rate.Limiter)}
}

// take takes one token, or returns how long there will be none.
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

// sweep deletes full buckets, at most once a minute: no bucket takes longer to fill.
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

// streamLimiter counts what each user has open. 0 means no limit.
type streamLimiter struct {
	most   int
	detail string // the name of most in an error's details

	mu   sync.Mutex
	open map[uuid.UUID]int
}

func newStreamLimiter(most int, detail string) *streamLimiter {
	return &streamLimiter{most: most, detail: detail, open: make(map[uuid.UUID]int)}
}

// acquire takes a slot, which the caller releases; only the first call of release counts. When the user has none left, it
// returns over_request_rate_limit, whose message says what there are too many of.
func (l *streamLimiter) acquire(user uuid.UUID, what string) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most > 0 && l.open[user] >= l.most {
		return nil, &fault.Error{
			Code: fault.OverRequestRateLimit, Message: "Too many " + what + " are open at once.", Details: map[string]any{l.detail: l.most},
		}
	}
	l.open[user]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open[user]--
		if l.open[user] <= 0 {
			delete(l.open, user)
		}
	}), nil
}
