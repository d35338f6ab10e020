package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// What may happen while there is a crowd.

// pass passes so much time, with replies as ever.
func (o *flooded) pass(d time.Duration) {
	for range d / time.Millisecond {
		o.passMilli()
	}
}

// TestCrowdOverTime: requests that come one after the other for a while, always more than Redis
// can be asked about.
func TestCrowdOverTime(t *testing.T) {
	t.Parallel()
	o := newFlooded(t, 20*time.Millisecond, floodConfig("allow", 64, `"deny_cache": {"size": 0},`, floodUser))
	for range 30 {
		for range 400 {
			o.arrive(1)
		}
		o.passMilli()
	}
	o.settle()
	if _, most := o.admittedEach(1); most != 10 {
		t.Errorf("%d were admitted, want 10", most)
	}
}

// TestRedisHangsInCrowd: what it has said before it hangs still counts.
func TestRedisHangsInCrowd(t *testing.T) {
	t.Parallel()
	o := newFlooded(t, 0, floodConfig("allow", 4096, `"deny_cache": {"size": 0},`, floodUser))
	for range 12_000 {
		o.arrive(1)
	}
	o.pass(10 * time.Millisecond)
	o.reply()
	o.settle()
	if _, most := o.admittedEach(1); most != 10 {
		t.Errorf("%d were admitted, want 10", most)
	}
}

// TestRedisHangsBeforeCrowd: the failure mode decides about all, each within the bound.
func TestRedisHangsBeforeCrowd(t *testing.T) {
	t.Parallel()
	o := newFlooded(t, 0, floodConfig("allow", 4096, "", floodUser))
	for range 3000 {
		o.arrive(1)
	}
	o.settle()
	o.wantBound()
	for i, r := range o.requests {
		if !r.admitted || r.outcome() != "failed:allow" {
			t.Fatalf("request %d: %s", i, r.outcome())
		}
	}
}

// TestClientsLeaveCrowd: of requests that are kept back most end. The others are none the worse
// for it, and nothing is left behind.
func TestClientsLeaveCrowd(t *testing.T) {
	t.Parallel()
	o := newFlooded(t, 20*time.Millisecond, floodConfig("allow", 16, "", floodUser, floodSlots2))
	for range 6000 {
		o.arrive(3)
	}
	o.pass(5 * time.Millisecond)
	for i, r := range o.requests {
		if i%4 > 0 {
			r.left = true
			r.End()
		}
	}
	o.settle()
	o.wantBound()
	if _, most := o.admittedEach(3); most > 10 {
		t.Errorf("%d of one user were admitted, want 10 at most", most)
	}
	o.endAll()
}

// TestReloadInCrowd: the requests that are kept back stay with their configuration, whose end
// waits for them.
func TestReloadInCrowd(t *testing.T) {
	t.Parallel()
	text := floodConfig("allow", 16, "", floodUser)
	o := newFlooded(t, 20*time.Millisecond, text)
	for range 3000 {
		o.arrive(1)
	}
	o.pass(5 * time.Millisecond)
	o.install(text)
	for range 3000 {
		o.arrive(1)
	}
	o.settle()
	if _, most := o.admittedEach(1); most != 10 {
		t.Errorf("%d were admitted, want 10", most)
	}
	o.endAll()
}

// take has Redis admit so many requests of a user, one after the other.
func (o *flooded) take(user string, requests int) {
	o.t.Helper()
	for range requests {
		x := o.current[0].get("/", "x-user", user)
		o.serveAll()
		if x.outcome() != "allowed" {
			o.t.Fatalf("a request of %s: %s", user, x.outcome())
		}
		x.respond()
		x.End()
	}
}

// TestFloodsWithinGuarantees: of a crowd the failure mode admits what guarantee and pool have together, also
// where the last request that Redis has decided was within its guarantee, which hides the pool, and where
// others have taken the pool.
func TestFloodsWithinGuarantees(t *testing.T) {
	t.Parallel()
	const rule = `{"name": "r", "limits": [
		{"name": "pool", "algorithm": "gcra", "limit": %d, "window": "100d"},
		{"name": "each", "algorithm": "gcra", "limit": %d, "window": "100d", "per": [{"header": "x-user"}],
			"guarantee": true}]}`
	for _, tc := range []struct {
		name            string
		pool, guarantee int
		others          int // have taken so much of the pool
		requests, users int
		want            int
	}{
		{"the pool is free", 160, 150, 1, 6000, 1, 159},
		{"the pool is taken but for 10", 160, 150, 150, 6000, 1, 150},
		{"the pool is taken", 160, 150, 160, 6000, 1, 150},
		{"all that the debt has is taken", 160, 310, 310, 6000, 1, 10},
		{"many users share the debt", 100, 5, 1, 6000, 200, 199},
		{"many users, others have taken the pool", 100, 110, 100, 6000, 200, 100},
	} {
		for _, pending := range []int{16, 4096} {
			t.Run(fmt.Sprint(tc.name, ", max_pending ", pending), func(t *testing.T) {
				t.Parallel()
				o := newFlooded(t, 20*time.Millisecond,
					floodConfig("allow", pending, "", fmt.Sprintf(rule, tc.pool, tc.guarantee)))
				o.take("other", tc.others-1) // and one by newFlooded
				for range max(tc.requests/testenv.Stride(), 20*tc.users) {
					o.arrive(tc.users)
				}
				o.settle()
				o.wantBound()
				admitted := 0
				for _, r := range o.requests {
					admitted += btoi(r.admitted)
				}
				testenv.Same(t, "admitted", admitted, tc.want)
			})
		}
	}
}

// endAll ends all requests, after which nothing is left of them.
func (o *flooded) endAll() {
	o.t.Helper()
	for _, r := range o.requests {
		if !r.left {
			r.End()
		}
	}
	for range 100 {
		o.serveAll()
		o.advance(20 * time.Millisecond)
	}
	for _, l := range o.guests[o.workers[0]].limiters() {
		if n := l.conn.InFlight(); n != 0 || !l.conn.Idle() {
			o.t.Errorf("%d requests are in flight, idle %v", n, l.conn.Idle())
		}
	}
	if o.failed != "" {
		o.t.Error(o.failed)
	}
}
