package main

import (
	"os/exec"
	"syscall"
)

// detach keeps the terminal's Ctrl-C from the child, which the demo ends in its
// own order, and has the kernel kill it should the demo be killed.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
