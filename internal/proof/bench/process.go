package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a role at work. It is used by one goroutine. Stop it.
type process struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	address string
	// foreign tells that it is not ours: it ends with its stdin, too, but answers nothing about itself.
	foreign bool
	gone    bool
}

// startRole starts this program again in a role. It ends with us, because its stdin does.
func startRole(ctx context.Context, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := startProcess(exec.CommandContext(ctx, self, args...)) //nolint:gosec // this very program
	if err != nil {
		return nil, err
	}
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s did not start", args[0]), p.stop())
	}
	p.address = strings.TrimSpace(line)
	return p, nil
}

func startProcess(command *exec.Cmd) (*process, error) {
	command.Stderr = os.Stderr
	command.WaitDelay = stopWithin
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	return &process{command: command, stdin: stdin, stdout: bufio.NewReader(stdout)}, nil
}

// usage asks the process what it has used, or the system where the process is not ours.
func (p *process) usage() (usage, error) {
	if p.foreign {
		return usageOf(strconv.Itoa(p.command.Process.Pid))
	}
	return p.tell("usage")
}

// snapshot makes a process that was started with a folder for profiles leave some there.
func (p *process) snapshot(name string) error {
	_, err := p.tell(snapshot + " " + name)
	return err
}

func (p *process) tell(line string) (usage, error) {
	var now usage
	return now, p.ask(line, &now)
}

// ask writes a line to the process and reads the line of JSON that answers it.
func (p *process) ask(line string, answer any) error {
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		return err
	}
	answered, err := p.stdout.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(answered, answer)
}

// watch gives what the process uses within a time: its CPU time, and its memory at most.
func (p *process) watch(ctx context.Context, from, to time.Time) (usage, error) {
	const every = 200 * time.Millisecond
	if err := sleepUntil(ctx, from); err != nil {
		return usage{}, err
	}
	first, err := p.usage()
	now := first
	most := first.RSS
	for err == nil && time.Now().Before(to) {
		if err = sleepUntil(ctx, earlier(time.Now().Add(every), to)); err == nil {
			now, err = p.usage()
			most = max(most, now.RSS)
		}
	}
	return usage{CPU: now.CPU - first.CPU, RSS: most}, err
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func sleepUntil(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop ends the process and waits for it; one that does not end is killed.
func (p *process) stop() error {
	_ = p.stdin.Close() // it may be gone already
	return p.wait(2 * stopWithin)
}

// terminate sends the process a SIGTERM and waits until it is gone; one that does not end within the time is
// killed. Its error tells of an exit code other than 0.
func (p *process) terminate(within time.Duration) error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.wait(within)
}

func (p *process) wait(within time.Duration) error {
	if p.gone {
		return nil
	}
	p.gone = true
	kill := time.AfterFunc(within, func() { _ = p.command.Process.Kill() })
	defer kill.Stop()
	return p.command.Wait()
}
