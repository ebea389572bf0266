package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/app"
	"github.com/arcoscribe/throughline/internal/mcptools"
)

// tokenCommandTimeout bounds a run of --token-command.
const tokenCommandTimeout = time.Minute

// bridgeTools offers the tools of a running server over stdin and stdout to the program that starts this one, such as an
// editor.
func bridgeTools(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := newFlags("mcp")
	server := remoteFlags(flags)
	command := flags.String("token-command", "", "a command that prints a fresh access token")
	if err := parse(flags, args); err != nil {
		return err
	}
	if *server.token != "" && *command != "" {
		return &usageError{"mcp: --token and --token-command exclude each other"}
	}
	if err := server.load(); err != nil {
		return err
	}
	address, err := server.address()
	if err != nil {
		return err
	}
	return mcptools.Bridge(ctx, mcptools.BridgeConfig{
		URL: address.JoinPath("mcp").String(), Token: tokenSource(server, *command, stderr), In: os.Stdin, Out: unclosed{stdout},
		Logger: newLogger(server.config, stderr), Version: app.Version,
	})
}

// tokenSource returns a function that returns an access token: the output of the command, or the server's own.
func tokenSource(server *remote, command string, stderr io.Writer) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if command == "" {
			return server.accessToken()
		}
		return runTokenCommand(ctx, command, stderr)
	}
}

// runTokenCommand returns what the command prints to stdout. Its stderr is passed on.
func runTokenCommand(ctx context.Context, command string, stderr io.Writer) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenCommandTimeout)
	defer cancel()
	var out bytes.Buffer
	run := exec.CommandContext(ctx, "sh", "-c", command) //nolint:gosec // it is the operator's own
	run.Stdout, run.Stderr = &out, stderr
	run.WaitDelay = time.Second // for a child that holds the pipe open
	if err := run.Run(); err != nil {
		return "", fmt.Errorf("--token-command: %w", err)
	}
	token := strings.TrimSpace(out.String())
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", errors.New("--token-command must print an access token and nothing else")
	}
	return token, nil
}

// unclosed keeps stdout open: the bridge must not close it.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
