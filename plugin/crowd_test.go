package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/twinredis"
)

// floodRequest is one of many requests that come at once.
type floodRequest struct {
	*exchange
	user     int
	left     bool
	verdict  time.Duration // after its arrival; 0: none yet
	exited   bool
	admitted bool
}

// flooded is many requests at once to one worker, whose Redis answers all that has come by then
// every so often.
type flooded struct {
	*simulation
	every time.Duration // 0: never

	sinceReply time.Duration
	requests   []*floodRequest
}

// floodConfig is a configuration of these rules.
func floodConfig(mode string, pending int, cache string, rules ...string) string {
	return fmt.Sprintf(`{"redis": {"cluster": "redis"}, "failure": {"mode": %q, "max_pending": %d}, %s "rules": [%s]}`,
		mode, pending, cache, strings.Join(rules, ", "))
}

const (
	floodUser = `{"name": "u", "key": [{"header": "x-user"}], ` +
		`"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 10, "window": "1d"}]}`
	floodAll   = `{"name": "all", "limits": [{"algorithm": "gcra", "limit": 1000000, "window": "1s"}]}`
	floodLease = `{"name": "u", "key": [{"header": "x-user"}], ` +
		`"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 10, "window": "1d", ` +
		`"lease": {"ttl": "200ms"}}]}`
	floodTerms = `{"name": "u", "key": [{"header": "x-user"}], "overrides": true,
		"penalty": {"after": 5, "within": "1m", "for": ["1h"]}, "limits": [
		{"algorithm": "fixed_window", "anchor": "first_request", "limit": 20, "window": "1d"}]}`
	floodSlots2 = `{"name": "all", "limits": [{"algorithm": "concurrency", "limit": 100}]}`
	floodSlots  = `{"name": "u", "key": [{"header": "x-user"}], "limits": [{"algorithm": "concurrency", "limit": 10}]}`
)

// newFlooded starts a worker that knows Redis, and that Redis knows.
func newFlooded(t *testing.T, every time.Duration, text string) *flooded {
	v := &simulation{
		t: t, random: rand.New(rand.NewPCG(1, 1)), guests: map[*worker]*nativeGuest{},
		charged: map[string]int64{}, exits: map[*worker]int{}, outcomes: map[string]int64{}, passed: map[string]int{},
	}
	v.redis = twinredis.New()
	v.start(1)
	v.install(text)
	o := &flooded{simulation: v, every: every}
	first := o.current[0].get("/", "x-user", "before")
	o.serveAll()
	first.respond()
	first.End()
	o.advance(20 * time.Millisecond)
	return o
}

// arrive brings a request of one of so many users, each in turn.
func (o *flooded) arrive(users int) {
	user := len(o.requests) % users
	o.requests = append(o.requests, &floodRequest{user: user, exchange: o.current[0].get("/", "x-user", fmt.Sprint(user))})
}

// settle passes time, a millisecond at a time, until all requests are let go, or answered.
func (o *flooded) settle() {
	began := o.clock.now
	for {
		left, passed := 0, o.clock.now.Sub(began)
		for _, r := range o.requests {
			if r.left || r.exited {
				continue
			}
			if r.verdict == 0 && r.outcome() != "" {
				r.verdict = max(passed, 1)
			}
			r.exited, r.admitted = !r.waits(), r.Local == nil
			if !r.exited {
				left++
			}
		}
		if left == 0 {
			return
		}
		if passed > time.Minute {
			o.t.Fatalf("%d requests still wait", left)
		}
		o.passMilli()
	}
}

// passMilli passes a millisecond.
func (o *flooded) passMilli() {
	o.advance(time.Millisecond)
	if o.sinceReply += time.Millisecond; o.every > 0 && o.sinceReply >= o.every {
		o.sinceReply = 0
		o.reply()
	}
}

// reply brings the replies to all commands that have been sent by now.
func (o *flooded) reply() {
	for _, c := range o.conns {
		if c.serve(1 << 20); len(c.outbox) > 0 {
			c.deliver(len(c.outbox))
		}
	}
}

// wantBound fails if a request had no verdict within the timeout and a tick. A callback finds
// some hundred verdicts, and the next one is a millisecond later.
func (o *flooded) wantBound() {
	o.t.Helper()
	const callback = 512
	bound := 50*time.Millisecond + tickOf(50*time.Millisecond) + timerStep +
		time.Duration(len(o.requests)/callback)*time.Millisecond
	for i, r := range o.requests {
		if !r.left && r.verdict > bound {
			o.t.Fatalf("request %d had its verdict after %v, want %v at most", i, r.verdict, bound)
		}
	}
}

// admitted is how many requests of each user were admitted, at least and at most.
func (o *flooded) admittedEach(users int) (least, most int) {
	of := make([]int, users)
	for _, r := range o.requests {
		if r.admitted {
			of[r.user]++
		}
	}
	least = len(o.requests)
	for _, n := range of {
		least, most = min(least, n), max(most, n)
	}
	return least, most
}

// However many requests clients send at once, each is admitted its limit and no more, in every
// failure mode, and has its verdict within the bound.
func TestFloodsAreAdmittedTheirLimit(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tc := range []struct {
		name            string
		requests, users int
		every           time.Duration
		text            string
	}{
		{"one client", 12_000, 1, 20 * ms, floodConfig("allow", 4096, "", floodUser)},
		{"one client, 72,000", 72_000, 1, 20 * ms, floodConfig("allow", 4096, "", floodUser)},
		{"replies at the last moment", 12_000, 1, 45 * ms, floodConfig("allow", 4096, "", floodUser)},
		{"few may wait", 12_000, 1, 20 * ms, floodConfig("allow", 16, "", floodUser)},
		{"one may wait", 12_000, 1, 20 * ms, floodConfig("allow", 1, "", floodUser)},
		{"no deny cache", 12_000, 1, 20 * ms, floodConfig("allow", 4096, `"deny_cache": {"size": 0},`, floodUser)},
		{
			"no deny cache, few may wait", 12_000, 1, 20 * ms,
			floodConfig("allow", 16, `"deny_cache": {"size": 0},`, floodUser),
		},
		{"slots", 12_000, 1, 20 * ms, floodConfig("allow", 4096, "", floodSlots)},
		{"several rules", 12_000, 1, 20 * ms, floodConfig("allow", 4096, "", floodAll, floodUser)},
		{
			"several rules, no deny cache", 12_000, 1, 20 * ms,
			floodConfig("allow", 16, `"deny_cache": {"size": 0},`, floodUser, floodAll),
		},
		{"two clients", 12_000, 2, 20 * ms, floodConfig("allow", 4096, "", floodUser)},
		{"two clients, few may wait", 12_000, 2, 20 * ms, floodConfig("allow", 16, "", floodUser)},
		{"a client each connection", 12_000, 12, 20 * ms, floodConfig("allow", 4096, "", floodUser)},
		{"72 of them", 36_000, 72, 20 * ms, floodConfig("allow", 4096, "", floodUser)},
		{"a lease", 12_000, 1, 20 * ms, floodConfig("allow", 4096, "", floodLease)},
		{"an override and a penalty", 12_000, 1, 20 * ms, floodConfig("allow", 4096, "", floodTerms)},
		{
			"an override and a penalty, few may wait", 12_000, 1, 20 * ms,
			floodConfig("allow", 16, `"deny_cache": {"size": 0},`, floodTerms),
		},
		{"mode local", 12_000, 1, 20 * ms, floodConfig("local", 4096, "", floodUser)},
		{"mode deny", 12_000, 1, 20 * ms, floodConfig("deny", 4096, "", floodUser)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := newFlooded(t, tc.every, tc.text)
			o.redis.Set("rl:{u|0}:override", "x0.5", 0, o.redisMicros())
			for range min(tc.requests, 120_000/testenv.Stride()) {
				o.arrive(tc.users)
			}
			o.settle()
			o.wantBound()
			if least, most := o.admittedEach(tc.users); least != 10 || most != 10 {
				t.Errorf("a user was admitted %d to %d requests, want 10", least, most)
			}
		})
	}
}

// Of very many clients each is admitted its limit at most: where the timeout is over for requests
// of the same client that Redis has not decided yet, the worker lends no unit twice.
func TestFloodOfManyClients(t *testing.T) {
	t.Parallel()
	clients := 1000 / testenv.Stride()
	o := newFlooded(t, 20*time.Millisecond, floodConfig("allow", 4096, "", floodUser))
	for range 36 * clients {
		o.arrive(clients)
	}
	o.settle()
	o.wantBound()
	if least, most := o.admittedEach(clients); least < 8 || most > 10 {
		t.Errorf("a user was admitted %d to %d requests, want 10 at most", least, most)
	}
}

// As many identities as max_pending are all decided, and of more nearly all. Whatever the crowd
// is, and whatever Redis does, none waits beyond the bound.
func TestCrowdsAreBounded(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tc := range []struct {
		name            string
		requests, users int
		every           time.Duration
		pending         int
		decided         int
	}{
		{"4,096 identities", 4096, 4096, 20 * ms, 4096, 4096},
		{"6,000 identities", 6000, 6000, 20 * ms, 4096, 6000},
		{"6,000 identities, few may wait", 6000, 6000, 20 * ms, 16, 16 * 3},
		{"Redis hangs", 6000, 6000, 0, 4096, 0},
		{"Redis hangs, few may wait", 6000, 6000, 0, 16, 0},
		{"Redis answers too late", 6000, 6000, 70 * ms, 4096, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := newFlooded(t, tc.every, floodConfig("deny", tc.pending, "", floodUser))
			for range tc.requests {
				o.arrive(tc.users)
			}
			o.settle()
			o.wantBound()
			decided := 0
			for _, r := range o.requests {
				decided += btoi(r.outcome() == "allowed")
			}
			if decided != tc.decided {
				t.Errorf("%d were decided, want %d", decided, tc.decided)
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
