package wasmhost

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// Options say what a VM runs and what it finds around it. Wasm is required.
type Options struct {
	Wasm     []byte
	VMID     string // VMs of one Envoy with the same id share data
	VMConfig string
	Env      map[string]string
	Envoy    *Envoy             // nil: one of its own
	Clusters map[string]Cluster // what proxy_grpc_stream reaches
	LogLevel LogLevel           // what proxy_get_log_level says; every line is kept anyway
	Now      func() time.Time   // the guest's clocks, wall and monotonic; nil: the real ones

	// Properties every stream has, and the plugin contexts, too.
	Properties Properties
	// Foreign functions, by name. Envoy's own are not there.
	Foreign map[string]func(arguments []byte) ([]byte, Status)
	// Intercept, if not nil, comes before each host call. A status other than
	// StatusOK is returned to the guest in place of the call. This is how a test
	// makes a call fail, or has something else happen just before it.
	Intercept func(call string) Status
}

// LogLine is what the guest logged, or wrote to standard output (LogInfo) or
// standard error (LogError).
type LogLine struct {
	Level LogLevel
	Text  string
}

// A Host is one VM on one worker thread of an Envoy: its methods, and those of
// its plugins and streams, are for one goroutine. Only Post is for any.
type Host struct {
	// Calls counts the host calls by name. A test may clear it.
	Calls map[string]int
	// Logs is every line in order. A test may clear it.
	Logs []LogLine

	options Options
	envoy   *Envoy
	events  eventQueue

	ctx       context.Context
	runtime   wazero.Runtime
	module    api.Module
	memory    api.Memory
	allocator *guestFunction
	functions map[string]*guestFunction

	contexts  map[uint32]*vmContext
	nextID    uint32
	current   *vmContext // whose callback runs
	effective uint32     // what proxy_set_effective_context chose; 0: nothing
	depth     int        // of calls into the guest
	initing   bool       // only proxy_log is allowed
	stopped   bool       // a local response overrides what the callback returns
	after     []func()   // for when the call into the guest has returned
	failure   error

	metrics   [metricTypes][]*statistic
	nextToken uint32
}

// Start makes a Host that is closed when the test ends, and fails the test if
// the guest did what Err reports.
func Start(t testing.TB, options Options) *Host {
	t.Helper()
	h, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Err(); err != nil {
			t.Errorf("the guest failed: %v", err)
		}
		if t.Failed() {
			h.showLogs(t)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *Host) showLogs(t testing.TB) {
	t.Helper()
	for _, line := range h.Logs {
		t.Logf("the guest logged at level %d: %s", line.Level, line.Text)
	}
}

// compiled keeps machine code, so that each Wasm is compiled once a process.
var compiled = wazero.NewCompilationCache()

// New instantiates the guest and runs its initialization.
func New(options Options) (*Host, error) {
	h := &Host{
		Calls:     map[string]int{},
		options:   options,
		envoy:     options.Envoy,
		ctx:       context.Background(),
		events:    eventQueue{signal: make(chan struct{}, 1)},
		functions: map[string]*guestFunction{},
		contexts:  map[uint32]*vmContext{},
		nextID:    1,
	}
	if h.envoy == nil {
		h.envoy = NewEnvoy()
	}
	if h.options.Now == nil {
		h.options.Now = time.Now
	}
	h.runtime = wazero.NewRuntimeWithConfig(h.ctx, wazero.NewRuntimeConfig().WithCompilationCache(compiled))
	if err := h.instantiate(); err != nil {
		return nil, errors.Join(err, h.runtime.Close(h.ctx))
	}
	return h, nil
}

func (h *Host) instantiate() error {
	if _, err := wasi_snapshot_preview1.Instantiate(h.ctx, h.runtime); err != nil {
		return err
	}
	if err := h.exportCalls(); err != nil {
		return err
	}
	code, err := h.runtime.CompileModule(h.ctx, h.options.Wasm)
	if err != nil {
		return err
	}
	if h.module, err = h.runtime.InstantiateModule(h.ctx, code, h.moduleConfig()); err != nil {
		return err
	}
	h.memory = h.module.Memory()
	if !h.exports("proxy_abi_version_0_2_0") && !h.exports("proxy_abi_version_0_2_1") {
		return errors.New("the guest is not made for ABI 0.2")
	}
	h.allocator = h.function("malloc")
	if h.allocator.f == nil {
		h.allocator = h.function("proxy_on_memory_allocate")
	}
	if h.allocator.f == nil {
		return errors.New("the guest exports no allocator")
	}
	h.initing = true
	h.call(nil, "_initialize")
	h.call(nil, "main", 0, 0)
	h.initing = false
	return h.failure
}

// moduleConfig replaces wazero's fake clocks, constant randomness and closed
// standard streams.
func (h *Host) moduleConfig() wazero.ModuleConfig {
	wall := func() (int64, int32) {
		now := h.options.Now()
		return now.Unix(), int32(now.Nanosecond())
	}
	monotonic := func() int64 { return h.options.Now().UnixNano() }
	c := wazero.NewModuleConfig().
		WithName("guest").
		WithStartFunctions(). // Envoy's order is in instantiate
		WithRandSource(rand.Reader).
		WithWalltime(wall, sys.ClockResolution(1)).
		WithNanotime(monotonic, sys.ClockResolution(1)).
		WithStdout(logWriter{h, LogInfo}).
		WithStderr(logWriter{h, LogError})
	for name, value := range h.options.Env {
		c = c.WithEnv(name, value)
	}
	return c
}

// logWriter is how Envoy treats standard output and error.
type logWriter struct {
	h     *Host
	level LogLevel
}

func (w logWriter) Write(b []byte) (int, error) {
	w.h.Logs = append(w.h.Logs, LogLine{w.level, strings.TrimSuffix(string(b), "\n")})
	return len(b), nil
}

// Close ends the VM with its gRPC streams.
func (h *Host) Close() error {
	for _, c := range h.contexts {
		if c.stream == nil {
			c.plugin.cancelStreams()
		}
	}
	return h.runtime.Close(h.ctx)
}

// Err is the first thing the guest did that it must not do: a trap, or what
// would break Envoy. From then on the guest is not called any more.
func (h *Host) Err() error { return h.failure }

func (h *Host) fail(format string, args ...any) {
	if h.failure == nil {
		h.failure = fmt.Errorf(format, args...)
	}
}

// Envoy is what the host shares with the other workers.
func (h *Host) Envoy() *Envoy { return h.envoy }

// Allocator is the export that memory in the guest is allocated with: malloc
// where there is one.
func (h *Host) Allocator() string { return h.allocator.name }

// MemoryPages is the size of the guest's memory in pages of 64 KiB.
func (h *Host) MemoryPages() uint32 { return h.memory.Size() >> 16 }

// LogsAt is the text of every line of a level, in order.
func (h *Host) LogsAt(level LogLevel) []string {
	var texts []string
	for _, line := range h.Logs {
		if line.Level == level {
			texts = append(texts, line.Text)
		}
	}
	return slices.Clip(texts)
}
