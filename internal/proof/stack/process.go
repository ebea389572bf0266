package stack

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// startWithin bounds a start on a machine that is busy.
const startWithin = time.Minute

// Build compiles the program from the module in the folder source into a file, with more of go build's flags.
func Build(ctx context.Context, source, into string, flags ...string) error {
	args := append([]string{"build", "-C", source, "-o", into}, flags...)
	said, err := exec.CommandContext(ctx, "go", append(args, "./cmd/throughline")...).CombinedOutput() //nolint:gosec // the caller's own folders
	if err != nil {
		return fmt.Errorf("build %s: %w: %s", source, err, bytes.TrimSpace(said))
	}
	return nil
}

// Command is what runs as a process.
type Command struct {
	Program string
	Args    []string          // such as serve, or work
	Env     map[string]string // all of the environment there is, but for PATH
	Log     io.Writer         // what the process says; nil for nowhere
}

// Process is a running program. Kill or Terminate it; on Linux it does not outlive us.
type Process struct {
	// Address is where it listens, such as 127.0.0.1:4711; "" for one that only works.
	Address string
	command *exec.Cmd
	ended   chan struct{}
	stopped error // how it ended; read after ended
}

// Start runs a command and returns when it says in its log, in lines of JSON, that it listens or works.
func Start(ctx context.Context, c Command) (*Process, error) {
	command := exec.Command(c.Program, c.Args...) //nolint:gosec,noctx // the program that is put to the test, which ends when it is told to
	command.Dir = os.TempDir()
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "LOG_FORMAT=json"} //nolint:forbidigo // the one thing a process inherits
	for name, value := range c.Env {
		command.Env = append(command.Env, name+"="+value)
	}
	said, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	p := &Process{command: command, ended: make(chan struct{})}
	ready := make(chan string, 1)
	if err := p.run(said, c.Log, ready); err != nil {
		return nil, err
	}
	timer := time.NewTimer(startWithin)
	defer timer.Stop()
	select {
	case p.Address = <-ready:
		return p, nil
	case <-p.ended:
		return nil, fmt.Errorf("%v ended before it was ready: %w", c.Args, p.stopped)
	case <-timer.C:
		err = fmt.Errorf("%v was not ready within %s", c.Args, startWithin)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, p.Kill())
}

// run starts the process and follows it to its end.
func (p *Process) run(said io.Reader, log io.Writer, ready chan<- string) error {
	started := make(chan error)
	go func() {
		defer close(p.ended)
		endWithParent(p.command)
		err := p.command.Start()
		started <- err
		if err != nil {
			return
		}
		follow(said, log, ready)
		p.stopped = p.command.Wait()
	}()
	return <-started
}

// follow passes the log on, line by line, and tells of the first line that says the process is ready.
func follow(said io.Reader, log io.Writer, ready chan<- string) {
	if log == nil {
		log = io.Discard
	}
	const longestLine = 1 << 20
	lines := bufio.NewScanner(said)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		_, _ = log.Write(append(lines.Bytes(), '\n')) // a log that cannot be written ends no process
		var line struct{ Msg, Address string }
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Msg != "listening" && line.Msg != "working" {
			continue
		}
		select {
		case ready <- line.Address:
		default: // told already
		}
	}
	_, _ = io.Copy(io.Discard, said) // after a line too long to read: the process must not block
}

// PID is the process's number.
func (p *Process) PID() int { return p.command.Process.Pid }

// Ended is closed when the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Kill ends the process at once, as a crash does, and waits until it is gone.
func (p *Process) Kill() error {
	err := p.command.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.ended
	return err
}

// Terminate asks the process to end and waits for it. Its error tells of an exit code other than 0, and of a process
// that had to be killed.
func (p *Process) Terminate(within time.Duration) error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-p.ended:
		return p.stopped
	case <-timer.C:
		return errors.Join(fmt.Errorf("the process did not end within %s", within), p.Kill())
	}
}
