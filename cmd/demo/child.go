package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/sluiceproxy/sluice/internal/process"
)

// stopLimit is how long a child may take to end when asked to.
const stopLimit = 5 * time.Second

// launch starts a program, whose output goes to a writer.
func (d *demo) launch(to io.Writer, name string, args ...string) error {
	path, err := process.Find(".", name)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the demo, which ends its children in order
	c, err := process.StartLogged(name, cmd, to)
	if err != nil {
		return err
	}
	d.children = append(d.children, c)
	go func() {
		<-c.Exited()
		d.died <- c
	}()
	return nil
}

// death says how a child ended, with the last it printed.
func death(c *process.Logged) error {
	how := "it exited"
	if err := c.Err(); err != nil {
		how = err.Error()
	}
	return fmt.Errorf("%s has died (%s); the last it printed:\n%s", c.Name, how, c.Last())
}

// await returns once a server is ready, or with the reason why it will not be.
func (d *demo) await(ctx context.Context, ready func(context.Context) error) error {
	var running []*process.Process
	for _, c := range d.children {
		running = append(running, c.Process)
	}
	err := process.Await(ctx, startLimit, ready, running...)
	if errors.Is(err, process.ErrEnded) {
		return death(<-d.died)
	}
	return err
}

// stop ends the children, the last started first, and returns when all have
// gone.
func (d *demo) stop() {
	for _, c := range slices.Backward(d.children) {
		c.Stop(stopLimit)
	}
}
