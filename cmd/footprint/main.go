// Footprint measures what Sluice costs a proxy before it has seen a request: the CPU time that an
// Envoy has taken, and the memory that it holds, a moment after it is ready. Each row is a fresh
// process; the rows take turns, and of each the median is shown. It prints a table in Markdown.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/measure"
	"github.com/sluiceproxy/sluice/internal/process"
)

func main() {
	rounds := flag.Int("rounds", 3, "processes of each row")
	wasm := flag.String("wasm", "build/sluice.wasm", "the plugin")
	publish := flag.Bool("publish", false, "write the results into the documents")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *wasm, *rounds, *publish); err != nil {
		fmt.Fprintln(os.Stderr, "footprint:", err)
		os.Exit(1)
	}
}

// row is a configuration of Envoy to measure.
type row struct {
	name    string
	workers int
	edit    func(c *envoyconf.Config)
}

// rows are the measurements, all of the shipped envoy.yaml. Ports from 20 on are for further
// listeners.
func rows() []row {
	none := func(c *envoyconf.Config) {
		c.Remove(envoyconf.ConnectionManager+"/http_filters", "sluice")
		filters, _, _ := strings.Cut(envoyconf.Bridge, "/sluice-bridge/")
		c.Remove(filters, "sluice-bridge")
	}
	all := func(*envoyconf.Config) {}
	file := func(c *envoyconf.Config) {
		path, _ := c.Get(envoyconf.Limiter + "/vm_config/code/local/filename").(string)
		c.SetBridge(path)
	}
	further := func(id func(n int) string) func(c *envoyconf.Config) {
		return func(c *envoyconf.Config) {
			text, _ := c.Get(envoyconf.Limiter + "/configuration/value").(string)
			for n := range 3 {
				name := "limited-" + strconv.Itoa(n)
				c.CopyListener(name, 0, strings.Replace(text, "per-key", "per-key-"+strconv.Itoa(n), 1))
				limiter := "static_resources/listeners/" + name + strings.TrimPrefix(envoyconf.Limiter, envoyconf.Listener)
				c.Set(limiter+"/vm_config/vm_id", id(n))
			}
		}
	}
	return []row{
		{withoutWasm, 1, none},
		{withoutWasm, 4, none},
		{withoutWasm, 8, none},
		{shipped, 1, all},
		{shipped, 4, all},
		{shipped, 8, all},
		{oneFile, 4, file},
		{threeShared, 4, further(func(int) string { return "sluice" })},
		{threeApart, 4, further(func(n int) string { return "sluice-" + strconv.Itoa(n) })},
	}
}

// sample is one process: what it has taken and holds.
type sample struct {
	cpu            time.Duration
	anonMB, restMB float64 // of its memory: its own, and pages of files
}

func run(ctx context.Context, wasm string, rounds int, publish bool) error {
	all := rows()
	samples := make([][]sample, len(all))
	before := measure.Load()
	for range rounds {
		for i := range all {
			s, err := all[i].measure(ctx, wasm)
			if err != nil {
				return fmt.Errorf("%s: %w", all[i].name, err)
			}
			samples[i] = append(samples[i], s)
		}
	}
	var t table
	for i, r := range all {
		t = append(t, result{
			r.name, r.workers,
			median(samples[i], func(s sample) float64 { return s.cpu.Seconds() }),
			median(samples[i], func(s sample) float64 { return s.anonMB + s.restMB }),
			median(samples[i], func(s sample) float64 { return s.anonMB }),
		})
	}
	head := fmt.Sprintf("Medians of %d processes, %s. %s Load average: %s before, %s after.", rounds,
		time.Now().UTC().Format(time.DateOnly), machine(ctx), before, measure.Load())
	fmt.Printf("%s\n\n%s\n%s\n%s", head, t.markdown(), t.sentences(), t.goals())
	if publish {
		return t.pages(head).Publish(".", nil)
	}
	return nil
}

// settles is how long V8's threads take to end what they do, and the allocator to give back what that
// took: it does so once a second (memory_release_interval in envoy.yaml).
const settles = 3 * time.Second

// measure starts an Envoy and looks at it once it has settled.
func (r row) measure(ctx context.Context, wasm string) (sample, error) {
	dir, err := os.MkdirTemp("", "footprint")
	if err != nil {
		return sample{}, err
	}
	defer os.RemoveAll(dir)
	file, addresses := filepath.Join(dir, "envoy.yaml"), filepath.Join(dir, "admin")
	if err := r.write(file, wasm); err != nil {
		return sample{}, err
	}
	cmd := exec.CommandContext(ctx, "envoy", "-c", file, "--concurrency", strconv.Itoa(r.workers), "--use-dynamic-base-id",
		"--admin-address-path", addresses, "-l", "critical")
	cmd.Stderr = os.Stderr
	p, err := process.Start(cmd)
	if err != nil {
		return sample{}, err
	}
	defer p.Kill()
	ready := func(ctx context.Context) error {
		addr, err := os.ReadFile(addresses)
		if err != nil {
			return err
		}
		return process.EnvoyReady(ctx, string(addr))
	}
	if err := process.Await(ctx, time.Minute, ready, p); err != nil {
		return sample{}, err
	}
	time.Sleep(settles)
	return look(p.PID())
}

// write writes the configuration, with ports that the kernel chooses.
func (r row) write(file, wasm string) error {
	text, err := os.ReadFile("envoy.yaml")
	if err != nil {
		return err
	}
	c, err := envoyconf.Parse(text)
	if err != nil {
		return err
	}
	c.SetPorts(0, 0)
	c.SetWasm(wasm)
	r.edit(c)
	text, err = c.YAML()
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// ticks is the unit of times in /proc (proc_pid_stat(5)), 100 a second on every Linux for Go.
const ticks = 100

// look reads what a process has taken and holds.
func look(pid int) (sample, error) {
	proc := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(proc + "/stat")
	if err != nil {
		return sample{}, err
	}
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		return sample{}, err
	}
	// The program's name, in parentheses, may hold spaces. utime and stime are fields 14 and 15.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	s := sample{anonMB: field(status, "RssAnon:"), restMB: field(status, "RssFile:") + field(status, "RssShmem:")}
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return sample{}, err
		}
		s.cpu += time.Duration(n) * time.Second / ticks
	}
	return s, nil
}

// field is a value of /proc/PID/status in MB, which has it in KiB.
func field(status []byte, name string) float64 {
	_, rest, _ := strings.Cut(string(status), name)
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseFloat(number, 64)
	return n * 1024 / 1e6
}

func median(samples []sample, of func(sample) float64) float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, of(s))
	}
	return measure.Median(values)
}

// machine names what the processes ran on.
func machine(ctx context.Context) string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	_, model, _ := strings.Cut(string(info), "model name")
	model, _, _ = strings.Cut(strings.TrimLeft(model, "\t :"), "\n")
	out, _ := exec.CommandContext(ctx, "envoy", "--version").Output()
	version := ""
	if parts := strings.Split(string(out), "/"); len(parts) > 3 {
		version = parts[len(parts)-4]
	}
	return fmt.Sprintf("Envoy %s on %d cores of %s.", version, runtime.NumCPU(), model)
}
