package testenv

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the program should the test process end
// without its cleanups, as it does when "go test" runs into its time limit.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
