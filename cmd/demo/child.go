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
	"strings"
	"sync"
	"syscall"
	"time"
)

// keptLines is how many of its last lines are shown of a child that died.
const keptLines = 20

// stopLimit is how long a child may take to end when asked to.
const stopLimit = 5 * time.Second

// child is a program that the demo runs.
type child struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{}
	err    error // how it ended

	mu   sync.Mutex
	last []string // its last lines
}

// launch starts a program. Its output is shown line by line, or only kept for
// the message about its death if out is nil.
func (d *demo) launch(out io.Writer, name string, args ...string) error {
	path, err := find(name)
	if err != nil {
		return err
	}
	c := &child{name: name, cmd: exec.Command(path, args...), exited: make(chan struct{})}
	reader, writer := io.Pipe()
	c.cmd.Stdout, c.cmd.Stderr = writer, writer
	detach(c.cmd)
	if err := c.cmd.Start(); err != nil {
		return err
	}
	d.children = append(d.children, c)
	allRead := make(chan struct{})
	go func() {
		defer close(allRead)
		c.read(reader, out)
	}()
	go func() {
		c.err = c.cmd.Wait()
		writer.Close()
		<-allRead
		close(c.exited)
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

// read keeps and shows what the child prints.
func (c *child) read(from io.Reader, out io.Writer) {
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimRight(line, "\n"); len(line) > 0 {
			c.keep(string(line))
			if out != nil {
				fmt.Fprintf(out, "%s\n", line)
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
	<-c.exited
	c.mu.Lock()
	defer c.mu.Unlock()
	how := "it exited"
	if c.err != nil {
		how = c.err.Error()
	}
	return fmt.Errorf("%s has died (%s); its last lines:\n%s", c.name, how, strings.Join(c.last, "\n"))
}

// await returns once ready reports nil, or with the reason why it will not.
func (d *demo) await(ctx context.Context, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case c := <-d.died:
			return c.death()
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf("not ready after %v: %w", startLimit, err)
		case <-tick.C:
		}
	}
}

// stop ends the children, the last started first, and returns when all have
// gone.
func (d *demo) stop() {
	for i := len(d.children) - 1; i >= 0; i-- {
		c := d.children[i]
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // the one error is that it has gone already
		select {
		case <-c.exited:
		case <-time.After(stopLimit):
			_ = c.cmd.Process.Kill()
			<-c.exited
		}
	}
}
