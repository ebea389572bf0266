// Package kit is what the commands that break, load and measure the system share: a durable Postgres, the built
// program and helper processes, users and their requests, a reader of the API's events, and statistics. People who
// talk are in the package people.
//
// The reader of events of bench's streams stays apart on purpose: it must not cost what it measures.
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
