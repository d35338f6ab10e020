package wasmhost

import (
	"context"

	"github.com/tetratelabs/wazero/api"
)

// A hostCall is one function of module env: it reads its arguments from the
// guest's memory, has a Caller do the call, and writes the results there.
type hostCall struct {
	params string // a letter each: i for i32, l for i64
	run    func(a *arguments) Status
}

// arguments are those of one host call.
type arguments struct {
	Caller
	vm    *vm
	stack []uint64
}

// exportCalls makes the functions that a guest may import.
func (v *vm) exportCalls() error {
	b := v.runtime.NewHostModuleBuilder("env")
	for name, call := range hostCalls() {
		b.NewFunctionBuilder().
			WithGoModuleFunction(v.adapt(name, call), valueTypes(call.params), []api.ValueType{api.ValueTypeI32}).
			Export(name)
	}
	_, err := b.Instantiate(v.ctx)
	return err
}

func valueTypes(params string) (types []api.ValueType) {
	for _, p := range params {
		if p == 'l' {
			types = append(types, api.ValueTypeI64)
		} else {
			types = append(types, api.ValueTypeI32)
		}
	}
	return types
}

// adapt refuses what may not be called now.
func (v *vm) adapt(name string, call hostCall) api.GoModuleFunc {
	return func(_ context.Context, _ api.Module, stack []uint64) {
		if v.quiet && name != "proxy_log" {
			v.h.fail("%s: not allowed while the guest is initialized or allocates memory", name)
			stack[0] = uint64(StatusInternalFailure)
			return
		}
		if status := v.h.admit(name); status != StatusOK {
			stack[0] = uint64(status)
			return
		}
		stack[0] = uint64(call.run(&arguments{v.h.caller(), v, stack}))
	}
}

func (a *arguments) u32(i int) uint32 { return uint32(a.stack[i]) }

// bytes copies the memory that the arguments i (where) and i+1 (how much)
// describe. It has to be a copy: the guest's memory moves when it grows.
func (a *arguments) bytes(i int) ([]byte, bool) {
	b, ok := a.vm.memory.Read(a.u32(i), a.u32(i+1))
	return append([]byte(nil), b...), ok
}

func (a *arguments) text(i int) (string, bool) {
	b, ok := a.vm.memory.Read(a.u32(i), a.u32(i+1))
	return string(b), ok
}

// put writes a number where argument i points, unless the call has failed.
func (a *arguments) put(i int, v uint32, status Status) Status {
	if status != StatusOK {
		return status
	}
	return memoryStatus(a.vm.memory.WriteUint32Le(a.u32(i), v))
}

func (a *arguments) put64(i int, v uint64, status Status) Status {
	if status != StatusOK {
		return status
	}
	return memoryStatus(a.vm.memory.WriteUint64Le(a.u32(i), v))
}

// give copies b into the guest, and where it is and how long it is to where
// arguments i and i+1 point, unless the call has failed. Nothing is allocated for
// no bytes.
func (a *arguments) give(i int, b []byte, status Status) Status {
	if status != StatusOK {
		return status
	}
	pointer, ok := uint32(0), true
	if len(b) > 0 {
		pointer, ok = a.vm.allocate(b)
	}
	if !ok {
		return StatusInvalidMemoryAccess
	}
	return a.put(i+1, uint32(len(b)), a.put(i, pointer, StatusOK))
}

func memoryStatus(ok bool) Status {
	if ok {
		return StatusOK
	}
	return StatusInvalidMemoryAccess
}
