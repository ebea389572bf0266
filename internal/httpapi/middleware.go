package httpapi

import (
	"cmp"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"golang.org/x/time/rate"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
)

// Keys of log lines.
const (
	keyBytes      = "bytes"
	keyClientID   = "client_id"
	keyDurationMS = "duration_ms"
	keyError      = "error"
	keyMethod     = "method"
	keyReason     = "reason"
	keyRequestID  = "request_id"
	keyRoute      = "route"
	keyStack      = "stack"
	keyStatus     = "status"
	keyUserID     = "user_id"
)

const principalKey = "principal"

const (
	maxRequestID = 128
	headerCell   = "X-Throughline-Cell"
)

// observe sets the request id, answers the handler's error, and records the request in log and metrics.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		header := c.Response().Header()
		header.Set(echo.HeaderXRequestID, chooseRequestID(c.Request().Header.Get(echo.HeaderXRequestID)))
		header.Set(echo.HeaderXContentTypeOptions, "nosniff")
		if s.config.Cell != "" {
			header.Set(headerCell, s.config.Cell)
		}
		c.Response().Writer = newPatientWriter(c.Response().Writer, s.config.WriteTimeout)
		defer func() { s.record(c, began) }() // also when a broken stream panics
		if err := next(c); err != nil {
			s.refuse(c, err)
		}
		return nil
	}
}

// chooseRequestID returns the client's id when it is safe in a log line, and a new one otherwise.
func chooseRequestID(given string) string {
	odd := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/+=", r))
	}
	if given == "" || len(given) > maxRequestID || strings.ContainsFunc(given, odd) {
		return uuid.NewString()
	}
	return given
}

func requestID(c echo.Context) string {
	return c.Response().Header().Get(echo.HeaderXRequestID)
}

func (s *Server) record(c echo.Context, began time.Time) {
	took, status := time.Since(began), c.Response().Status
	s.config.Metrics.Requests.WithLabelValues(method(c), routePattern(c), strconv.Itoa(status)).Inc()
	s.config.Metrics.RequestDuration.WithLabelValues(routePattern(c)).Observe(took.Seconds())
	attrs := []slog.Attr{
		slog.String(keyMethod, method(c)), slog.String(keyRoute, routePattern(c)), slog.Int(keyStatus, status),
		slog.Int64(keyDurationMS, took.Milliseconds()), slog.String(keyRequestID, requestID(c)),
		slog.Int64(keyBytes, c.Response().Size),
	}
	if user, ok := c.Get(principalKey).(auth.Principal); ok {
		attrs = append(attrs, slog.String(keyUserID, user.UserID.String()))
		if user.ClientID != "" {
			attrs = append(attrs, slog.String(keyClientID, user.ClientID))
		}
	}
	if reason, ok := c.Get(keyReason).(string); ok {
		attrs = append(attrs, slog.String(keyReason, reason))
	}
	s.config.Logger.LogAttrs(c.Request().Context(), slog.LevelInfo, "request", attrs...)
}

// routePattern is the path with the names of its parameters; the path itself would hold ids, and anybody can invent paths.
func routePattern(c echo.Context) string {
	if path := c.Path(); path != "" {
		return path
	}
	return "unmatched"
}

var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// method is the request's method, or "other": a client may send any word, and it is a label of metrics.
func method(c echo.Context) string {
	if slices.Contains(knownMethods, c.Request().Method) {
		return c.Request().Method
	}
	return "other"
}

// recoverPanic turns a panic into an error. When the answer has begun, it breaks the connection, so that the client does
// not take the answer for complete.
func (s *Server) recoverPanic(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler { //nolint:errorlint // net/http compares it like this, too
				panic(cause)
			}
			err = fault.Panicked(cause)
			s.config.Logger.LogAttrs(c.Request().Context(), slog.LevelError, "handler panicked",
				slog.String(keyRequestID, requestID(c)), slog.String(keyStack, string(debug.Stack())))
			if c.Response().Committed {
				s.writeError(err, c)
				panic(http.ErrAbortHandler)
			}
		}()
		return next(c)
	}
}

// authenticate sets the user, before any of the body is read.
func (s *Server) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		// Two headers joined are invalid, so that a client cannot choose which of them counts.
		header := strings.Join(c.Request().Header.Values(echo.HeaderAuthorization), ", ")
		user, err := s.config.Auth.Verify(c.Request().Context(), header)
		if err == nil && s.config.Isolated != nil {
			err = s.config.Isolated(c.Request().Context())
		}
		if err != nil {
			return err
		}
		c.Set(principalKey, user)
		if !s.acceptsClient(c.Path(), user) {
			return fault.New(fault.ForbiddenClient, "This token was given to an OAuth client, which may only use the tools at /mcp. The server's "+
				"OAUTH_API_CLIENTS lists those that may use the API.")
		}
		return s.unlessElsewhere(c, next(c))
	}
}

// unlessElsewhere returns the error of a request, or why the user is not served here. That counts before what is wrong with path, query and
// body, and is why nothing is found of a user who was moved meanwhile. A request without an error has named its user in a transaction,
// so it costs no look, nor does one that was refused for its haste or has its answer.
func (s *Server) unlessElsewhere(c echo.Context, err error) error {
	status := statusOf(fault.CodeOf(err))
	answered := status == http.StatusMisdirectedRequest || status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
	if err == nil || answered || c.Response().Committed {
		return err
	}
	return cmp.Or(s.admit(c), err)
}

// admit returns why the user is not served here. That Postgres does not answer is no such reason.
func (s *Server) admit(c echo.Context) error {
	if s.config.Admit == nil {
		return nil
	}
	err := s.config.Admit(c.Request().Context(), principal(c))
	switch fault.CodeOf(err) {
	case fault.Moving, fault.WrongCell, fault.UserNotFound:
		return err
	}
	return nil
}

func principal(c echo.Context) auth.Principal {
	user, _ := c.Get(principalKey).(auth.Principal)
	return user
}

func (s *Server) limitMessages(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if err := take(s.messages, c); err != nil {
			return err
		}
		return next(c)
	}
}

// limitQuestions is for what may cost a call of a model without being a message. A GET does where it has a text.
func (s *Server) limitQuestions(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Request().Method != http.MethodGet || c.QueryParam("q")+c.QueryParam("content") != "" {
			if err := take(s.questions, c); err != nil {
				return err
			}
		}
		return next(c)
	}
}

// limitWaiting counts a request that waits for a job as an open stream.
func (s *Server) limitWaiting(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		release, err := s.streams.acquire(principal(c).UserID, "requests that wait")
		if err != nil {
			return err
		}
		defer release()
		return next(c)
	}
}

func take(from *rateLimiter, c echo.Context) error {
	if wait := from.take(principal(c).UserID, time.Now()); wait > 0 {
		return &fault.Error{Code: fault.OverRequestRateLimit, Message: "Too many " + from.what + " at once.", RetryAfter: wait}
	}
	return nil
}

// rateLimiter has one token bucket per user. A bucket that has filled up again is the same as none, so it is deleted:
// there are only buckets of users seen in the last minute or two.
type rateLimiter struct {
	perMinute int
	what      string

	mu      sync.Mutex
	buckets map[uuid.UUID]*rate.Limiter
	swept   time.Time
}

func newRateLimiter(perMinute int, what string) *rateLimiter {
	return &rateLimiter{perMinute: perMinute, what: what, buckets: make(map[uuid.UUID]*rate.Limiter)}
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
// returns over_request_rate_limit, whose message names the kind.
func (l *streamLimiter) acquire(user uuid.UUID, what string) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most > 0 && l.open[user] >= l.most {
		return nil, fault.With(fault.OverRequestRateLimit, "Too many "+what+" are open at once.", map[string]any{l.detail: l.most})
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

// limitOrigin refuses pages that CORS_ORIGINS does not list, as the protocol of /mcp requires. It refuses above all a page
// whose own name was made to point to this server (DNS rebinding), which a browser takes for one of the same origin.
func (s *Server) limitOrigin(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if !s.acceptsOrigin(c.Request()) {
			return fault.New(fault.ForbiddenOrigin, "Pages of this origin may not use the tools. The server's CORS_ORIGINS lists those that may.")
		}
		return next(c)
	}
}

// acceptsOrigin decides by headers that a page cannot change. Programs that are no browsers send no Origin; behind a proxy the
// Host may be any.
func (s *Server) acceptsOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	page, err := url.Parse(origin)
	switch {
	case origin == "", slices.Contains(s.config.CORSOrigins, origin):
		return true
	case r.Header.Get("Sec-Fetch-Site") == "same-origin": // browsers say so only to https and localhost, whose names are true
		return true
	case err == nil && strings.EqualFold(page.Host, r.Host):
		return IsLocalName(r.Host)
	}
	return slices.Contains(s.config.CORSOrigins, "*")
}

// IsLocalName reports whether a Host header holds an IP address or localhost: names that cannot point to another machine.
func IsLocalName(host string) bool {
	name := host
	if withoutPort, _, err := net.SplitHostPort(host); err == nil {
		name = withoutPort
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	_, err := netip.ParseAddr(name)
	return err == nil || name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// preflightAge is how long a browser may cache a preflight answer. Browsers cap it themselves; Chromium at two hours.
const preflightAge = 2 * time.Hour

// allowDiscovery lets any page read what clients of the tools find each other by: it names no user.
func allowDiscovery() echo.MiddlewareFunc {
	return middleware.CORSWithConfig(middleware.CORSConfig{
		Skipper:      func(c echo.Context) bool { return !strings.HasPrefix(c.Request().URL.Path, pathMetadata) },
		AllowMethods: []string{http.MethodGet, http.MethodHead},
		AllowHeaders: []string{"Mcp-Protocol-Version"},
		MaxAge:       int(preflightAge.Seconds()),
	})
}

// allowOrigins lets pages of these origins use the API, but neither River UI nor the metrics. Pages set the token in a
// header themselves, so browsers need not send cookies.
func allowOrigins(origins []string) echo.MiddlewareFunc {
	return middleware.CORSWithConfig(middleware.CORSConfig{
		Skipper: func(c echo.Context) bool {
			path := c.Request().URL.Path
			return !strings.HasPrefix(path, "/v1/") && path != pathMCP
		},
		AllowOrigins: origins,
		AllowMethods: []string{
			http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodPatch, http.MethodPut, http.MethodOptions,
		},
		AllowHeaders: []string{
			echo.HeaderAuthorization, echo.HeaderContentType, echo.HeaderAccept, headerLastEventID, headerIdempotencyKey,
			echo.HeaderXRequestID, headerUIStream, "If-None-Match",
			echo.HeaderCacheControl, echo.HeaderXRequestedWith, // react-native-sse sends them
			"Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", // clients of pathMCP
		},
		ExposeHeaders: []string{
			echo.HeaderXRequestID,
			headerCell,
			echo.HeaderWWWAuthenticate,
			echo.HeaderRetryAfter,
			echo.HeaderContentDisposition,
			echo.HeaderLocation,
			"ETag",
			headerUIStream,
		},
		MaxAge: int(preflightAge.Seconds()),
	})
}
