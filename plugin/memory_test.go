package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// doubling is by how much TinyGo's heap grows when a collection has not left
// enough room. Where the last of these steps comes is a matter of chance, so one
// may still come; a leak takes more.
const doubling = 2

// The guest's memory grows to what the traffic needs and then stays, whether
// requests are admitted, rejected, cancelled or not decided at all.
func TestMemoryIsFlat(t *testing.T) {
	t.Parallel()
	w := newWorker(t, wasm)
	r := w.startRedis()
	i := w.load(`{"redis": {"cluster": "redis"}, "headers": ["x-ratelimit", "draft"], "deny_cache": {"size": 100},
		"rules": [
		{"name": "a", "key": [{"header": "x-client", "hash": true}, {"path": true}], "limits": [
			{"algorithm": "gcra", "limit": 3, "window": "1h"},
				{"algorithm": "sliding_window_counter", "limit": 1000, "window": "1d"}]},
		{"name": "b", "limits": [{"algorithm": "token_bucket", "limit": 1000000, "window": "1s"}]}]}`)
	host := w.host
	const batch, warm = 100, 10_000
	total := warm + 30_000/testenv.Stride()
	pages := uint32(0)
	for n := 0; n < total; n += batch {
		var all []*exchange
		for k := range batch {
			all = append(all, i.get(fmt.Sprintf("/some/path/%d", n%700), "x-client", fmt.Sprint(n+k/4), "user-agent", "test"))
		}
		all[n/batch%batch].End()
		if n/batch%50 == 49 {
			r.Last().Close(wasmhost.GRPCInternal)
		}
		r.settle()
		i.wait(10 * time.Millisecond)
		for k, x := range all {
			if k != n/batch%batch {
				x.end()
			}
		}
		if n == warm {
			pages = host.MemoryPages()
		}
	}
	if got := host.MemoryPages(); got > doubling*pages {
		t.Errorf("%d pages after %d requests, %d after %d", got, total, pages, warm)
	}
	t.Logf("%d pages of 64 KiB; allocator %s", pages, host.Allocator())
}

// A configuration that was taken away leaves nothing in the guest.
func TestReloadsLeaveNothing(t *testing.T) {
	t.Parallel()
	w := newWorker(t, wasm)
	const warm = 100
	total := warm + 700/testenv.Stride()
	pages := uint32(0)
	i := w.load(`{"rules": [` + perClient("a", 9) + `]}`)
	for n := range total {
		next := w.load(`{"rules": [` + perClient("a", 9) + `]}`)
		i.get("/", client("x")...).end()
		i.Close()
		i = next
		if n == warm {
			pages = w.host.MemoryPages()
		}
	}
	if got := w.host.MemoryPages(); got > doubling*pages {
		t.Errorf("%d pages after %d reloads, %d after %d", got, total, pages, warm)
	}
	t.Logf("%d pages of 64 KiB", pages)
}
