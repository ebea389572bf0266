package localpg

import (
	"os/exec"
	"runtime"
	"syscall"
)

// StartChild starts a process out of reach of the terminal's Ctrl-C, so that it ends only when we end it. The channel is
// closed when the process is gone. On Linux the kernel sends it deathSignal if we are killed; elsewhere it then stays.
func StartChild(cmd *exec.Cmd, deathSignal syscall.Signal) (gone <-chan struct{}, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	setDeathSignal(cmd.SysProcAttr, deathSignal)
	ended, started := make(chan struct{}), make(chan error)
	go func() {
		defer close(ended)
		// The kernel sends the signal when the thread that started the child ends: it has to live as long as the child.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its reasons are in its log
		}
	}()
	return ended, <-started
}
