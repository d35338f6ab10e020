package main

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// settling is a rule with a limit of 9 for each client that settles.
func settling(settle string) string {
	return fmt.Sprintf(`{"name": "a", "key": [{"header": "x-client"}], "cost": {"header": "x-cost", "default": 3},
		"limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h", "anchor": "first_request"}],
			"settle": %s}`, settle)
}

// finish lets the upstream answer with a status, and the stream end.
func (x *exchange) finish(status string) {
	x.t.Helper()
	x.respond(status)
	x.End()
}

const (
	taken = "200 allowed limit=9 remaining=6 reset=3599"
	whole = "200 allowed limit=9 remaining=9 reset=0"
)

const byStatus = `{"status": ["401", "5xx"]}`

// flags are those of a response, as Envoy has them.
func flags(bits uint64) []byte { return binary.LittleEndian.AppendUint64(nil, bits) }

// endings are ends of a stream that had charged 3 of 9 units, and what is left then.
var endings = []struct {
	name, settle string
	end          func(x *exchange)
	left         string // for a request that costs nothing
}{
	{"an upstream's own error", byStatus, func(x *exchange) {
		x.Properties["response.flags"] = flags(1 << 15)
		x.finish("503")
	}, taken},
	{"no upstream answered", byStatus, func(x *exchange) {
		x.Properties["response.flags"] = flags(1 << 5)
		x.finish("503")
	}, whole},
	{
		"an upstream's answer whose retry overflowed", byStatus, func(x *exchange) {
			x.Properties["response.flags"], x.Properties["response.code_details"] = flags(1<<7), []byte("via_upstream")
			x.finish("503")
		}, taken,
	},
	{"given back over HTTP/3", byStatus, func(x *exchange) {
		x.Unlogged = true
		x.finish("200")
	}, whole},
	{"the client left", byStatus, func(x *exchange) { x.End() }, taken},
	{"the client left, to release", `{"status": ["401"], "missing": "release"}`, func(x *exchange) { x.End() }, taken},
	{"redirected, then kept", byStatus, func(x *exchange) { x.redirect("/second", client("x")...).finish("401") }, taken},
	{"redirected, then given back", byStatus, func(x *exchange) {
		x.redirect("/second", client("x")...).finish("200")
	}, whole},
}

// A charge is settled when the stream has ended, by Redis and by the embedded store.
func TestSettle(t *testing.T) {
	t.Parallel()
	for _, tc := range endings {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				r := w.startRedis()
				for _, config := range []string{withRedis(settling(tc.settle)), `{"rules": [` + settling(tc.settle) + `]}`} {
					i := w.load(config)
					x := i.get("/", client("x")...)
					r.settle()
					tc.end(x)
					i.wait(time.Second)
					r.settle()
					after := i.get("/", append(client("x"), "x-cost", "0")...)
					r.settle()
					testenv.Same(t, "what is left", after.end(), tc.left)
				}
			})
		})
	}
}

// A request whose client leaves before it is decided is admitted after that, and charged: no upstream
// knows what it was worth.
func TestSettleOfOneWhoLeftEarly(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"keep", "release"} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				r := w.startRedis()
				i := w.load(withRedis(settling(`{"status": ["200"], "missing": "` + missing + `"}`)))
				i.get("/", client("x")...).End()
				r.settle()
				i.wait(time.Second)
				r.settle()
				after := i.get("/", append(client("x"), "x-cost", "0")...)
				r.settle()
				testenv.Same(t, "what is left", after.end(), taken)
			})
		})
	}
}

// A configuration that is replaced ends when what its last stream was worth has been
// written.
func TestSettleAtTheEnd(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(settling(`{"status": ["401"]}`)))
		x := i.get("/", client("x")...)
		r.settle()
		testenv.Same(w.t, "keys with the reservation", len(r.keys("rl:{a|")), 1)
		i.Close()
		x.finish("200")
		for range 3 {
			r.settle()
			i.wait(20 * time.Millisecond)
		}
		testenv.Same(w.t, "keys in the end", len(r.keys("rl:{a|")), 0)
		if r.Conns[0].Open() {
			t.Error("the configuration has not ended")
		}
	})
}

// A rule that does not settle pays nothing: its response and its end cost no call into
// Envoy that they did not cost before.
func TestNothingToSettle(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"headers": [], "rules": [` + perClient("a", 9) + `]}`)
		x := i.get("/", client("x")...)
		w.expectCalls("its end", func() { x.finish("200") }, map[string]int{})
	})
}
