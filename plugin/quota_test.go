package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// quotaOf is a configuration whose clients read the limits of rules.
func quotaOf(top, listed string, rules ...string) string {
	return fmt.Sprintf(`{%s "quota": {"path": "/.well-known/quota", "rules": [%s]}, "rules": [%s]}`,
		top, listed, strings.Join(rules, ", "))
}

const (
	perClientRule = `{"name": "per-client", "match": {"path": {"prefix": "/api"}}, "key": [{"header": "x-client"}],
		"limits": [
		{"algorithm": "gcra", "limit": 2, "window": "1m", "burst": 5},
		{"algorithm": "fixed_window", "limit": 100, "window": "1h", "anchor": "first_request"}]}`
	monthlyRule = `{"name": "monthly", "mode": "shadow", "key": [{"header": "x-client"}],
		"match": {"path": {"prefix": "/api"}},
		"limits": [{"algorithm": "fixed_window", "limit": 9, "window": "month"}]}`
	flightRule = `{"name": "flight", "key": [{"header": "x-client"}], "match": {"path": {"prefix": "/api"}},
		"limits": [{"algorithm": "concurrency", "limit": 20}]}`
)

// askQuota reads the quota as a client, and returns the body.
func (i *instance) askQuota(x *exchange) string {
	i.worker.t.Helper()
	defer x.End()
	local := x.local()
	testenv.Same(x.t, "the status", local.Status, 200)
	testenv.Same(x.t, "the outcome", x.outcome(), "quota")
	testenv.Same(x.t, "the details", local.Details, "quota")
	testenv.SameList(x.t, "the headers", local.Headers, wasmhost.Pairs{
		{"cache-control", "no-store"}, {"content-type", "application/json"},
	})
	return string(local.Body)
}

const quotaPath = "/.well-known/quota"

const penaltyRule = `{"name": "p", "key": [{"header": "x-client"}], "match": {"path": {"prefix": "/api"}},
		"penalty": {"after": 2, "within": "1m", "for": ["10m"]},
		"limits": [{"algorithm": "fixed_window", "limit": 3, "window": "2h", "anchor": "first_request"}]}`

// quota reads the quota when Redis has answered, with times cut to whole minutes: a real Redis has
// its own clock.
func (r *realRedis) quota(i *instance, namesAndValues ...string) string {
	r.t.Helper()
	x := i.get(quotaPath, namesAndValues...)
	r.settle()
	return wholeMinutes(i.askQuota(x))
}

var seconds = regexp.MustCompile(`("reset"|"seconds"):(\d+)`)

func wholeMinutes(body string) string {
	return seconds.ReplaceAllStringFunc(body, func(text string) string {
		name, value, _ := strings.Cut(text, ":")
		n, _ := strconv.Atoi(value)
		return fmt.Sprint(name, ":", (n+59)/60*60)
	})
}

// TestQuotaIsAskedEachTime: all listed rules in one write, and units that a worker has leased count as used.
func TestQuotaIsAskedEachTime(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(quotaOf(`"redis": {"cluster": "redis"},`, `"hot", "p"`, `{"name": "hot", "key": [{"header": "x-client"}],
			"match": {"path": {"prefix": "/api"}}, "limits": [{"algorithm": "fixed_window", "limit": 100, "window": "1h",
			"anchor": "first_request", "lease": {"units": 10, "ttl": "1m"}}]}`, penaltyRule))
		const want = `{"limits":[{"name":"hot","limit":100,"remaining":%d,"reset":%d,"window":3600,"unit":"requests"},` +
			`{"name":"p","limit":3,"remaining":3,"reset":0,"window":7200,"unit":"requests"}]}`
		r.quota(i, client("x")...) // the scripts are known
		w.clock.advance(time.Second)
		before := r.writes()
		testenv.Same(t, "asked", r.quota(i, client("x")...), fmt.Sprintf(want, 100, 0))
		testenv.Same(t, "writes", r.writes()-before, 1)
		r.quota(i, client("x")...)
		testenv.Same(t, "writes for the next", r.writes()-before, 2)
		for range 9 { // of which Redis decides some, until the worker has a lease
			x := i.get("/hot", client("x")...)
			r.settle()
			x.end()
			x = i.get("/api/hot", client("h")...)
			r.settle()
			x.end()
		}
		i.wait(time.Millisecond)
		got := r.quota(i, client("h")...)
		charged := r.used("rl:{hot|h}:fixed_window:1h:first")
		if charged < 10 {
			t.Errorf("Redis has charged %d, want a lease", charged)
		}
		if wantHeld := fmt.Sprintf(want, 100-charged, 3600); !strings.HasPrefix(got, wantHeld[:60]) {
			t.Errorf("held: %s, want %s", got, wantHeld)
		}
	})
}

// used is the count of a fixed window that begins with its first request.
func (r *realRedis) used(key string) int {
	r.t.Helper()
	value, err := r.client().Get(context.Background(), key).Result()
	if err != nil || len(value) != 12 {
		r.t.Fatalf("%s: %q, %v", key, value, err)
	}
	return int(binary.LittleEndian.Uint32([]byte(value)[8:]))
}

// TestQuotaBesideOtherRules: what these hold of a request for the quota, slots and a place in a queue,
// they hold until it is over; what its answer is worth settles their charge; and an exempt rule
// changes nothing.
func TestQuotaBesideOtherRules(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(quotaOf("", `"per-client"`,
			`{"name": "known", "exempt": true, "match": {"path": {"prefix": "/.well-known"}}}`, perClientRule,
			`{"name": "slots", "key": [{"header": "x-client"}], "limits": [{"algorithm": "concurrency", "limit": 1}]}`,
			`{"name": "line", "match": {"headers": {"x-line": {"present": true}}}, "limits": [{"algorithm": "leaky_bucket",
				"limit": 1, "window": "1s", "burst": 5, "overflow": "queue"}]}`))
		first := i.get(quotaPath, client("x")...)
		testenv.Same(t, "the first is answered", int(first.local().Status), 200)
		w.expect("a second, meanwhile", i.get(quotaPath, client("x")...).end(),
			result{Status: 429, Outcome: "limited:slots", Limit: 1, RetryAfter: 1})
		first.End()
		i.wait(time.Second)
		third := i.get(quotaPath, client("x")...)
		testenv.Same(t, "a third, later", int(third.local().Status), 200)
		third.End()
		i.get(quotaPath, "x-client", "a", "x-line", "1").End()
		held := i.get(quotaPath, "x-client", "b", "x-line", "1")
		testenv.Same(t, "that one is held", held.waits(), true)
		i.wait(1100 * time.Millisecond)
		if body := i.askQuota(held); !strings.HasPrefix(body, `{"limits":[{"name":"per-client-1m"`) {
			t.Errorf("held: %s", body)
		}
	})
}
