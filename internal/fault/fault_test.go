package fault

import (
	"errors"
	"fmt"
	"testing"
)

func TestCodeOf(t *testing.T) {
	t.Parallel()
	cause := errors.New("connection reset")
	wrapped := fmt.Errorf("while streaming: %w", Wrap(UpstreamFailed, "The model failed.", cause))
	for _, c := range []struct {
		err  error
		want Code
	}{
		{nil, ""},
		{cause, Internal},
		{New(ChatNotFound, "No such chat."), ChatNotFound},
		{wrapped, UpstreamFailed},
	} {
		if got := CodeOf(c.err); got != c.want {
			t.Errorf("CodeOf(%v) = %q, want %q", c.err, got, c.want)
		}
	}
	if !errors.Is(wrapped, cause) {
		t.Error("the cause is lost")
	}
	if want := "upstream_failed: The model failed.: connection reset"; errors.Unwrap(wrapped).Error() != want {
		t.Errorf("text %q, want %q", errors.Unwrap(wrapped), want)
	}
}

func TestRetryable(t *testing.T) {
	t.Parallel()
	for code, want := range map[Code]bool{UpstreamFailed: true, Interrupted: true, ValidationFailed: false, ChatNotFound: false, BadJWT: false} {
		if Retryable(code) != want {
			t.Errorf("Retryable(%s) = %v, want %v", code, !want, want)
		}
	}
}
