//go:build !linux

package stack

import (
	"os/exec"
	"syscall"
)

// endWithParent cannot keep its word here: a process that outlives a killed parent has to be ended by hand.
func endWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
