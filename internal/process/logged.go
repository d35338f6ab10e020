package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Find returns the path of a program such as "redis-server": the one that the environment
// variable of its name names (REDIS_SERVER), else the one that "make tools" has installed
// in the repository at root, else the one on PATH.
func Find(root, name string) (string, error) {
	variable := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	if path := os.Getenv(variable); path != "" {
		if _, err := exec.LookPath(path); err != nil {
			return "", fmt.Errorf("%s names no program: %w", variable, err)
		}
		return path, nil
	}
	if path, err := exec.LookPath(filepath.Join(root, ".tools", "bin", name)); err == nil {
		return filepath.Abs(path)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: run \"make tools\"", err)
	}
	return path, nil
}

// Logged is a program whose last output explains its end.
type Logged struct {
	*Process
	Name string

	mu   sync.Mutex
	to   io.Writer
	last []byte
}

// keptBytes is how much of the output is kept.
const keptBytes = 2000

// StartLogged runs a command, and copies its output to a writer.
func StartLogged(name string, cmd *exec.Cmd, to io.Writer) (l *Logged, err error) {
	l = &Logged{Name: name, to: to}
	cmd.Stdout, cmd.Stderr = l, l
	cmd.WaitDelay = time.Second // for the output, should a child of the program outlive it
	l.Process, err = Start(cmd)
	return l, err
}

// Write implements io.Writer, for the program.
func (l *Logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = append(l.last, b...)
	l.last = l.last[max(0, len(l.last)-keptBytes):]
	return l.to.Write(b)
}

// Last is the last that the program has printed.
func (l *Logged) Last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.last)
}
