//go:build !linux

package localpg

import "syscall"

// detach keeps the terminal's Ctrl-C from the server, so that it ends after us and by our word.
// Should we be killed, it stays, and the next start adopts it.
func detach(attr *syscall.SysProcAttr) { attr.Setpgid = true }

func stayOnThread() {}
