package kit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/localpg"
)

// startWithin bounds a start on a machine that is busy.
const startWithin = 4 * time.Minute

// Build compiles the program from the module in the folder source into a file. env is more of the compiler's environment.
func Build(ctx context.Context, source, into string, env ...string) error {
	build := exec.CommandContext(ctx, "go", "build", "-C", source, "-o", into, "./cmd/throughline") //nolint:gosec // the caller's own folders
	build.Env = append(build.Environ(), env...)
	return Run(build)
}

// Run runs a command to its end. What it printed is in the error.
func Run(command *exec.Cmd) error {
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, bytes.TrimSpace(output))
	}
	return nil
}

// Command describes a process.
type Command struct {
	Program string
	Args    []string          // such as serve, or work
	Env     map[string]string // the whole environment, but for PATH
	Log     io.Writer         // of the process; nil discards it
}

// Process is a running program. Kill or Terminate it; on Linux it does not outlive us.
type Process struct {
	Address string // where it listens, such as 127.0.0.1:4711; "" for a worker
	command *exec.Cmd
	ended   <-chan struct{}
}

// Start runs a command and returns when its log, in lines of JSON, reports that it listens or works.
func Start(ctx context.Context, c Command) (*Process, error) {
	command := exec.Command(c.Program, c.Args...) //nolint:gosec,noctx // the program under test, which ends when Kill or Terminate is called
	command.Dir = os.TempDir()
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "LOG_FORMAT=json"} //nolint:forbidigo // all else is given
	for name, value := range c.Env {
		command.Env = append(command.Env, name+"="+value)
	}
	log := &processLog{kept: c.Log, ready: make(chan string, 1)}
	command.Stderr = log
	p := &Process{command: command}
	var err error
	if p.ended, err = localpg.StartChild(command, syscall.SIGKILL); err != nil {
		return nil, err
	}
	select {
	case p.Address = <-log.ready:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("%v ended before it was ready: %s", c.Args, command.ProcessState)
	case <-time.After(startWithin):
		err = fmt.Errorf("%v was not ready within %s", c.Args, startWithin)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, p.Kill())
}

// processLog passes a log on line by line, and sends the address of the first line that reports that its process is ready.
type processLog struct {
	kept  io.Writer
	ready chan string
	once  sync.Once
	rest  []byte // of a line that has not ended
}

func (l *processLog) Write(piece []byte) (int, error) {
	l.rest = append(l.rest, piece...)
	for {
		end := bytes.IndexByte(l.rest, '\n') + 1
		if end == 0 {
			return len(piece), nil
		}
		line := l.rest[:end]
		l.rest = l.rest[end:]
		if l.kept != nil {
			_, _ = l.kept.Write(line) // a log that cannot be written ends no process
		}
		var entry struct{ Msg, Address string }
		if json.Unmarshal(line, &entry) == nil && (entry.Msg == "listening" || entry.Msg == "working") {
			l.once.Do(func() { l.ready <- entry.Address })
		}
	}
}

// PID returns the process's number.
func (p *Process) PID() int { return p.command.Process.Pid }

// Ended reports whether the process is gone.
func (p *Process) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Signal sends the process a signal.
func (p *Process) Signal(signal os.Signal) error { return p.command.Process.Signal(signal) }

// Kill ends the process at once, as a crash does, and waits until it is gone.
func (p *Process) Kill() error {
	err := p.command.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.ended
	return err
}

// Terminate sends a SIGTERM and waits for the end. Its error reports an exit code other than 0, and a process
// that had to be killed because it did not end in time.
func (p *Process) Terminate(within time.Duration) error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		if state := p.command.ProcessState; !state.Success() {
			return &exec.ExitError{ProcessState: state}
		}
		return nil
	case <-time.After(within):
		return errors.Join(fmt.Errorf("the process did not end within %s", within), p.Kill())
	}
}
