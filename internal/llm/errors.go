package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/fault"
	"github.com/openai/openai-go/v3/responses"
)

// upstreamError returns the *fault.Error of a failed call. Its cause has the status and the API's own code, but
// not the API's message, which may quote the prompt.
func upstreamError(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errIdle):
		return fault.Wrap(fault.UpstreamTimeout, "The model was silent for too long.", errIdle)
	case errors.Is(cause, context.DeadlineExceeded):
		return fault.Wrap(fault.UpstreamTimeout, "The model took too long.", context.DeadlineExceeded)
	case cause != nil:
		return fault.Wrap(fault.UpstreamFailed, "The call of the model was ended.", cause)
	}
	refused, ok := errors.AsType[*responses.Error](err)
	if !ok {
		return fault.Wrap(fault.UpstreamFailed, "The model could not be reached.", err)
	}
	cause = fmt.Errorf("status %d, code %q, type %q, param %q", refused.StatusCode, refused.Code, refused.Type, refused.Param)
	switch refused.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		overloaded := fault.Wrap(fault.UpstreamOverloaded, "The model is overloaded. Try again in a moment.", cause)
		overloaded.RetryAfter = retryAfter(refused.Response)
		return overloaded
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return fault.Wrap(fault.UpstreamTimeout, "The model took too long.", cause)
	}
	return fault.Wrap(fault.UpstreamFailed, "The model refused the call.", cause)
}

// retryAfter returns the Retry-After header in its form of seconds; 0 if there is none.
func retryAfter(response *http.Response) time.Duration {
	if response == nil {
		return 0
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// reportedError returns the error for a failure that the model reported within its stream.
func reportedError(code string) error {
	if code == "rate_limit_exceeded" {
		return fault.New(fault.UpstreamOverloaded, "The model is overloaded. Try again in a moment.")
	}
	return fault.Wrap(fault.UpstreamFailed, "The model failed while it replied.", fmt.Errorf("code %q", code))
}

// isPromptGone reports whether the API refused the hosted prompt itself: a 4xx whose error names the prompt. It
// does not count refused content ("invalid_prompt"), keys or rate limits.
func isPromptGone(err error) bool {
	refused, ok := errors.AsType[*responses.Error](err)
	if !ok || refused.Code == "invalid_prompt" {
		return false
	}
	switch refused.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusGone, http.StatusUnprocessableEntity, http.StatusForbidden:
		return strings.HasPrefix(refused.Param, "prompt") && refused.Param != "prompt_cache_key" ||
			strings.Contains(refused.Code, "prompt") ||
			refused.Param == "" && strings.Contains(strings.ToLower(refused.Message), "prompt")
	}
	return false
}
