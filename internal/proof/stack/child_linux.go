package stack

import (
	"os/exec"
	"runtime"
	"syscall"
)

// endWithParent has the kernel kill the process when the thread that starts it ends, and keeps that thread for the
// goroutine that calls it. A Ctrl-C in the terminal is ours alone.
func endWithParent(command *exec.Cmd) {
	runtime.LockOSThread()
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
