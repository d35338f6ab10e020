package wasmhost

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// A vm is the Guest that runs the built wasm.
type vm struct {
	h         *Host
	ctx       context.Context
	runtime   wazero.Runtime
	module    api.Module
	memory    api.Memory
	allocator string                  // the export that allocates memory
	functions map[string]api.Function // exports that were looked for; nil: not exported
	quiet     bool                    // the guest may only log
}

// compiled keeps machine code, so that each Wasm is compiled once a process.
var compiled = wazero.NewCompilationCache()

// newVM instantiates the guest.
func newVM(h *Host) (*vm, error) {
	v := &vm{h: h, ctx: context.Background(), functions: map[string]api.Function{}}
	v.runtime = wazero.NewRuntimeWithConfig(v.ctx, wazero.NewRuntimeConfig().WithCompilationCache(compiled))
	if err := v.instantiate(); err != nil {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

func (v *vm) instantiate() error {
	if _, err := wasi_snapshot_preview1.Instantiate(v.ctx, v.runtime); err != nil {
		return err
	}
	if err := v.exportCalls(); err != nil {
		return err
	}
	code, err := v.runtime.CompileModule(v.ctx, v.h.options.Wasm)
	if err != nil {
		return err
	}
	if v.module, err = v.runtime.InstantiateModule(v.ctx, code, v.moduleConfig()); err != nil {
		return err
	}
	v.memory = v.module.Memory()
	if !v.Exports("proxy_abi_version_0_2_0") && !v.Exports("proxy_abi_version_0_2_1") {
		return errors.New("the guest is not made for ABI 0.2")
	}
	for _, name := range []string{"malloc", "proxy_on_memory_allocate"} {
		if v.Exports(name) {
			v.allocator = name
			return nil
		}
	}
	return errors.New("the guest exports no allocator")
}

// initialize runs Go's initialization, in which the guest may only log.
func (v *vm) initialize() error {
	v.quiet = true
	v.h.call(nil, "_initialize")
	v.h.call(nil, "main", 0, 0)
	v.quiet = false
	return v.h.failure
}

// moduleConfig replaces wazero's fake clocks, constant randomness and closed
// standard streams.
func (v *vm) moduleConfig() wazero.ModuleConfig {
	now := v.h.options.Now
	wall := func() (int64, int32) {
		now := now()
		return now.Unix(), int32(now.Nanosecond())
	}
	monotonic := func() int64 { return now().UnixNano() }
	c := wazero.NewModuleConfig().
		WithName("guest").
		WithStartFunctions(). // Envoy's order is in instantiate
		WithRandSource(rand.Reader).
		WithWalltime(wall, sys.ClockResolution(1)).
		WithNanotime(monotonic, sys.ClockResolution(1)).
		WithStdout(logWriter{v.h, LogInfo}).
		WithStderr(logWriter{v.h, LogError})
	for name, value := range v.h.options.Env {
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

// Close implements Guest.
func (v *vm) Close() error { return v.runtime.Close(v.ctx) }

// Exports implements Guest.
func (v *vm) Exports(name string) bool {
	if _, known := v.functions[name]; !known {
		v.functions[name] = v.module.ExportedFunction(name)
	}
	return v.functions[name] != nil
}

// Call implements Guest.
func (v *vm) Call(name string, args ...uint32) (uint32, error) {
	f := v.functions[name]
	var array [8]uint64
	stack := array[:max(len(f.Definition().ParamTypes()), 1)]
	for i := range min(len(stack), len(args)) {
		stack[i] = uint64(args[i])
	}
	err := f.CallWithStack(v.ctx, stack)
	return uint32(stack[0]), err
}

// allocate copies b into memory that the guest allocates for it.
func (v *vm) allocate(b []byte) (pointer uint32, ok bool) {
	quiet := v.quiet
	v.quiet = true // Envoy restricts the host calls of the allocator in the same way
	pointer, err := v.Call(v.allocator, uint32(len(b)))
	v.quiet = quiet
	if err != nil {
		v.h.fail("%s: %w", v.allocator, err)
		return 0, false
	}
	return pointer, pointer != 0 && v.memory.Write(pointer, b)
}
