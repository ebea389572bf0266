package fault

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
		assert.Equalf(t, c.want, CodeOf(c.err), "CodeOf(%v)", c.err)
	}
	assert.ErrorIs(t, wrapped, cause, "the cause is lost")
	if want := "upstream_failed: The model failed.: connection reset"; errors.Unwrap(wrapped).Error() != want {
		t.Errorf("text %q, want %q", errors.Unwrap(wrapped), want)
	}
}

func TestRetryable(t *testing.T) {
	t.Parallel()
	for code, want := range map[Code]bool{UpstreamFailed: true, Interrupted: true, ValidationFailed: false, ChatNotFound: false, BadJWT: false} {
		assert.Truef(t, Retryable(code) == want, "Retryable(%s) = %v, want %v", code, !want, want)
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
		err := caught(work)
		assert.Truef(t, err != nil && !strings.Contains(err.Error(), secret), "%s: %v", name, err)
	}
	var none []int
	err := caught(func() { _ = none[len(secret)] })
	assert.Truef(t, err != nil && strings.Contains(err.Error(), "index out of range [8]"), "the runtime's own: %v", err)
}
