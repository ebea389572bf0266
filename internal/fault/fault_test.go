package fault

import (
	"errors"
	"fmt"
	"strings"
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

// The value of a panic may contain a user's text, which must not be logged.
func TestPanickedNamesOnlyTheType(t *testing.T) {
	t.Parallel()
	caught := func(work func()) (err error) {
		defer func() { err = Panicked(recover()) }()
		work()
		return nil
	}
	secret := "my words"
	for name, work := range map[string]func(){
		"text": func() { panic(secret) }, "error": func() { panic(errors.New(secret)) },
	} {
		if err := caught(work); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var none []int
	if err := caught(func() { _ = none[len(secret)] }); err == nil || !strings.Contains(err.Error(), "index out of range [8]") {
		t.Errorf("the runtime's own: %v", err)
	}
}
