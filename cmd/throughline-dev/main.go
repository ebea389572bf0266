// Command throughline-dev helps to develop: `make run` starts everything on this machine with it, `make demo` plays a
// conversation through the running server. It is not part of a release.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/config"
	"github.com/arcoscribe/throughline/internal/dev"
	"github.com/arcoscribe/throughline/internal/dev/demo"
)

const usage = `throughline-dev dev            run everything on this machine: Postgres, model, API, workers
throughline-dev cells          run two cells behind HAProxy
throughline-dev demo [flags]   play a long conversation through it
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program, as a test can call it. It returns the exit code: 1 for a failure, 2 for a wrong use.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := errUsage
	switch {
	case len(args) == 1 && args[0] == "dev":
		err = runDev(ctx, stdout, stderr, dev.Run)
	case len(args) == 1 && args[0] == "cells":
		err = runDev(ctx, stdout, stderr, dev.Cells)
	case len(args) > 0 && args[0] == "demo":
		err = playDemo(ctx, args[1:], stdout, stderr)
	}
	_, misconfigured := errors.AsType[*config.Error](err)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprint(stderr, usage)
		return 2
	}
	fmt.Fprintln(stderr, "throughline-dev:", err)
	if misconfigured {
		return 2
	}
	return 1
}

var errUsage = errors.New("wrong use")

// starter is what runs until ctx ends.
type starter func(ctx context.Context, cfg config.Config, root string, out io.Writer, logger *slog.Logger) error

// root is the folder of the project, in which this runs.
const root = "."

func runDev(ctx context.Context, stdout, stderr io.Writer, start starter) error {
	cfg, err := config.Load(true)
	if err != nil {
		return err
	}
	cfg, stop, err := dev.OfferTools(cfg, root, config.Environment)
	if err != nil {
		return err
	}
	defer stop()
	return start(ctx, cfg, root, stdout, cfg.NewLogger(stderr))
}

func playDemo(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("conversation", "", "a `file` of JSON lines to play instead of the built-in conversation")
	turns := flags.Int("turns", 0, "how many messages to play; 0 for all")
	if err := flags.Parse(args); err != nil {
		return errors.Join(errUsage, err)
	}
	cfg, err := config.Load(true)
	if err != nil {
		return err
	}
	c, err := localClient(cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	options := demo.Options{Client: c, Turns: *turns, Out: stdout}
	if *file != "" {
		conversation, err := os.Open(*file)
		if err != nil {
			return err
		}
		defer func() { _ = conversation.Close() }() // only read
		options.Conversation = conversation
	}
	return demo.Run(ctx, options)
}

// localClient returns a client of the server that runs on this machine.
func localClient(cfg config.Config) (*client.Client, error) {
	token := cfg.AccessToken
	if token == "" && cfg.SupabaseJWTSecret == "" {
		return nil, &config.Error{Problems: []string{"THROUGHLINE_TOKEN is required: an access token for the server"}}
	}
	if token == "" {
		var err error
		if token, err = cfg.LocalToken(); err != nil {
			return nil, err
		}
	}
	return client.New("http://"+cfg.HTTPAddr, token), nil
}
