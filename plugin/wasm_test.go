package main

import (
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// wasmGuest is the built plugin. What its guest must not do fails the test.
type wasmGuest struct{ host *wasmhost.Host }

func newWasmGuest(w *worker) guest {
	return &wasmGuest{wasmhost.Start(w.t, wasmhost.Options{
		Wasm:       testenv.Wasm(w.t),
		VMID:       "sluice",
		Env:        w.env,
		Envoy:      w.envoy,
		Clusters:   w.clusters,
		Now:        w.clock.read,
		Properties: w.properties,
		Intercept: func(call string) wasmhost.Status {
			if w.before != nil {
				w.before(call)
			}
			return wasmhost.StatusOK
		},
	})}
}

func (v *wasmGuest) start(config string) (filter, error) {
	p, err := v.host.StartPlugin(config)
	if err != nil {
		return nil, err
	}
	return wasmFilter{p}, nil
}

func (v *wasmGuest) logs() []wasmhost.LogLine { return v.host.Logs }
func (v *wasmGuest) calls() map[string]int    { return v.host.Calls }

type wasmFilter struct{ *wasmhost.Plugin }

func (f wasmFilter) newStream() httpStream { return wasmStream{f.NewStream()} }

type wasmStream struct{ *wasmhost.Stream }

func (s wasmStream) seen() *wasmhost.Stream { return s.Stream }
