package wasmhost

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const sharedScript = `
	plugin configure
	define 0 requests
	define 1 open
	define 2 sizes
	/set request_headers
	setshared k v 0
	/get request_headers
	shared k
	/swap request_headers
	shared n
	setshared n x cas
	/count request_headers
	inc 0 1
	inc 1 2
	inc 1 -1
	rec 2 5`

// Workers share data by vm_id, and metrics in any case.
func TestWorkersShare(t *testing.T) {
	t.Parallel()
	e := NewEnvoy()
	_, a := startGuest(t, Options{Envoy: e, VMID: "one"}, sharedScript)
	hb, b := startGuest(t, Options{Envoy: e, VMID: "one"}, sharedScript)
	hc, c := startGuest(t, Options{Envoy: e, VMID: "two"}, sharedScript)
	hb.Logs, hc.Logs = nil, nil
	tell(a, "/set")
	tell(b, "/get")
	tell(c, "/get")
	expectLog(t, hb, "/get request_headers 1\n shared k = 0 v")
	expectLog(t, hc, "/get request_headers 1\n shared k = 1")
	shared, _ := e.SharedData("one", "k")
	testenv.Same(t, "what is shared", string(shared), "v")
	_, ok := e.SharedData("two", "k")
	testenv.Same(t, "that another id shares it", ok, false)
	for _, p := range []*Plugin{a, b, c} {
		tell(p, "/count")
	}
	requests, _ := e.Metric("requests")
	open, _ := e.Metric("open")
	testenv.Same(t, "requests", requests, 3)
	testenv.Same(t, "open", open, 3)
	if sizes := e.Histogram("sizes"); !slices.Equal(sizes, []uint64{5, 5, 5}) {
		t.Errorf("sizes %v", sizes)
	}
	if got := strings.Join(e.Metrics(), " "); got != "open requests sizes" {
		t.Errorf("metrics %q", got)
	}
	if _, ok := e.Metric("none"); ok {
		t.Error("a metric that was never defined")
	}
	if e.Histogram("none") != nil {
		t.Error("a histogram that was never defined")
	}
}

// A write between a worker's read and write makes the write fail.
func TestCompareAndSwap(t *testing.T) {
	t.Parallel()
	e := NewEnvoy()
	_, other := startGuest(t, Options{Envoy: e}, "/set request_headers\n setshared n other 0\n")
	conflict := true
	h, p := startGuest(t, Options{Envoy: e, Before: func(call string) {
		if call == "proxy_set_shared_data" && conflict {
			conflict = false
			tell(other, "/set")
		}
	}}, sharedScript)
	tell(other, "/set")
	h.Logs = nil
	tell(p, "/swap")
	tell(p, "/swap")
	expectLog(t, h, `
		/swap request_headers 1
		shared n = 0 other
		setshared n x cas = 8
		/swap request_headers 1
		shared n = 0 other
		setshared n x cas = 0`)
}
