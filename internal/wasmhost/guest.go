package wasmhost

import (
	"github.com/tetratelabs/wazero/api"
)

// A guestFunction is an export of the guest, or its absence.
type guestFunction struct {
	name    string
	f       api.Function // nil: not exported
	params  int
	running bool
}

func (h *Host) function(name string) *guestFunction {
	g := h.functions[name]
	if g == nil {
		g = &guestFunction{name: name, f: h.module.ExportedFunction(name)}
		if g.f != nil {
			g.params = len(g.f.Definition().ParamTypes())
		}
		h.functions[name] = g
	}
	return g
}

func (h *Host) exports(name string) bool { return h.function(name).f != nil }

// returned is how a call into the guest ended.
type returned struct {
	value   uint32
	ok      bool // there was such a function, and it did not trap
	stopped bool // it sent a local response
}

// call runs a callback of the guest for a context, and then what the guest has
// asked for that must not run inside it (DeferAfterCallActions). A call within
// a host call does the latter, too, though the outer callback is still running.
func (h *Host) call(c *vmContext, name string, args ...uint32) (r returned) {
	g := h.function(name)
	if g.f == nil || h.failure != nil {
		return returned{}
	}
	current, effective := h.current, h.effective
	h.current, h.effective = c, 0
	h.depth++
	r.value, r.ok = h.enter(g, args...)
	h.depth--
	h.current, h.effective = current, effective
	r.stopped, h.stopped = h.stopped, false
	h.runAfter()
	return r
}

// enter is one entry into the guest's code.
func (h *Host) enter(g *guestFunction, args ...uint32) (uint32, bool) {
	f := g.f
	if g.running { // an api.Function has one stack, so it must not be entered twice
		f = h.module.ExportedFunction(g.name)
	} else {
		g.running = true
		defer func() { g.running = false }()
	}
	var array [8]uint64
	stack := array[:max(g.params, 1)]
	for i := range min(g.params, len(args)) {
		stack[i] = uint64(args[i])
	}
	if err := f.CallWithStack(h.ctx, stack); err != nil {
		h.fail("%s: %w", g.name, err)
		return 0, false
	}
	return uint32(stack[0]), true
}

// later has f run when the call into the guest that is under way has returned.
func (h *Host) later(f func()) { h.after = append(h.after, f) }

func (h *Host) runAfter() {
	for len(h.after) > 0 && h.failure == nil {
		f := h.after[0]
		h.after = h.after[1:]
		f()
	}
}

// allocate copies b into memory that the guest allocates for it.
func (h *Host) allocate(b []byte) (pointer uint32, ok bool) {
	initing := h.initing
	h.initing = true // Envoy restricts the host calls of the allocator in the same way
	pointer, ok = h.enter(h.allocator, uint32(len(b)))
	h.initing = initing
	return pointer, ok && pointer != 0 && h.memory.Write(pointer, b)
}
