package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/fault"
)

// statusClientGone is the status in the log and the metrics of a request whose client left before the answer. It is
// never received.
const statusClientGone = 499

// statuses is the contract's table of errors. A code that is missing here is a 500.
var statuses = statusOfEach(map[int][]fault.Code{
	http.StatusBadRequest:   {fault.BadRequest, fault.BadUUID},
	http.StatusUnauthorized: {fault.NoAuthorization, fault.SessionExpired, fault.BadJWT, fault.UserNotFound},
	http.StatusForbidden:    {fault.ForbiddenOrigin, fault.ForbiddenClient, fault.ForbiddenByPolicy},
	http.StatusNotFound: {
		fault.NotFound, fault.ChatNotFound, fault.MessageNotFound, fault.CallNotFound, fault.MemoryNotFound, fault.TopicNotFound,
	},
	http.StatusMethodNotAllowed: {fault.MethodNotAllowed},
	http.StatusConflict: {
		fault.GenerationInProgress, fault.MessageSuperseded, fault.ConversationChanged, fault.CallSettled, fault.CallClaimed,
		fault.RecallOff, fault.MemoryOff, fault.MemoryExists, fault.MemoriesFull,
	},
	http.StatusGone:                  {fault.ChatExpired},
	http.StatusMisdirectedRequest:    {fault.WrongCell},
	http.StatusRequestEntityTooLarge: {fault.BodyTooLarge},
	http.StatusUnsupportedMediaType:  {fault.UnsupportedMediaType},
	http.StatusUnprocessableEntity: {
		fault.ValidationFailed, fault.UnknownModelVariant, fault.IdempotencyMismatch, fault.ImportInvalid,
	},
	http.StatusTooManyRequests:     {fault.OverRequestRateLimit, fault.QuotaExceeded},
	http.StatusInternalServerError: {fault.Internal},
	http.StatusNotImplemented:      {fault.AccountDeletionUnavailable},
	http.StatusBadGateway:          {fault.UpstreamFailed},
	http.StatusGatewayTimeout:      {fault.UpstreamTimeout},
	http.StatusServiceUnavailable: {
		fault.UpstreamOverloaded, fault.NotReady, fault.DatabaseUnreachable, fault.MigrationsPending,
		fault.RoleNotGranted, fault.IssuersDiffer, fault.SessionNotIsolated, fault.ShuttingDown, fault.Moving, fault.Interrupted,
	},
})

func statusOfEach(codes map[int][]fault.Code) map[fault.Code]int {
	of := map[fault.Code]int{}
	for status, some := range codes {
		for _, code := range some {
			of[code] = status
		}
	}
	return of
}

// defaultRetryAfter is sent with 429 and 503 when the error has no RetryAfter.
const defaultRetryAfter = 5 * time.Second

type errorBody struct {
	_       struct{}       `description:"What every failed request is answered with."`
	Code    string         `json:"code" description:"What went wrong, for programs."`
	Message string         `json:"message" description:"One sentence for a person."`
	Details map[string]any `json:"details,omitempty" nullable:"false" description:"Further facts, such as the names of wrong fields."`

	Status   string   `json:"status,omitempty" description:"Of /readyz: waiting or stopping."`
	WaitsFor []string `json:"waits_for,omitempty" nullable:"false" description:"Of /readyz: the parts that are missing."`
}

func newErrorBody(failure *fault.Error) errorBody {
	return errorBody{Code: string(failure.Code), Message: failure.Message, Details: failure.Details}
}

// writeError answers a request that failed. It is the only place that does.
func (s *Server) writeError(err error, c echo.Context) {
	failure := s.toFault(err)
	status := statusOf(failure.Code)
	if clientGone(c, err) {
		status = statusClientGone
	}
	s.logFailure(c, status, err)
	refused, _ := errors.AsType[*auth.RefusalError](err)
	if refused != nil {
		c.Set(keyReason, refused.Reason)
	}
	if c.Response().Committed {
		return
	}
	header := c.Response().Header()
	if status == http.StatusUnauthorized {
		header.Set(echo.HeaderWWWAuthenticate, s.challenge(c, failure, refused))
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		header.Set(echo.HeaderRetryAfter, retryAfter(failure.RetryAfter))
	}
	if err := writeJSON(c, status, newErrorBody(failure)); err != nil {
		s.config.Logger.LogAttrs(c.Request().Context(), slog.LevelDebug, "error not delivered", slog.Any(keyError, err))
	}
}

// challenge is the WWW-Authenticate header of a 401 (RFC 6750, 3). The description is the reason as far as the sender
// may know it, or else the message. At the tools it names the document that says where their clients get a token.
func (s *Server) challenge(c echo.Context, failure *fault.Error, refused *auth.RefusalError) string {
	var parameters []string
	if failure.Code != fault.NoAuthorization {
		description := failure.Message
		if refused != nil && refused.Description != "" {
			description = refused.Description
		}
		parameters = append(parameters, `error="invalid_token"`, `error_description="`+description+`"`)
	}
	if c.Path() == pathMCP && s.config.AuthServer != "" {
		parameters = append(parameters, `resource_metadata="`+s.publicURL(c.Request())+pathToolMetadata+`"`)
	}
	return strings.TrimSpace("Bearer " + strings.Join(parameters, ", "))
}

// toFault returns the error to show. Nothing is shown of an error that is no *fault.Error.
func (s *Server) toFault(err error) *fault.Error {
	if known, ok := errors.AsType[*fault.Error](err); ok && statusOf(known.Code) != http.StatusInternalServerError {
		return known
	}
	routing, ok := errors.AsType[*echo.HTTPError](err)
	switch {
	case ok && routing.Code == http.StatusNotFound:
		return fault.New(fault.NotFound, "There is nothing at this address.")
	case ok && routing.Code == http.StatusMethodNotAllowed:
		return fault.New(fault.MethodNotAllowed, "This address does not accept the method; the Allow header tells which it does.")
	}
	generic := fault.New(fault.Internal, "Something went wrong on our side. The request id names it in our log.")
	if known, ok := errors.AsType[*fault.Error](err); ok {
		generic.Details = known.Details
	}
	return generic
}

func statusOf(code fault.Code) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	return http.StatusInternalServerError
}

func isFault(err error) bool {
	_, ok := errors.AsType[*fault.Error](err)
	return ok
}

func clientGone(c echo.Context, err error) bool {
	return c.Request().Context().Err() != nil && errors.Is(err, context.Canceled)
}

// retryAfter is the header's value: whole seconds, at least one.
func retryAfter(wait time.Duration) string {
	if wait <= 0 {
		wait = defaultRetryAfter
	}
	return strconv.Itoa(max(1, int(math.Ceil(wait.Seconds()))))
}

// logFailure logs the cause of a 5xx status, and of a 403, because only the cause names the rule that the app's owner
// wrote. A refused request is in the access log already, and a failed reply, which comes here without a cause, in chat's
// own line.
func (s *Server) logFailure(c echo.Context, status int, err error) {
	if status < http.StatusInternalServerError && status != http.StatusForbidden {
		return
	}
	level := slog.LevelWarn
	if status == http.StatusInternalServerError {
		level = slog.LevelError
	} else if known, ok := errors.AsType[*fault.Error](err); ok && known.Err == nil {
		return
	}
	s.config.Logger.LogAttrs(c.Request().Context(), level, "request failed",
		slog.String(keyRequestID, requestID(c)), slog.String(keyRoute, routePattern(c)), slog.Any(keyError, err))
}
