package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
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

const (
	// How many requests each setup is asked. The first are not watched, which is faster: V8 compiles a
	// second time what is hot. Those before the ones that count fill caches.
	hotRequests       = 10_000
	uncountedRequests = 500
	countedRequests   = 2000

	// countedConnections ask one at a time: how many requests are read together, and how many commands
	// Redis finds at once, would depend on what else the machine does.
	countedConnections = 1

	// countedAtOnce is how many setups are counted at a time: what else the machine does changes how long
	// a count takes, and not its result.
	countedAtOnce = 2

	// slowness is how many times slower than the real one the clock is of what is counted.
	slowness = 200

	// countsFile has what was counted when it was published.
	countsFile = "bench/results/counts.json"

	// tolerance is how much dearer or cheaper the usual request may be than the recorded one.
	tolerance = 0.01
)

// counted is the work of one request, in instructions outside the kernel.
type counted struct {
	Envoy   int64 `json:"envoy"` // of its worker
	Service int64 `json:"service,omitempty"`
	Relay   int64 `json:"relay,omitempty"` // its worker
	Redis   int64 `json:"redis,omitempty"`
}

// Sum is that of all processes.
func (c counted) Sum() int64 { return c.Envoy + c.Service + c.Relay + c.Redis }

// tally are the instructions of setups, by their names.
type tally struct {
	Machine machine            `json:"machine"`
	Setups  map[string]counted `json:"setups"`
}

// countedSetups are those whose instructions are counted, by their names or all.
func countedSetups(names []string) []*setup {
	all := choose(func(s *setup) bool {
		return slices.Contains(names, s.ID) || slices.Equal(names, []string{"all"}) && s.Only != "timed"
	})
	for _, s := range all {
		if s.ID == leased { // how many units a worker takes by itself depends on how fast it is
			s.Rule = strings.Replace(s.Rule, `{"ttl": "200ms"}`, `{"units": 1000, "ttl": "10s"}`, 1)
		}
	}
	return all
}

// runCount counts the instructions of setups, and shows, publishes or checks what it has counted.
func runCount(ctx context.Context, root string, o options) error {
	names := strings.Split(o.count, ",")
	all := countedSetups(names)
	if len(names) > len(all) {
		return fmt.Errorf("-count %s: unknown setups (want all, or some that bench/setups.yaml has)", o.count)
	}
	now := tally{Setups: map[string]counted{}}
	return onBench(ctx, root, func(b *bench, m machine) error {
		now.Machine = m
		source := filepath.Join(root, "bench/slowclock/slowclock.c")
		b.clock = filepath.Join(b.dir, "slowclock.so")
		out, err := exec.CommandContext(ctx, "cc", "-O2", "-shared", "-fPIC", "-o", b.clock, source).CombinedOutput()
		if err != nil {
			return fmt.Errorf("compiling %s: %w (want a C compiler named cc)\n%s", source, err, out)
		}
		var lock sync.Mutex
		workers, ctx := errgroup.WithContext(ctx)
		workers.SetLimit(countedAtOnce)
		for _, s := range all {
			workers.Go(func() error {
				own := *b
				c, err := own.count(ctx, s)
				if err != nil {
					return fmt.Errorf("%s: %w", s.ID, err)
				}
				lock.Lock()
				defer lock.Unlock()
				now.Setups[s.ID] = c
				fmt.Fprintf(os.Stderr, "%s: %+v\n", s.ID, c)
				return nil
			})
		}
		if err := workers.Wait(); err != nil {
			return err
		}
		fmt.Print(show("counts", now))
		recorded, err := readCounts(root)
		switch {
		case err == nil && o.check:
			return now.against(recorded)
		case err == nil && o.publish:
			return now.publish(root, recorded)
		}
		return err
	})
}

// count counts the instructions of one setup, whose processes live for that alone.
func (b *bench) count(ctx context.Context, s *setup) (c counted, err error) {
	if b.dir, err = os.MkdirTemp(b.dir, s.ID); err != nil {
		return c, err
	}
	// callgrind counts the instructions of the program that follows, of each thread by itself, outside the
	// kernel, from when it is told to. Code that V8 makes is code like any other.
	// https://valgrind.org/docs/manual/cl-manual.html
	b.command = []string{
		"valgrind", "-q", "--tool=callgrind", "--separate-threads=yes", "--smc-check=all-non-file", "--instr-atstart=no",
		"--vgdb-prefix=" + filepath.Join(b.dir, "vgdb"),
		"--callgrind-out-file=" + filepath.Join(b.dir, "callgrind.%p"), "--log-file=" + filepath.Join(b.dir, "valgrind.%p"),
	}
	// The programs have a clock that is slower, as they are: timers, statistics and housekeeping then take
	// about as small a part of a count as of life, and none that depends on how busy the machine is. Go's
	// programs read the time without libc, so the service keeps the real clock.
	b.env = []string{"LD_PRELOAD=" + b.clock, "SLOWCLOCK=" + strconv.Itoa(slowness)}
	ports, err := freePorts(1)
	if err != nil {
		return c, err
	}
	b.started = nil
	defer b.stop(0)
	if b.redis, err = b.startRedis(ctx, ports[0]); err != nil {
		return c, err
	}
	if err := b.bringUp(ctx, s); err != nil {
		return c, err
	}
	before, err := b.redis.work(ctx)
	if err != nil {
		return c, err
	}
	envoy := b.measured.envoy
	for _, step := range []struct {
		connections, requests int
		others                int64    // that may be answered otherwise: the first request of a limit of one is admitted
		then                  []string // what callgrind is told in each process
	}{
		{usualConnections, hotRequests, 1, []string{"instrumentation", "on"}},
		{countedConnections, uncountedRequests, 1, []string{"zero"}},
		{countedConnections, countedRequests, 0, []string{"dump"}},
	} {
		answers, err := load(ctx, envoy.url+s.Path, step.connections, "--requests", step.requests)
		if err != nil {
			return c, err
		}
		failed, err := envoy.failures()
		if err != nil {
			return c, err
		}
		if right := answers[s.Status/100]; right < int64(step.requests)-step.others || failed > 0 {
			return c, envoy.explain(fmt.Errorf("%d of %d requests answered with %d, %d undecided", right, step.requests,
				s.Status, failed))
		}
		for _, p := range b.started {
			if err := b.tell(ctx, p, step.then...); err != nil {
				return c, err
			}
		}
	}
	after, err := b.redis.work(ctx)
	if err != nil {
		return c, err
	}
	for _, p := range b.started {
		threads, err := dumped(b.dir, p.PID())
		if err != nil {
			return c, err
		}
		all := int64(0)
		for _, n := range threads {
			all += n
		}
		switch { // of an Envoy its worker, which is the busiest thread
		case p == b.measured.envoy.subprocess:
			c.Envoy = slices.Max(threads) / countedRequests
		case p == b.measured.beside && s.Service == nil:
			c.Relay = slices.Max(threads) / countedRequests
		case p == b.measured.beside:
			c.Service = all / countedRequests
		case after.sentSince(before) > 0:
			c.Redis = all / countedRequests
		}
	}
	return c, nil
}

// tell has callgrind do something within a process: "instrumentation on", "zero", "dump".
func (b *bench) tell(ctx context.Context, p *subprocess, command ...string) error {
	vgdb := filepath.Join(b.dir, "vgdb")
	args := append([]string{"--vgdb-prefix=" + vgdb, "--pid=" + strconv.Itoa(p.PID())}, command...)
	cmd := exec.CommandContext(ctx, "vgdb", args...)
	// valgrind names its files after what these variables are in the process itself, and the service has
	// a HOST of its own.
	prefix := fmt.Sprintf("%s-shared-mem-vgdb-%d-by-", vgdb, p.PID())
	if found, _ := filepath.Glob(prefix + "*"); len(found) == 1 { // else vgdb says what it looks for
		user, host, _ := strings.Cut(strings.TrimPrefix(found[0], prefix), "-on-")
		cmd.Env = append(os.Environ(), "LOGNAME="+user, "HOST="+host)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return p.explain(fmt.Errorf("vgdb %q: %w\n%s", args, err, out))
	}
	return nil
}

// dumpSum is the line of a dump that has its sum. https://valgrind.org/docs/manual/cl-format.html
var dumpSum = regexp.MustCompile(`(?m)^(?:totals|summary): (\d+)`)

// dumped are the instructions that the threads of a process have executed, by its first dump.
func dumped(dir string, pid int) (threads []int64, err error) {
	pattern := filepath.Join(dir, fmt.Sprintf("callgrind.%d.1-*", pid))
	files, _ := filepath.Glob(pattern) // it is well-formed
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		sum := dumpSum.FindSubmatch(text)
		if sum == nil {
			return nil, fmt.Errorf("%s has no sum", file)
		}
		n, _ := strconv.ParseInt(string(sum[1]), 10, 64)
		threads = append(threads, n)
	}
	if len(threads) == 0 {
		return nil, fmt.Errorf("%s: callgrind has written nothing", pattern)
	}
	return threads, nil
}

func readCounts(root string) (c tally, err error) {
	return c, readJSON(filepath.Join(root, countsFile), &c)
}

// publish records the counts, and shows them. Setups that were not counted keep what was recorded of
// them.
func (c tally) publish(root string, recorded tally) error {
	maps.Copy(recorded.Setups, c.Setups)
	c.Setups = recorded.Setups
	text, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return err
	}
	timed, err := readRun(filepath.Join(root, publishedRun+".json"))
	if err != nil {
		return err
	}
	return timed.pages(c).Publish(root, map[string]string{countsFile: string(text) + "\n"})
}

// Counted are the setups of the table.
func (c tally) Counted() []*setup {
	return choose(func(s *setup) bool { return s.Only != "timed" && c.Setups[s.ID] != counted{} })
}

// Beyond is what a setup takes beyond no limiter; 0 if one of the two was not counted.
func (c tally) Beyond(setup string) int64 {
	if c.Setups[unlimited].Envoy == 0 || c.Setups[setup].Sum() == 0 {
		return 0
	}
	return c.Setups[setup].Sum() - c.Setups[unlimited].Sum()
}

// against holds the usual request to what is recorded, as a multiple of one without a limiter: what
// differs between two machines, such as how Envoy's libc copies, cancels out.
func (c tally) against(recorded tally) error {
	usual := func(c tally) float64 { return float64(c.Setups[sluice].Envoy) / float64(c.Setups[unlimited].Envoy) }
	now, was := usual(c), usual(recorded)
	fmt.Printf("\nA usual request takes %.4f times what one without a limiter takes; %.4f is recorded.\n", now, was)
	if change := now/was - 1; math.IsNaN(change) || math.Abs(change) > tolerance {
		return fmt.Errorf("that is %+.1f %% (want at most %.0f %%; if it is meant, record it: make count PUBLISH=1)",
			change*100, tolerance*100)
	}
	return nil
}
