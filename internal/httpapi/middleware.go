package httpapi

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
)

// Keys of log lines.
const (
	keyBytes      = "bytes"
	keyDurationMS = "duration_ms"
	keyError      = "error"
	keyMethod     = "method"
	keyRequestID  = "request_id"
	keyRoute      = "route"
	keyStack      = "stack"
	keyStatus     = "status"
	keyUserID     = "user_id"
)

// principalKey is where a request keeps who it acts for.
const principalKey = "principal"

const maxRequestID = 128

// observe names the request, answers its error, and accounts for it.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		began := time.Now()
		header := c.Response().Header()
		header.Set(echo.HeaderXRequestID, chooseRequestID(c.Request().Header.Get(echo.HeaderXRequestID)))
		header.Set(echo.HeaderXContentTypeOptions, "nosniff")
		c.Response().Writer = newPatientWriter(c.Response().Writer, s.config.WriteTimeout)
		defer func() { s.account(c, began) }() // also when a broken stream leaves by a panic
		if err := next(c); err != nil {
			s.refuse(c, err)
		}
		return nil
	}
}

// chooseRequestID keeps the caller's id when it can stand in a log line as it is.
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

// account is the access log and the metrics of a request.
func (s *Server) account(c echo.Context, began time.Time) {
	took, status := time.Since(began), c.Response().Status
	s.config.Metrics.Requests.WithLabelValues(method(c), route(c), strconv.Itoa(status)).Inc()
	s.config.Metrics.RequestDuration.WithLabelValues(route(c)).Observe(took.Seconds())
	attrs := []slog.Attr{
		slog.String(keyMethod, method(c)), slog.String(keyRoute, route(c)), slog.Int(keyStatus, status),
		slog.Int64(keyDurationMS, took.Milliseconds()), slog.String(keyRequestID, requestID(c)),
		slog.Int64(keyBytes, c.Response().Size),
	}
	if user, ok := c.Get(principalKey).(auth.Principal); ok {
		attrs = append(attrs, slog.String(keyUserID, user.UserID.String()))
	}
	s.config.Logger.LogAttrs(c.Request().Context(), slog.LevelInfo, "request", attrs...)
}

// route is the pattern, never the path: a path would hold ids, and anybody can invent paths.
func route(c echo.Context) string {
	if path := c.Path(); path != "" {
		return path
	}
	return "unmatched"
}

var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

// method keeps the metrics' label to a known set, since a client may send any word.
func method(c echo.Context) string {
	if slices.Contains(knownMethods, c.Request().Method) {
		return c.Request().Method
	}
	return "other"
}

// recoverPanic makes an error of a panic. A stream that has begun cannot be answered any more, so its
// connection is cut: its client must not take it for complete.
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

// authenticate finds out who the request acts for, before anything of its body is read.
func (s *Server) authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		// Two headers make no valid one, so that nobody can choose which of them is looked at.
		header := strings.Join(c.Request().Header.Values(echo.HeaderAuthorization), ", ")
		user, err := s.config.Auth.Verify(c.Request().Context(), header)
		if err != nil {
			return err
		}
		c.Set(principalKey, user)
		return next(c)
	}
}

func principal(c echo.Context) auth.Principal {
	user, _ := c.Get(principalKey).(auth.Principal)
	return user
}

// limitMessages holds back a user who sends faster than the configured rate.
func (s *Server) limitMessages(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if wait := s.messages.take(principal(c).UserID, time.Now()); wait > 0 {
			return &fault.Error{Code: fault.OverRequestRateLimit, Message: "Too many messages at once.", RetryAfter: wait}
		}
		return next(c)
	}
}
