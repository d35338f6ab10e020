package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/scenario"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// What may happen to a crowd, beside what floods.txt in package scenario has.

const floodRules = `{"redis": {"cluster": "redis"}, "failure": {"max_pending": %d}, "rules": [
	{"name": "u", "key": [{"header": "x-user"}],
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 10, "window": "1d"}]},
	{"name": "all", "limits": [{"algorithm": "concurrency", "limit": 100000}]}]}`

// newFlood is a worker that knows Redis, which answers every 20 ms from then on.
func newFlood(t *testing.T, pending int) *virtualWorld {
	t.Helper()
	v := &virtualWorld{world: native}
	v.Load(t, scenario.New(t, "flood", scenario.Redis, fmt.Sprintf(floodRules, pending)))
	v.Send(t, []scenario.Request{{Method: "GET", Path: "/", Headers: [][2]string{{"x-user", "before"}}}})
	v.Late(20 * time.Millisecond)
	return v
}

// flood brings so many requests of so many users, each in turn.
func (v *virtualWorld) flood(n, users int) []*exchange {
	user := [2]string{"x-user", fmt.Sprintf("%%%d", users)}
	return v.openEach(n, &scenario.Request{Method: "GET", Path: "/", Headers: [][2]string{user}})
}

// Of very many clients each is admitted its limit at most: where the timeout is over for requests
// of the same client that Redis has not decided yet, the worker lends no unit twice.
func TestFloodOfManyClients(t *testing.T) {
	t.Parallel()
	clients := 1000 / testenv.Stride()
	v := newFlood(t, 4096)
	all := v.flood(36*clients, clients)
	v.Pass(time.Second)
	admitted := make([]int, clients)
	for i, x := range all {
		if !x.waits() && x.Local == nil {
			admitted[i%clients]++
		}
	}
	testenv.Within(t, "the fewest that a client was admitted", slices.Min(admitted), 8, 10)
	testenv.Within(t, "the most", slices.Max(admitted), 8, 10)
}

// Of requests that are kept back most end. The others are none the worse for it, and nothing is left behind.
func TestClientsLeaveCrowd(t *testing.T) {
	t.Parallel()
	v := newFlood(t, 16)
	all := v.flood(6000, 3)
	v.Pass(5 * time.Millisecond)
	admitted := 0
	for i, x := range all {
		if i%4 > 0 {
			x.End()
		}
	}
	v.Pass(time.Second)
	for i, x := range all {
		if i%4 > 0 {
			continue
		}
		if x.waits() {
			t.Fatalf("request %d still waits", i)
		}
		if x.Local == nil {
			admitted++
		}
		x.End()
	}
	testenv.Within(t, "admitted of three users", admitted, 1, 30)
	v.Late(0)
	testenv.Same(t, "requests in flight", v.Metrics()["redis.in_flight_requests"], 0)
}

// The requests that are kept back stay with their configuration, whose end waits for them.
func TestReloadInCrowd(t *testing.T) {
	t.Parallel()
	v := newFlood(t, 16)
	all := v.flood(3000, 1)
	v.Pass(5 * time.Millisecond)
	old := v.instance
	v.instance = v.worker.load(fmt.Sprintf(floodRules, 16))
	old.Close()
	all = append(all, v.flood(3000, 1)...)
	pass := func() {
		for range 1000 {
			v.Pass(time.Millisecond)
			old.wait(0)
		}
	}
	pass()
	admitted := 0
	for i, x := range all {
		if x.waits() {
			t.Fatalf("request %d still waits", i)
		}
		if x.Local == nil {
			admitted++
		}
		x.End()
	}
	testenv.Same(t, "admitted", admitted, 10)
	pass()
	testenv.Same(t, "that the replaced configuration has ended", old.Closed(), true)
}
