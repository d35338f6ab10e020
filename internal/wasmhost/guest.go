package wasmhost

// A Guest is the plugin's code, as a Host calls it: a VM that runs the built
// wasm, or the plugin as ordinary Go (Options.Native). A Guest calls back the
// Caller that Begin returns.
type Guest interface {
	// Exports reports whether the guest has a callback, by its name in the ABI,
	// such as "proxy_on_tick".
	Exports(callback string) bool
	// Call runs a callback that the guest has. The first argument is the id of the
	// context. An error is a trap: the guest is not called any more.
	Call(callback string, args ...uint32) (result uint32, err error)
	// Close frees what the guest holds.
	Close() error
}

// returned is how a call into the guest ended.
type returned struct {
	value   uint32
	ok      bool // there was such a callback, and it did not trap
	stopped bool // it sent a local response
}

// call runs a callback of the guest for a context, and then what the guest has
// asked for that must not run inside it (DeferAfterCallActions). Of the callbacks that Sluice has
// none comes within a host call.
func (h *Host) call(c *vmContext, name string, args ...uint32) (r returned) {
	if h.failure != nil || !h.guest.Exports(name) {
		return returned{}
	}
	h.current, h.effective = c, 0
	value, err := h.guest.Call(name, args...)
	h.current, h.effective = nil, 0
	if err != nil {
		h.fail("%s: %w", name, err)
	}
	r = returned{value: value, ok: err == nil, stopped: h.stopped}
	h.stopped = false
	h.runAfter()
	return r
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

// A Caller makes host calls, which act on one context. Its methods are those of
// the ABI. Most return a Status, as there; the guest has no memory of its own in
// them, so what is passed in both directions must not change afterwards.
type Caller struct {
	*vmContext
	h *Host
}

// Begin is the beginning of a host call of a native guest, by its name in the ABI
// and with the context it acts on; 0 is the one whose callback runs. The call is
// counted, and Options.Before hears of it.
func (h *Host) Begin(call string, contextID uint32) Caller {
	h.admit(call)
	if contextID == 0 {
		return h.caller()
	}
	c := h.contexts[contextID]
	if c == nil {
		h.Strays++
		c = &vmContext{plugin: &Plugin{host: h, declared: map[string]bool{}}} // of which nothing comes
	}
	return Caller{c, h}
}

// admit counts a host call, and tells Before.
func (h *Host) admit(call string) {
	h.Calls[call]++
	if h.options.Before != nil {
		h.options.Before(call)
	}
}

// caller acts on the context that the guest chose, as long as it exists, else on
// the one whose callback runs.
func (h *Host) caller() Caller {
	if c := h.contexts[h.effective]; c != nil {
		return Caller{c, h}
	}
	return Caller{h.current, h}
}
