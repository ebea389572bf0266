package kit

import (
	"errors"
	"fmt"
)

// failure is an error that ends work.
type failure struct{ error }

// Check ends the work of this goroutine with an error, as t.Fatal ends a test: what is deferred is done, and Catch has it.
// Only within commands: what other packages call returns its errors.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Fail is Check with an error of its own.
func Fail(format string, args ...any) { Check(fmt.Errorf(format, args...)) }

// Must returns a value, or ends the work with an error.
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

// Catch, deferred, adds what ended the work to the error that a function returns.
func Catch(err *error) {
	switch caught := recover().(type) {
	case nil:
	case failure:
		*err = errors.Join(caught.error, *err)
	default:
		panic(caught)
	}
}

// In, deferred, says of what ended the work where that was.
func In(format string, args ...any) {
	switch caught := recover().(type) {
	case nil:
	case failure:
		panic(failure{fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), caught.error)})
	default:
		panic(caught)
	}
}
