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
	"syscall"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
)

// stopWithin bounds the end of a helper.
const stopWithin = 20 * time.Second

// Helper is a process beside the program under test: this command again in a role, such as a model, or a script.
// It prints its address, a URL, and ends when its stdin does. One goroutine uses it. Stop it.
type Helper struct {
	*Process
	stdin io.WriteCloser
}

// StartRole starts this command again, with the arguments of a role.
func StartRole(ctx context.Context, args ...string) (*Helper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return StartHelper(exec.CommandContext(ctx, self, args...)) //nolint:gosec // this very program
}

// StartHelper starts a command and waits for its address. One that ends before is an error.
func StartHelper(command *exec.Cmd) (*Helper, error) {
	command.Stderr, command.WaitDelay = os.Stderr, stopWithin
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, printed := io.Pipe()
	command.Stdout = printed
	h := &Helper{Process: &Process{command: command}, stdin: stdin}
	if h.ended, err = localpg.StartChild(command, syscall.SIGKILL); err != nil {
		return nil, err
	}
	go func() {
		<-h.ended
		_ = printed.Close() // never fails
	}()
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if h.Address = strings.TrimSpace(lines.Text()); strings.HasPrefix(h.Address, "http://") {
			go func() { _, _ = io.Copy(io.Discard, output) }() // what else it prints, until it ends
			return h, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("%s did not start", command), h.Stop())
}

// Stop closes the helper's stdin and waits for its end; one that does not end is killed.
func (h *Helper) Stop() error {
	_ = h.stdin.Close() // it may have ended already
	return h.wait(stopWithin)
}
