// Package fault has the one error type that crosses package borders: a code for programs, a sentence for people
// and the cause for the log. It imports nothing of ours. The HTTP status of each code is in internal/httpapi.
package fault

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Code names what went wrong. The codes belong to the HTTP contract.
type Code string

// The codes of the HTTP contract.
const (
	BadRequest           Code = "bad_request"
	BadUUID              Code = "bad_uuid"
	NoAuthorization      Code = "no_authorization"
	SessionExpired       Code = "session_expired"
	BadJWT               Code = "bad_jwt"
	ForbiddenOrigin      Code = "forbidden_origin"
	ForbiddenClient      Code = "forbidden_client"
	UserNotFound         Code = "user_not_found"
	ForbiddenByPolicy    Code = "forbidden_by_policy"
	NotFound             Code = "not_found"
	MethodNotAllowed     Code = "method_not_allowed"
	ChatNotFound         Code = "chat_not_found"
	MessageNotFound      Code = "message_not_found"
	CallNotFound         Code = "call_not_found"
	MemoryNotFound       Code = "memory_not_found"
	TopicNotFound        Code = "topic_not_found"
	ChatExpired          Code = "chat_expired"
	RecallOff            Code = "recall_off"
	MemoryOff            Code = "memory_off"
	MemoryExists         Code = "memory_exists"
	MemoriesFull         Code = "memories_full"
	GenerationInProgress Code = "generation_in_progress"
	MessageSuperseded    Code = "message_superseded"
	ConversationChanged  Code = "conversation_changed"
	CallSettled          Code = "call_settled"
	CallClaimed          Code = "call_claimed"
	BodyTooLarge         Code = "body_too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	ValidationFailed     Code = "validation_failed"
	UnknownModelVariant  Code = "unknown_model_variant"
	IdempotencyMismatch  Code = "idempotency_mismatch"
	ImportInvalid        Code = "import_invalid"
	OverRequestRateLimit Code = "over_request_rate_limit"
	QuotaExceeded        Code = "quota_exceeded"
	UpstreamFailed       Code = "upstream_failed"
	UpstreamTimeout      Code = "upstream_timeout"
	UpstreamOverloaded   Code = "upstream_overloaded"
	NotReady             Code = "not_ready"
	DatabaseUnreachable  Code = "database_unreachable" // this and the next three: what /readyz names
	MigrationsPending    Code = "migrations_pending"
	RoleNotGranted       Code = "role_not_granted"
	IssuersDiffer        Code = "issuers_differ"
	SessionNotIsolated   Code = "session_not_isolated"
	ShuttingDown         Code = "shutting_down"
	Moving               Code = "moving"
	WrongCell            Code = "wrong_cell"
	Interrupted          Code = "interrupted"
	// AccountDeletionUnavailable: the server has no right to delete the login.
	AccountDeletionUnavailable Code = "account_deletion_unavailable"
	Internal                   Code = "internal"
)

// Error is a failure that a client may see: its Code and Message (one sentence, never content or secrets). Err is
// only logged.
type Error struct {
	Code    Code
	Message string
	// Details has further facts for the client, such as the names of wrong fields; nil for none.
	Details map[string]any
	// RetryAfter is how long the client should wait before it tries again; 0 if unknown.
	RetryAfter time.Duration
	// Err is the cause, for errors.Is, errors.As and the log; nil for none.
	Err error
}

// New returns an error without a cause.
func New(code Code, message string) *Error {
	return &Error{Code: code, Message: message}
}

// With returns an error with further facts for the client.
func With(code Code, message string, details map[string]any) *Error {
	return &Error{Code: code, Message: message, Details: details}
}

// Wrap returns an error with a cause.
func Wrap(code Code, message string, err error) *Error {
	return &Error{Code: code, Message: message, Err: err}
}

// NoChat returns the error for a chat that does not exist or belongs to another user, which look the same.
func NoChat() *Error {
	return New(ChatNotFound, "There is no such chat.")
}

// NoUser returns the error for a valid token of a user who does not exist, any more or at all.
func NoUser(err error) *Error {
	return Wrap(UserNotFound, "The account of this access token does not exist.", err)
}

// movingRetry is how long the last step of a move takes at most: most of it is waiting for replies.
const movingRetry = 2 * time.Second

// UserMoving returns the error for a user whose rows are being moved to another cell.
func UserMoving() *Error {
	return &Error{Code: Moving, Message: "Your chats are being moved. Try again in a moment.", RetryAfter: movingRetry}
}

// OtherCell returns the error for a user whose rows are in another cell, or would be; "" where the name is not known.
func OtherCell(cell string) *Error {
	wrong := New(WrongCell, "Your chats are kept by another server.")
	if cell != "" {
		wrong.Details = map[string]any{"cell": cell}
	}
	return wrong
}

// Forbidden returns the error for a write that the app's owner does not allow.
func Forbidden(err error) *Error {
	return Wrap(ForbiddenByPolicy, "The app's own rules do not allow this.", err)
}

// withoutReset is the wait that a client is told of a quota which nothing but another plan brings back.
const withoutReset = time.Hour

// Quota returns the error for a call that the app's quotas deny until a time; the zero time where nothing but another plan helps.
func Quota(reason string, resets time.Time) *Error {
	denied := &Error{
		Code: QuotaExceeded, Message: "The quota is used up.", RetryAfter: withoutReset, Details: map[string]any{"reason": reason, "resets_at": nil},
	}
	if !resets.IsZero() {
		denied.Message = "The quota is used up until " + resets.UTC().Format("2006-01-02 15:04") + " UTC."
		denied.Details["resets_at"], denied.RetryAfter = resets.UTC(), max(time.Second, time.Until(resets))
	}
	return denied
}

// Expired returns the error for a chat that expired at the given time.
func Expired(chatID fmt.Stringer, at time.Time) *Error {
	return With(ChatExpired, `The chat has expired. It can be brought back with "revive": true.`, map[string]any{"chat_id": chatID, "expired_at": at.UTC()})
}

// Superseded returns the error for a message that was to be replaced, and left the conversation before, by another message.
func Superseded(by fmt.Stringer) *Error {
	return With(MessageSuperseded, "The message is not in the conversation any more.", map[string]any{"superseded_by": by})
}

// Changed returns the error for a conversation that does not end with the message which the client shows, but with another one;
// the zero value for an empty conversation.
func Changed[ID interface {
	comparable
	fmt.Stringer
}](last ID) *Error {
	changed := With(ConversationChanged, "The conversation has changed meanwhile.", map[string]any{"last_message_id": nil})
	if last != *new(ID) {
		changed.Details["last_message_id"] = last
	}
	return changed
}

// NoCall returns the error for a call that a reply does not have.
func NoCall() *Error {
	return New(CallNotFound, "This reply has no such call.")
}

// Settled returns the error for a call that has another answer; the status says which.
func Settled(status string) *Error {
	return With(CallSettled, "The call has another answer.", map[string]any{"status": status})
}

// Claimed returns the error for a call that another device is answering.
func Claimed(until time.Time) *Error {
	return With(CallClaimed, "Another device is answering the call.", map[string]any{"claimed_until": until.UTC()})
}

// Panicked returns an error for the result of recover. The runtime's own panics contain types and numbers only.
// Any other value may contain a user's text, so only its type is named.
func Panicked(cause any) error {
	if err, ok := cause.(runtime.Error); ok {
		return fmt.Errorf("panic: %w", err)
	}
	return fmt.Errorf("panic with a %T", cause)
}

// Error returns the text for the log: code, message and cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the outermost Error in err's chain, Internal for any other error and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if found, ok := errors.AsType[*Error](err); ok {
		return found.Code
	}
	return Internal
}

// Retryable reports whether the same request may succeed later without a change.
func Retryable(code Code) bool {
	switch code {
	case UpstreamFailed, UpstreamTimeout, UpstreamOverloaded, NotReady, DatabaseUnreachable, MigrationsPending, RoleNotGranted, IssuersDiffer, SessionNotIsolated,
		ShuttingDown, Moving, Interrupted, OverRequestRateLimit, GenerationInProgress, Internal:
		return true
	}
	return false
}
