// Package fault holds the one error type that crosses package borders: a code that programs
// decide by, a sentence for a person, and the cause for the log. It imports nothing of ours.
// The HTTP status of each code is a table in internal/httpapi, not here.
package fault

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Code names what went wrong, in the words of the HTTP contract.
type Code string

// The codes of the HTTP contract.
const (
	BadRequest           Code = "bad_request"
	BadUUID              Code = "bad_uuid"
	NoAuthorization      Code = "no_authorization"
	SessionExpired       Code = "session_expired"
	BadJWT               Code = "bad_jwt"
	NotFound             Code = "not_found"
	MethodNotAllowed     Code = "method_not_allowed"
	ChatNotFound         Code = "chat_not_found"
	MessageNotFound      Code = "message_not_found"
	ChatExpired          Code = "chat_expired"
	GenerationInProgress Code = "generation_in_progress"
	BodyTooLarge         Code = "body_too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	ValidationFailed     Code = "validation_failed"
	UnknownModelVariant  Code = "unknown_model_variant"
	IdempotencyMismatch  Code = "idempotency_mismatch"
	ImportInvalid        Code = "import_invalid"
	OverRequestRateLimit Code = "over_request_rate_limit"
	UpstreamFailed       Code = "upstream_failed"
	UpstreamTimeout      Code = "upstream_timeout"
	UpstreamOverloaded   Code = "upstream_overloaded"
	NotReady             Code = "not_ready"
	ShuttingDown         Code = "shutting_down"
	Interrupted          Code = "interrupted"
	Internal             Code = "internal"
)

// Error is a failure that somebody outside may be told about: Code and Message (one sentence for a
// person, never content or secrets) go out, Err stays in the log.
type Error struct {
	Code    Code
	Message string
	// Details are further facts for the caller, such as the names of wrong fields; nil for none.
	Details map[string]any
	// RetryAfter tells when trying again makes sense; 0 where that is unknown.
	RetryAfter time.Duration
	// Err is the cause, for errors.Is, errors.As and the log; nil for none.
	Err error
}

// New makes an error without a cause.
func New(code Code, message string) *Error {
	return &Error{Code: code, Message: message}
}

// Wrap makes an error that keeps its cause.
func Wrap(code Code, message string, err error) *Error {
	return &Error{Code: code, Message: message, Err: err}
}

// NoChat refuses what is asked of a chat that does not exist, or is somebody else's: existence is not told.
func NoChat() *Error {
	return New(ChatNotFound, "There is no such chat.")
}

// Expired refuses what is asked of a chat that has expired.
func Expired(chatID fmt.Stringer, at time.Time) *Error {
	return &Error{
		Code: ChatExpired, Message: `The chat has expired. It can be brought back with "revive": true.`,
		Details: map[string]any{"chat_id": chatID, "expired_at": at.UTC()},
	}
}

// Panicked makes an error of what recover gave. The runtime's own panics tell of types and numbers; what else
// somebody panics with may hold a person's words, and is named by its type alone.
func Panicked(cause any) error {
	if err, ok := cause.(runtime.Error); ok {
		return fmt.Errorf("panic: %w", err)
	}
	return fmt.Errorf("panic with a %T", cause)
}

// Error is the text for the log: code, message and cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf gives the code of the outermost Error in err's chain, Internal for any other error and ""
// for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if found, ok := errors.AsType[*Error](err); ok {
		return found.Code
	}
	return Internal
}

// Retryable tells whether the same request may succeed later without a change.
func Retryable(code Code) bool {
	switch code {
	case UpstreamFailed, UpstreamTimeout, UpstreamOverloaded, NotReady, ShuttingDown, Interrupted,
		OverRequestRateLimit, GenerationInProgress, Internal:
		return true
	}
	return false
}
