//go:build !linux

package kit

import (
	"os/exec"
	"syscall"
)

// endWithParent gives the process a group of its own. Here a process may outlive a killed parent.
func endWithParent(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
