package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// kindsOfContracts have tiers of a month and of requests at once, settled by the answer, a penalty, and a
// limit that comes with the request and whose name has to be escaped.
const kindsOfContracts = `{` + patient + `"headers": ["draft"], "rules": [
	{"name": "k", "match": {"path": {"prefix": "/k"}}, "key": [{"header": "x-user"}], "overrides": true,
		"settle": {"status": ["2xx"]}, "limits_by": {"default": "none", "values": {"none": "unlimited",
			"month": [{"algorithm": "fixed_window", "limit": 5, "window": "month"}]}}},
	{"name": "b", "match": {"path": "/hold"}, "key": [{"header": "x-user"}], "overrides": true,
		"limits_by": {"default": "one", "values": {"one": [{"algorithm": "concurrency", "limit": 1}],
			"two": [{"algorithm": "concurrency", "limit": 2}]}}},
	{"name": "p", "match": {"path": "/p"}, "key": [{"header": "x-user"}], "overrides": true,
		"penalty": {"after": 3, "within": "1m", "for": ["5m"]}, "limits_by": {"default": "one", "values": {
			"one": [{"algorithm": "gcra", "limit": 1, "window": "300d"}],
			"four": [{"algorithm": "gcra", "limit": 4, "window": "300d"}]}}},
	{"name": "n", "match": {"path": "/n"}, "key": [{"header": "x-user"}], "overrides": true,
		"limits": [{"name": "a,b=c/d%", "algorithm": "gcra", "limit": {"header": "x-limit", "default": 5, "max": 99},
			"window": "300d"}]}]}`

// contract sets what an operator would.
func (s *setting) contract(t *testing.T, tag, value string) {
	t.Helper()
	if err := s.client.Set(ctx, "rl:{"+tag+"}:override", value, 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// TestContractsOfAllKinds: settlements, calendar windows, slots, penalties and limits that come with the
// request go by the tier or the numbers that an override says.
func TestContractsOfAllKinds(t *testing.T) {
	t.Parallel()
	f := newFlight(0)
	s := startSlots(t, kindsOfContracts, f, envoytest.Options{Workers: 1})
	s.monthAndSlots(t, f)

	s.contract(t, "p|a", "tier:four")
	expectTally(t, "a tier of four", burst(t, 4, 1, []string{s.URL + "/p"}, "x-user: a"), tally{200: 4})
	testenv.Wait(t, patience, func() error { // rejections of one limit are remembered for a moment
		if r := get(t, s.URL+"/p", "x-user: a"); !strings.Contains(r.body, "abnormal-usage-detected") {
			return fmt.Errorf("%d %s, want a block", r.status, r.body)
		}
		return nil
	})

	for i, tc := range []struct{ value, left string }{
		{"", "5"},
		{"limits:a%2Cb%3Dc%2Fd%25=30", "29"},
		{"limits:a%2Cb%3Dc%2Fd%25=30/7", "6"},
		{"limits:a%2Cb%3Dc%2Fd%25=0", "0"},
		{"limits:a,b=c/d%=30", "5"},                          // not escaped
		{"limits:a%2Cb%3Dc%2Fd%25=30,n=9", "5"},              // there is no limit n
		{"tier:gold", "5"},                                   // there are no tiers
		{"limits:" + strings.Repeat("a", 1000) + "=30", "5"}, // too long
	} {
		user := fmt.Sprint(i)
		if tc.value != "" {
			s.contract(t, "n|"+user, tc.value)
		}
		r := get(t, s.URL+"/n", "x-user: "+user, "x-limit: 6")
		got, _, _ := strings.Cut(r.header.Get("RateLimit"), ";t=")
		testenv.Same(t, tc.value+": RateLimit", got, `"a,b=c/d%";r=`+tc.left)
	}
	get(t, s.URL+"/n", "x-user: 4")
	const line = `the override of "n|4" is not valid and is ignored`
	testenv.Same(t, "lines about the first override that is no sense", strings.Count(s.Log(), line), 1)
}

// monthAndSlots uses up a month, whose failures are free, and the slots of a tier.
func (s *setting) monthAndSlots(t *testing.T, f *flight) {
	t.Helper()
	expectTally(t, "a default without limits", burst(t, 20, 4, []string{s.URL + "/k"}, "x-user: a"), tally{200: 20})
	s.contract(t, "k|a", "tier:month")
	expectTally(t, "a month", burst(t, 8, 4, []string{s.URL + "/k"}, "x-user: a"), tally{200: 5, 429: 3})
	s.contract(t, "b|a", "tier:two")
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() { _ = get(t, s.URL+"/hold", "x-user: a") })
	}
	testenv.Wait(t, patience, func() error { return atLeast(int(f.now.Load()), 2, "requests at once") })
	testenv.Same(t, "a third at once", get(t, s.URL+"/hold", "x-user: a").status, http.StatusTooManyRequests)
	for range 2 {
		f.release <- struct{}{}
	}
	group.Wait()
	s.awaitNoSlot(t, "rl:{b|a}:concurrency")
}

// TestContractSettles: a tier that an override names is given back what failed.
func TestContractSettles(t *testing.T) {
	t.Parallel()
	upstream := envoytest.NewUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/k/fail" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	s := start(t, kindsOfContracts, envoytest.Options{Workers: 1, Upstream: upstream.Addr})
	s.contract(t, "k|a", "tier:month")
	for range 5 {
		testenv.Same(t, "a failure", get(t, s.URL+"/k/fail", "x-user: a").status, http.StatusInternalServerError)
	}
	testenv.Wait(t, patience, func() error { // settlements leave with a tick
		const sent = "wasmcustom.sluice.redis.event.sent.settlements_total"
		return atLeast(int(s.Stats("settlements_total")[sent]), 5, "settlements")
	})
	testenv.Wait(t, patience, func() error {
		if r := get(t, s.URL+"/k", "x-user: a"); !strings.Contains(r.header.Get("RateLimit"), ";r=4;") {
			return fmt.Errorf("RateLimit is %q, want 4 left", r.header.Get("RateLimit"))
		}
		return nil
	})
}

// evals is how many scripts Redis has run.
func (s *setting) evals(t *testing.T) (n int) {
	t.Helper()
	text, err := s.client.Info(ctx, "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		var calls int
		for _, command := range []string{"eval", "evalsha"} {
			if _, err := fmt.Sscanf(line, "cmdstat_"+command+":calls=%d", &calls); err == nil {
				n += calls
			}
		}
	}
	return n
}

// TestContractsRoundTrips: one call for an identity without an override, and for one whose override the
// worker remembers; two where it hears of it, or where it has changed.
func TestContractsRoundTrips(t *testing.T) {
	t.Parallel()
	s := start(t, contractRules, envoytest.Options{Workers: 1})
	for _, value := range []string{"tier:pro", "limits:c=70", "x2", ""} { // Redis learns the scripts
		if value != "" {
			s.contract(t, "c|warm"+value, value)
		}
		get(t, s.URL+"/c?u=warm"+value)
	}
	for i, step := range []struct {
		user, value string // "": it stays
		calls       int
	}{
		{"new", "", 1},
		{"new", "", 1},
		{"new", "tier:pro", 2},
		{"new", "", 1},
		{"new", "x2", 2},
		{"new", "limits:c=70", 2},
		{"new", "", 1},
		{"first", "tier:pro", 2},
		{"first", "", 1},
		{"first", "block", 1}, // Redis says it at once
	} {
		if step.value != "" {
			s.contract(t, "c|"+step.user, step.value)
		}
		before := s.evals(t)
		get(t, s.URL+"/c?u="+step.user)
		testenv.Same(t, fmt.Sprintf("step %d, %s %q: calls", i, step.user, step.value), s.evals(t)-before, step.calls)
	}
}

// TestContractOfClientsWhoLeave: clients that have left when Redis names their tier are charged nothing.
func TestContractOfClientsWhoLeave(t *testing.T) {
	t.Parallel()
	s := start(t, contractRules, envoytest.Options{})
	s.contract(t, "c|a", "tier:pro")
	s.redis.Signal(syscall.SIGSTOP)
	leaving, leave := context.WithCancel(ctx)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { _, _ = send(leaving, shared, s.URL+"/c?u=a", "x-cost: 5") })
	}
	const active = "http.limited.downstream_rq_active"
	testenv.Wait(t, patience, func() error { return atLeast(int(s.Stats(active)[active]), 8, "requests that wait") })
	leave()
	group.Wait()
	testenv.Wait(t, patience, func() error { return atLeast(-int(s.Stats(active)[active]), 0, "requests that left") })
	s.redis.Signal(syscall.SIGCONT)
	r := get(t, s.URL+"/c?u=a")
	if got := r.header.Get("RateLimit"); !strings.HasPrefix(got, `"requests";r=49;`) {
		t.Errorf("RateLimit is %s, want 49 requests left", got)
	}
}
