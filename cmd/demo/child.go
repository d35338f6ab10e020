package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluiceproxy/sluice/internal/process"
)

// keptLines is how many of its last lines are shown of a child that died.
const keptLines = 20

// stopLimit is how long a child may take to end when asked to.
const stopLimit = 5 * time.Second

// child is a program that the demo runs.
type child struct {
	*process.Process

	name string
	read chan struct{} // closed when all of its output has been read

	mu   sync.Mutex
	last []string // its last lines
}

// launch starts a program. Its output is shown line by line, or only kept for
// the message about its death if to is nil.
func (d *demo) launch(to io.Writer, name string, args ...string) error {
	path, err := find(name)
	if err != nil {
		return err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = in, in
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the demo, which ends its children in order
	p, err := process.Start(cmd)
	if err != nil {
		out.Close()
		return err
	}
	c := &child{Process: p, name: name, read: make(chan struct{})}
	d.children = append(d.children, c)
	go c.show(out, to)
	go func() {
		<-p.Exited()
		d.died <- c
	}()
	return nil
}

// find returns the path of a program: what the environment variable of its name
// says, else the one that "make tools" installed, else the one on PATH.
func find(name string) (string, error) {
	if path := os.Getenv(strings.ToUpper(strings.ReplaceAll(name, "-", "_"))); path != "" {
		return path, nil
	}
	if path, err := exec.LookPath(filepath.Join(".tools", "bin", name)); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: run \"make tools\"", err)
	}
	return path, nil
}

// show keeps what the child prints, and shows it.
func (c *child) show(from io.ReadCloser, to io.Writer) {
	defer close(c.read)
	defer from.Close()
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimRight(line, "\n"); len(line) > 0 {
			c.keep(string(line))
			if to != nil {
				fmt.Fprintf(to, "%s\n", line)
			}
		}
		if err != nil {
			return
		}
	}
}

func (c *child) keep(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = append(c.last, line)
	if len(c.last) > keptLines {
		c.last = c.last[1:]
	}
}

// death says how the child ended, with the last it printed.
func (c *child) death() error {
	how := "it exited"
	if err := c.Err(); err != nil {
		how = err.Error()
	}
	<-c.read
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Errorf("%s has died (%s); its last lines:\n%s", c.name, how, strings.Join(c.last, "\n"))
}

// await returns once a server is ready, or with the reason why it will not be.
func (d *demo) await(ctx context.Context, ready func(context.Context) error) error {
	var running []*process.Process
	for _, c := range d.children {
		running = append(running, c.Process)
	}
	err := process.Await(ctx, startLimit, ready, running...)
	if errors.Is(err, process.ErrEnded) {
		return (<-d.died).death()
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
