package config

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// environment is the variables that a test sets. The machine's own are not seen.
type environment map[string]string

func (e environment) lookup(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}

// with returns a copy with one more variable.
func (e environment) with(name, value string) environment {
	more := maps.Clone(e)
	if more == nil {
		more = environment{}
	}
	more[name] = value
	return more
}

// parse returns the Config, and fails the test if there is none.
func parse(t *testing.T, e environment, dev bool) Config {
	t.Helper()
	c, err := Parse(e.lookup, dev)
	if err != nil {
		t.Fatalf("%v: %v", e, err)
	}
	return c
}

// problems returns why there is no Config, and fails the test if there is one.
func problems(t *testing.T, e environment) []string {
	t.Helper()
	_, err := Parse(e.lookup, false)
	wrong, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("%v: got %v, want an *Error", e, err)
	}
	if err.Error() != strings.Join(wrong.Problems, "; ") {
		t.Errorf("the error reads %q", err)
	}
	return wrong.Problems
}
