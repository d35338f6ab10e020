package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// callgrind is the command that counts the instructions of the program that follows, of each thread
// by itself, outside the kernel, from when it is told to. Code that V8 makes is code like any other.
// https://valgrind.org/docs/manual/cl-manual.html
//
// The programs have a clock that is slower, as they are: timers, statistics and housekeeping then take
// about as small a part of a count as of life, and none that depends on how busy the machine is. Go's
// programs read the time without libc, so the service keeps the real clock.
func callgrind(dir, clock string) under {
	return under{[]string{
		"valgrind", "-q", "--tool=callgrind", "--separate-threads=yes", "--smc-check=all-non-file", "--instr-atstart=no",
		"--vgdb-prefix=" + vgdbPrefix(dir),
		"--callgrind-out-file=" + filepath.Join(dir, "callgrind.%p"), "--log-file=" + filepath.Join(dir, "valgrind.%p"),
	}, []string{"LD_PRELOAD=" + clock, "SLOWCLOCK=" + strconv.Itoa(slowness)}}
}

// slowness is how many times slower than the real one the clock is.
const slowness = 200

// buildClock compiles that clock.
func buildClock(ctx context.Context, root, dir string) (string, error) {
	library := filepath.Join(dir, "slowclock.so")
	source := filepath.Join(root, "bench/slowclock/slowclock.c")
	out, err := exec.CommandContext(ctx, "cc", "-O2", "-shared", "-fPIC", "-o", library, source).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compiling %s: %w (want a C compiler named cc)\n%s", source, err, out)
	}
	return library, nil
}

// vgdbPrefix is how the names of the files begin by which callgrind is told what to do.
func vgdbPrefix(dir string) string { return filepath.Join(dir, "vgdb") }

// tell has callgrind do something within a process: "instrumentation on", "zero", "dump".
func tell(ctx context.Context, dir string, p *subprocess, command ...string) error {
	args := append([]string{"--vgdb-prefix=" + vgdbPrefix(dir), "--pid=" + strconv.Itoa(p.PID())}, command...)
	vgdb := exec.CommandContext(ctx, "vgdb", args...)
	vgdb.Env = append(os.Environ(), vgdbNames(dir, p.PID())...)
	if out, err := vgdb.CombinedOutput(); err != nil {
		return p.explain(fmt.Errorf("vgdb %q: %w\n%s", args, err, out))
	}
	return nil
}

// vgdbNames are the variables by which vgdb finds a process: valgrind names its files after what they
// are in the process itself, and the service has a HOST of its own.
func vgdbNames(dir string, pid int) []string {
	prefix := fmt.Sprintf("%s-shared-mem-vgdb-%d-by-", vgdbPrefix(dir), pid)
	found, err := filepath.Glob(prefix + "*")
	if err != nil || len(found) != 1 {
		return nil // vgdb says what it looks for
	}
	user, host, _ := strings.Cut(strings.TrimPrefix(found[0], prefix), "-on-")
	return []string{"LOGNAME=" + user, "HOST=" + host}
}

// dumped are the instructions that the threads of a process have executed, by the last of its dumps.
func dumped(dir string, pid int) (threads []int64, err error) {
	prefix := filepath.Join(dir, "callgrind."+strconv.Itoa(pid)+".1")
	files, err := filepath.Glob(prefix + "-*")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		n, err := parseDump(file)
		if err != nil {
			return nil, err
		}
		threads = append(threads, n)
	}
	if len(threads) == 0 {
		return nil, fmt.Errorf("%s-*: callgrind has written nothing", prefix)
	}
	return threads, nil
}

// dumpSum is the line of a dump that has its sum. https://valgrind.org/docs/manual/cl-format.html
var dumpSum = regexp.MustCompile(`(?m)^(?:totals|summary): (\d+)`)

func parseDump(file string) (int64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	sum := dumpSum.FindSubmatch(text)
	if sum == nil {
		return 0, fmt.Errorf("%s has no sum", file)
	}
	return strconv.ParseInt(string(sum[1]), 10, 64)
}
