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

// upstream says in our codes why a call failed. The cause keeps the status and the API's own code,
// never its message, which may quote the prompt.
func upstream(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errIdle):
		return fault.Wrap(fault.UpstreamTimeout, "The model was silent for too long.", errIdle)
	case errors.Is(cause, context.DeadlineExceeded):
		return fault.Wrap(fault.UpstreamTimeout, "The model took too long.", context.DeadlineExceeded)
	case cause != nil:
		return fault.Wrap(fault.UpstreamFailed, "The call of the model was ended.", cause)
	}
	answer, ok := errors.AsType[*responses.Error](err)
	if !ok {
		return fault.Wrap(fault.UpstreamFailed, "The model could not be reached.", err)
	}
	refused := fmt.Errorf("status %d, code %q, type %q, param %q", answer.StatusCode, answer.Code, answer.Type, answer.Param)
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		overloaded := fault.Wrap(fault.UpstreamOverloaded, "The model is overloaded. Try again in a moment.", refused)
		overloaded.RetryAfter = retryAfter(answer.Response)
		return overloaded
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return fault.Wrap(fault.UpstreamTimeout, "The model took too long.", refused)
	}
	return fault.Wrap(fault.UpstreamFailed, "The model refused the call.", refused)
}

// retryAfter reads the header in its form of seconds; 0 for none.
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

// refusal is a failure that the model reported in its stream.
func refusal(code string) error {
	if code == "rate_limit_exceeded" {
		return fault.New(fault.UpstreamOverloaded, "The model is overloaded. Try again in a moment.")
	}
	return fault.Wrap(fault.UpstreamFailed, "The model failed while it replied.", fmt.Errorf("code %q", code))
}

// namesPrompt tells whether the API refused the hosted prompt itself: a 4xx whose error names it. A
// prompt whose content is refused ("invalid_prompt") is no such case, nor are keys and rate limits.
func namesPrompt(err error) bool {
	answer, ok := errors.AsType[*responses.Error](err)
	if !ok || answer.Code == "invalid_prompt" {
		return false
	}
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusGone, http.StatusUnprocessableEntity, http.StatusForbidden:
		return strings.HasPrefix(answer.Param, "prompt") && answer.Param != "prompt_cache_key" ||
			strings.Contains(answer.Code, "prompt") ||
			answer.Param == "" && strings.Contains(strings.ToLower(answer.Message), "prompt")
	}
	return false
}
