package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
)

// upstreamError returns the *fault.Error of a failed call. Its cause has the status and the API's own code, but
// not the API's message, which may quote the prompt.
func upstreamError(ctx context.Context, err error) error {
	if _, known := errors.AsType[*fault.Error](err); known { // the call was denied
		return err
	}
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errIdle):
		return fault.Wrap(fault.UpstreamTimeout, "The model was silent for too long.", errIdle)
	case errors.Is(cause, context.DeadlineExceeded):
		return fault.Wrap(fault.UpstreamTimeout, "The model took too long.", context.DeadlineExceeded)
	case cause != nil:
		return fault.Wrap(fault.UpstreamFailed, "The call of the model was ended.", cause)
	}
	refused, ok := errors.AsType[*refusal](err)
	if !ok {
		return fault.Wrap(fault.UpstreamFailed, "The model could not be reached.", clipped{err})
	}
	cause = errors.New(refused.Error()) // without the message
	if known := refused.known(); known != nil {
		return known.because(cause)
	}
	switch refused.status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		overloaded := fault.Wrap(fault.UpstreamOverloaded, "The model is overloaded. Try again in a moment.", cause)
		overloaded.RetryAfter = retryAfter(refused.header)
		return overloaded
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return fault.Wrap(fault.UpstreamTimeout, "The model took too long.", cause)
	}
	return fault.Wrap(fault.UpstreamFailed, "The model refused the call.", cause)
}

var plainWord = regexp.MustCompile(`^[a-z0-9_.-]{1,64}$`)

// word quotes a code of the provider's for the log. In what is no code a prompt may stand, and it may have megabytes: only
// its length is told.
func word(code string) string {
	if code == "" || plainWord.MatchString(code) {
		return strconv.Quote(code)
	}
	return fmt.Sprintf("of %d bytes", len(code))
}

// clipped is a cause with a text of a bounded length: headers and redirects of a provider can be in it.
type clipped struct{ cause error }

const maxCause = 300 // bytes

// Error returns the beginning of the cause's text.
func (c clipped) Error() string {
	text := c.cause.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxCause)], "")
}

// Unwrap returns the cause.
func (c clipped) Unwrap() error { return c.cause }

// longestRetryAfter is a day, in seconds: a server may write any number.
const longestRetryAfter = 86_400

// retryAfter returns the Retry-After header in its form of seconds; 0 if there is none.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, longestRetryAfter)) * time.Second
}

// reportedError returns the error for a failure that the model reported within its stream.
func reportedError(code string) error {
	cause := fmt.Errorf("code %s", word(code))
	if known := knownRefusal(0, code, ""); known != nil {
		return known.because(cause)
	}
	switch code {
	case "rate_limit_exceeded", "server_is_overloaded", "slow_down", "429", "503":
		return fault.Wrap(fault.UpstreamOverloaded, "The model is overloaded. Try again in a moment.", cause)
	}
	return fault.Wrap(fault.UpstreamFailed, "The model failed while it replied.", cause)
}

// permanentRefusal is one that lasts until the operator does something: the message is for the client, the remedy for
// the log.
type permanentRefusal struct{ message, remedy string }

var (
	quotaUsedUp  = &permanentRefusal{"The quota for the model is used up.", "the account's quota or credit is used up"}
	keyRefused   = &permanentRefusal{"The model refused this server's key.", "the key is refused, see OPENAI_API_KEY, or api_key_env in MODELS_FILE"}
	unknownModel = &permanentRefusal{"The model is not available.", "no such model, or not for this key, or not at this address: see MODEL_VARIANTS, " +
		"MODELS_FILE, MEMORY_SUMMARIZER_MODEL, EMBEDDING_MODEL, OPENAI_BASE_URL, EMBEDDING_BASE_URL"}
)

func (p *permanentRefusal) because(cause error) error {
	return fault.Wrap(fault.UpstreamFailed, p.message, fmt.Errorf("%s: %w", p.remedy, cause))
}

// knownRefusal returns nil for a refusal that is none of these. OpenAI sends a used up quota with the status of a rate
// limit; others have 402 for it.
func knownRefusal(status int, code, kind string) *permanentRefusal {
	switch {
	case isQuota(code), isQuota(kind), status == http.StatusPaymentRequired:
		return quotaUsedUp
	case code == "invalid_api_key", status == http.StatusUnauthorized:
		return keyRefused
	case code == "model_not_found", status == http.StatusNotFound:
		return unknownModel
	}
	return nil
}

func isQuota(word string) bool {
	return word == "insufficient_quota" || word == "billing_hard_limit_reached" || word == "billing_not_active"
}

// isPromptGone reports whether the API refused the hosted prompt itself: a 4xx whose error names the prompt. It
// does not count refused content ("invalid_prompt"), keys or rate limits.
func isPromptGone(err error) bool {
	refused, ok := errors.AsType[*refusal](err)
	if !ok || refused.code == "invalid_prompt" {
		return false
	}
	switch refused.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusGone, http.StatusUnprocessableEntity, http.StatusForbidden:
		return strings.HasPrefix(refused.param, "prompt") && refused.param != "prompt_cache_key" ||
			strings.Contains(refused.code, "prompt") ||
			refused.param == "" && strings.Contains(strings.ToLower(refused.message), "prompt")
	}
	return false
}
