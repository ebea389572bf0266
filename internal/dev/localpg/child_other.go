//go:build !linux

package localpg

import "syscall"

func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}
