package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// How many requests each setup is asked. The first are not watched, which is faster: V8 compiles a
// second time what is hot. Those before the ones that count fill caches.
const (
	hotRequests       = 10_000
	uncountedRequests = 500
	countedRequests   = 2000
)

// How many connections ask. One at a time counts: how many requests are read together, and how many
// commands Redis finds at once, would depend on what else the machine does.
const (
	hotConnections     = 16
	countedConnections = 1
)

// countedAtOnce is how many setups are counted at a time: what else the machine does changes how long
// a count takes, and not its result.
const countedAtOnce = 2

// countedSetups are those whose instructions are counted, by their names or all.
func countedSetups(names []string) []*setup {
	all := choose(func(s *setup) bool {
		return slices.Contains(names, s.id) || slices.Equal(names, []string{"all"}) && !s.onlyTimed
	})
	for _, s := range all {
		if s.id == leased { // how many units a worker takes by itself depends on how fast it is
			s.edit = limited(strings.Replace(leasedLimit, `{"ttl": "200ms"}`, `{"units": 1000, "ttl": "10s"}`, 1))
		}
	}
	return all
}

// countAll counts the instructions of setups.
func (b *bench) countAll(ctx context.Context, all []*setup) (result map[string]counted, err error) {
	if b.clock, err = buildClock(ctx, b.root, b.dir); err != nil {
		return nil, err
	}
	result = map[string]counted{}
	var lock sync.Mutex
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(countedAtOnce)
	for _, s := range all {
		workers.Go(func() error {
			own := *b
			c, err := own.count(ctx, s)
			if err != nil {
				return fmt.Errorf("%s: %w", s.id, err)
			}
			lock.Lock()
			defer lock.Unlock()
			result[s.id] = c
			fmt.Fprintf(os.Stderr, "%s: %+v\n", s.id, c)
			return nil
		})
	}
	return result, workers.Wait()
}

// count counts the instructions of one setup, whose processes live for that alone.
func (b *bench) count(ctx context.Context, s *setup) (c counted, err error) {
	if b.dir, err = os.MkdirTemp(b.dir, s.id); err != nil {
		return c, err
	}
	b.under, b.measured = callgrind(b.dir, b.clock), nil
	ports, err := freePorts(1)
	if err != nil {
		return c, err
	}
	if b.redis, err = b.under.startRedis(ctx, b.dir, ports[0]); err != nil {
		return c, err
	}
	defer b.redis.stop()
	defer b.bringDown()
	if err := b.bringUp(ctx, s); err != nil {
		return c, err
	}
	before, err := b.redis.work(ctx)
	if err != nil {
		return c, err
	}
	for _, step := range []func() error{
		func() error { return b.ask(ctx, hotConnections, hotRequests, 1) },
		func() error { return b.tellEach(ctx, "instrumentation", "on") },
		func() error { return b.ask(ctx, countedConnections, uncountedRequests, 1) },
		func() error { return b.tellEach(ctx, "zero") },
		func() error { return b.ask(ctx, countedConnections, countedRequests, 0) },
		func() error { return b.tellEach(ctx, "dump") },
	} {
		if err := step(); err != nil {
			return c, err
		}
	}
	after, err := b.redis.work(ctx)
	if err != nil {
		return c, err
	}
	return b.read(after.sentSince(before) > 0)
}

// counting are the processes of a setup whose instructions count.
func (b *bench) counting() []*subprocess {
	return append(slices.Clone(b.measured.own), b.redis.subprocess)
}

// tellEach has callgrind do something in each process of a setup.
func (b *bench) tellEach(ctx context.Context, command ...string) error {
	for _, p := range b.counting() {
		if err := tell(ctx, b.dir, p, command...); err != nil {
			return err
		}
	}
	return nil
}

// ask sends a number of requests, all of which but a few must be answered as they should: the first
// request of a limit of one is admitted.
func (b *bench) ask(ctx context.Context, connections, n int, others int64) error {
	o, err := load{connections: connections, requests: n}.run(ctx, b.measured.envoy.url+b.measured.path, 0)
	if err != nil {
		return err
	}
	failed, err := b.measured.envoy.failures(ctx)
	if err != nil {
		return err
	}
	if right := o.statuses[b.measured.status/100*100]; right < int64(n)-others || failed > 0 {
		err := fmt.Errorf("%d of %d requests answered with %d, %d undecided", right, n, b.measured.status, failed)
		return b.measured.envoy.explain(err)
	}
	return nil
}

// read takes the sums out of what callgrind has written: of an Envoy the busiest thread, which is its
// worker, of the others all.
func (b *bench) read(asksRedis bool) (c counted, err error) {
	for _, p := range b.counting() {
		threads, err := dumped(b.dir, p.PID())
		if err != nil {
			return c, err
		}
		all := int64(0)
		for _, n := range threads {
			all += n
		}
		switch {
		case p == b.measured.envoy.subprocess:
			c.Envoy = slices.Max(threads) / countedRequests
		case p == b.measured.relay:
			c.Relay = slices.Max(threads) / countedRequests
		case p == b.measured.service:
			c.Service = all / countedRequests
		case asksRedis:
			c.Redis = all / countedRequests
		}
	}
	return c, nil
}

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
