package testkit

import "syscall"

// endWithParent has the kernel end a process with the thread that started it.
func endWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGTERM }
