// Package kit is what the commands that break, load and measure the system share: a durable Postgres, the built
// program as a process, users and their requests, and statistics. People who talk are in the package people.
package kit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a command until it ends, or is interrupted. An error ends the process with exit code 1.
func Main(name string, run func(ctx context.Context, args []string, out, progress io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// failure is an error that ends work.
type failure struct{ error }

// Check ends the work of this goroutine with an error, as t.Fatal ends a test: deferred calls are done, and Catch has it.
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

// Catch is to be deferred: it adds what ended the work to the error that a function returns.
func Catch(err *error) {
	switch caught := recover().(type) {
	case nil:
	case failure:
		*err = errors.Join(caught.error, *err)
	default:
		panic(caught)
	}
}

// In is to be deferred: it says of what ended the work where that was.
func In(format string, args ...any) {
	switch caught := recover().(type) {
	case nil:
	case failure:
		panic(failure{fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), caught.error)})
	default:
		panic(caught)
	}
}
