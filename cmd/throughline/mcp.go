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
func bridgeTools(line *commandLine) runner {
	server := remoteFlags(line)
	command := line.String("token-command", "", "a command that prints a fresh access token")
	return func(ctx context.Context, stdout, stderr io.Writer) error {
		if *server.token != "" && *command != "" {
			return line.wrong("--token and --token-command exclude each other")
		}
		address, err := server.load()
		if err != nil {
			return err
		}
		accessToken := func(ctx context.Context) (string, error) {
			if *command == "" {
				return server.accessToken()
			}
			return runTokenCommand(ctx, *command, stderr)
		}
		return mcptools.Bridge(ctx, mcptools.BridgeConfig{
			URL: address.JoinPath("mcp").String(), Token: accessToken, In: os.Stdin, Out: unclosed{stdout},
			Logger: newLogger(server.config, stderr), Version: app.Version,
		})
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
