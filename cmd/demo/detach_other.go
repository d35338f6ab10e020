//go:build !linux

package main

import (
	"os/exec"
	"syscall"
)

// detach keeps the terminal's Ctrl-C from the child, which the demo ends in its
// own order.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}
