package wasmhost

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// Options say what a Host runs and what that finds around it: Wasm or Native is
// required.
type Options struct {
	Wasm     []byte
	Native   func(h *Host) Guest // makes the guest, in place of a VM
	VMID     string              // VMs of one Envoy with the same id share data
	Env      map[string]string
	Envoy    *Envoy             // nil: one of its own
	Clusters map[string]Cluster // what proxy_grpc_stream reaches
	Now      func() time.Time   // the guest's clocks, wall and monotonic; nil: the real ones

	// Properties every stream has, and the plugin contexts, too.
	Properties Properties
	// Attributes that expressions see in addition, with types, such as
	// {"metadata": {"filter_metadata": {"a": {"n": 7.0}}}}.
	Attributes map[string]any
	// Before, if not nil, comes before each host call: it lets a test have something else happen
	// just before.
	Before func(call string)
}

// LogLine is a line that the guest logged, or wrote to standard output (LogInfo) or
// standard error (LogError).
type LogLine struct {
	Level LogLevel
	Text  string
}

// A Host is one VM, or a native guest, on one worker thread of an Envoy: its methods, and those of
// its plugins and streams, are for one goroutine.
type Host struct {
	// Calls counts the host calls by name. A test may clear it.
	Calls map[string]int
	// Logs is every line in order. A test may clear it.
	Logs []LogLine
	// Strays counts how often the guest chose a context that is not there: that of
	// a request that is gone. Envoy then acts on another.
	Strays int

	options Options
	envoy   *Envoy
	events  []func() // that wait for the worker's event loop
	guest   Guest

	contexts  map[uint32]*vmContext
	nextID    uint32
	current   *vmContext // whose callback runs; nil: none
	effective uint32     // what proxy_set_effective_context chose; 0: nothing
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

// New starts a guest: that of Options.Native, or a VM with Options.Wasm.
func New(options Options) (*Host, error) {
	h := &Host{
		Calls:    map[string]int{},
		options:  options,
		envoy:    options.Envoy,
		contexts: map[uint32]*vmContext{},
		nextID:   1,
	}
	if h.envoy == nil {
		h.envoy = NewEnvoy()
	}
	if h.options.Now == nil {
		h.options.Now = time.Now
	}
	if options.Native != nil {
		h.guest = options.Native(h)
		return h, nil
	}
	v, err := newVM(h)
	if err != nil {
		return nil, err
	}
	h.guest = v
	if err := v.initialize(); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return h, nil
}

// Drain runs the events that wait, and those they cause.
func (h *Host) Drain() {
	for len(h.events) > 0 {
		f := h.events[0]
		h.events = h.events[1:]
		f()
	}
}

// Close ends the VM with its gRPC streams.
func (h *Host) Close() error {
	for _, c := range h.contexts {
		if c.stream == nil {
			c.plugin.cancelStreams()
		}
	}
	return h.guest.Close()
}

// Err is the first thing the guest did that it must not do: a trap, or what
// would break Envoy. From then on the guest is not called any more.
func (h *Host) Err() error { return h.failure }

func (h *Host) fail(format string, args ...any) {
	if h.failure == nil {
		h.failure = fmt.Errorf(format, args...)
	}
}

// Allocator is the export that memory in a VM is allocated with: malloc where
// there is one.
func (h *Host) Allocator() string { return h.guest.(*vm).allocator }

// MemoryPages is the size of a VM's memory in pages of 64 KiB.
func (h *Host) MemoryPages() uint32 { return h.guest.(*vm).memory.Size() >> 16 }

// Now is the guest's clock, wall and monotonic.
func (h *Host) Now() time.Time { return h.options.Now() }

// Environment is the environment of the guest, as environ_get of WASI has it.
func (h *Host) Environment() (variables []byte) {
	for name, value := range h.options.Env {
		variables = append(variables, name+"="+value+"\x00"...)
	}
	return variables
}
