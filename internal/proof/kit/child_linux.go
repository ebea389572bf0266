package kit

import (
	"os/exec"
	"runtime"
	"syscall"
)

// endWithParent has the kernel kill the process when the thread that starts it ends, and locks the calling
// goroutine to that thread. The process gets a group of its own, so that a Ctrl-C in the terminal does not reach
// it.
func endWithParent(command *exec.Cmd) {
	runtime.LockOSThread()
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
