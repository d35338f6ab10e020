package wasmhost

import (
	"context"
	"strings"

	"github.com/tetratelabs/wazero/api"
)

// A hostCall is one function of module env.
type hostCall struct {
	params string // a letter each: i for i32, l for i64
	run    func(c *arguments) Status
}

// arguments are those of one host call, and the context it acts on.
type arguments struct {
	*vmContext
	h     *Host
	stack []uint64
}

// exportCalls makes the functions that a guest may import.
func (h *Host) exportCalls() error {
	b := h.runtime.NewHostModuleBuilder("env")
	for name, call := range hostCalls() {
		b.NewFunctionBuilder().
			WithGoModuleFunction(h.adapt(name, call), valueTypes(call.params), []api.ValueType{api.ValueTypeI32}).
			Export(name)
	}
	_, err := b.Instantiate(h.ctx)
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

// adapt counts a call and refuses what may not be called now.
func (h *Host) adapt(name string, call hostCall) api.GoModuleFunc {
	return func(_ context.Context, _ api.Module, stack []uint64) {
		h.Calls[name]++
		if h.initing && name != "proxy_log" {
			h.fail("%s: not allowed while the guest is initialized or allocates memory", name)
			stack[0] = uint64(StatusInternalFailure)
			return
		}
		if intercept := h.options.Intercept; intercept != nil {
			if status := intercept(name); status != StatusOK {
				stack[0] = uint64(status)
				return
			}
		}
		stack[0] = uint64(call.run(&arguments{h.acting(), h, stack}))
	}
}

// acting is the context a host call acts on: the one the guest chose, as long
// as it exists, else the one whose callback runs.
func (h *Host) acting() *vmContext {
	if c := h.contexts[h.effective]; c != nil {
		return c
	}
	return h.current
}

func (c *arguments) u32(i int) uint32 { return uint32(c.stack[i]) }

// bytes copies the memory that the arguments i (where) and i+1 (how much)
// describe. It has to be a copy: the guest's memory moves when it grows.
func (c *arguments) bytes(i int) ([]byte, bool) {
	b, ok := c.h.memory.Read(c.u32(i), c.u32(i+1))
	return append([]byte(nil), b...), ok
}

func (c *arguments) text(i int) (string, bool) {
	b, ok := c.h.memory.Read(c.u32(i), c.u32(i+1))
	return string(b), ok
}

// name is a header's, as Envoy keeps it.
func (c *arguments) name(i int) (string, bool) {
	s, ok := c.text(i)
	return strings.ToLower(s), ok
}

// put writes a number where argument i points.
func (c *arguments) put(i int, v uint32) Status {
	return memoryStatus(c.h.memory.WriteUint32Le(c.u32(i), v))
}

func (c *arguments) put64(i int, v uint64) Status {
	return memoryStatus(c.h.memory.WriteUint64Le(c.u32(i), v))
}

// give copies b into the guest, and where it is and how long it is to where
// arguments i and i+1 point. Nothing is allocated for no bytes.
func (c *arguments) give(i int, b []byte) Status {
	pointer, ok := uint32(0), true
	if len(b) > 0 {
		pointer, ok = c.h.allocate(b)
	}
	if !ok {
		return StatusInvalidMemoryAccess
	}
	if status := c.put(i, pointer); status != StatusOK {
		return status
	}
	return c.put(i+1, uint32(len(b)))
}

func memoryStatus(ok bool) Status {
	if ok {
		return StatusOK
	}
	return StatusInvalidMemoryAccess
}
