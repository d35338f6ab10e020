package process

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the program should this process end without
// doing so, as a test does when "go test" runs into its time limit.
func dieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
