package localpg

import (
	"runtime"
	"syscall"
)

// detach keeps the terminal's Ctrl-C from the server, so that it ends after us and by our word, and
// has the kernel shut it down if we are killed and cannot.
func detach(attr *syscall.SysProcAttr) {
	attr.Setpgid = true
	attr.Pdeathsig = syscall.SIGINT
}

// stayOnThread binds the goroutine to its thread until it ends.
func stayOnThread() { runtime.LockOSThread() }
