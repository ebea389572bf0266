package kit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// stopWithin bounds the end of a helper.
const stopWithin = 20 * time.Second

// Helper is a process beside the program under test: this command again in a role, such as a model, or a script.
// It prints its address, a URL, and ends when its stdin does. One goroutine uses it. Stop it.
type Helper struct {
	*Process
	Stdout *bufio.Reader
	stdin  io.WriteCloser
}

// StartRole starts this command again, with the arguments of a role, and waits for its address.
func StartRole(ctx context.Context, args ...string) (*Helper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h, err := StartHelper(exec.CommandContext(ctx, self, args...)) //nolint:gosec // this very program
	if err != nil {
		return nil, err
	}
	if err := h.AwaitAddress("http://"); err != nil {
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return h, nil
}

// StartHelper starts a command without waiting for its address.
func StartHelper(command *exec.Cmd) (*Helper, error) {
	command.Stderr, command.WaitDelay = os.Stderr, stopWithin
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h := &Helper{Process: &Process{command: command, ended: make(chan struct{})}, Stdout: bufio.NewReader(stdout), stdin: stdin}
	if err := h.run(func() {}); err != nil {
		return nil, err
	}
	return h, nil
}

// AwaitAddress reads lines until one is a URL with the scheme. A helper that ends before is an error.
func (h *Helper) AwaitAddress(scheme string) error {
	for {
		line, err := h.Stdout.ReadString('\n')
		if err != nil {
			return errors.Join(errors.New("it did not start"), h.Stop())
		}
		if line = strings.TrimSpace(line); strings.HasPrefix(line, scheme) {
			h.Address = line
			return nil
		}
	}
}

// Stop closes the helper's stdin and waits for its end; one that does not end is killed.
func (h *Helper) Stop() error {
	_ = h.stdin.Close() // it may have ended already
	return h.wait(stopWithin)
}
