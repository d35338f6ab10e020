package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// rest has the units left of all limits, as a request that costs nothing learns.
func rest(t *testing.T, url string, headers ...string) string {
	t.Helper()
	r := get(t, url, append(headers, "x-cost: 0")...)
	return resetMember.ReplaceAllString(r.header.Get("ratelimit"), "")
}

var resetMember = regexp.MustCompile(`;t=\d+`)

// expectSettlements waits until so many settlements are counted.
func expectSettlements(t *testing.T, s *setting, sent, lost int) {
	t.Helper()
	const prefix, suffix = "wasmcustom.sluice.redis.event.", ".settlements_total"
	testenv.Wait(t, patience, func() error {
		stats := s.Stats(prefix)
		gotSent, gotLost := stats[prefix+"sent"+suffix], stats[prefix+"lost"+suffix]
		if gotSent != int64(sent) || gotLost != int64(lost) {
			return fmt.Errorf("%d settlements are sent and %d lost, want %d and %d", gotSent, gotLost, sent, lost)
		}
		return nil
	})
}

// inFlight is requests whose answers wait until the test lets them go.
type inFlight struct {
	s       *setting
	let     chan struct{}
	group   sync.WaitGroup
	waiting atomic.Int64
}

func newInFlight(s *setting) *inFlight {
	f := &inFlight{s: s, let: make(chan struct{})}
	s.upstream.Handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("x-wait") != "" {
			f.waiting.Add(1)
			select {
			case <-f.let:
			case <-r.Context().Done():
			}
		}
		obedient(w, r)
	}))
	return f
}

// send sends a request, and returns when the upstream has it.
func (f *inFlight) send(t *testing.T, headers ...string) {
	t.Helper()
	before := f.waiting.Load()
	f.group.Go(func() { get(t, f.s.URL, append(headers, "x-wait: yes")...) })
	testenv.Wait(t, patience, func() error {
		return atLeast(int(f.waiting.Load()-before), 1, "requests with the upstream")
	})
}

// finish lets all answers go.
func (f *inFlight) finish() {
	close(f.let)
	f.group.Wait()
}

// startFallback has the embedded store decide while Redis is dead. Redis keeps what it
// knows when it is killed.
func startFallback(t *testing.T) (s *setting, server *redistest.Server) {
	t.Helper()
	server = redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s = start(t, `{"redis": {"cluster": "redis", "timeout": "5s"}, "deny_cache": {"size": 0},
		"failure": {"mode": "local", "breaker": {"failures": 1, "min_open": "100ms", "max_open": "200ms"}},
		"rules": [{"name": "r", "key": [{"header": "x-user"}], "cost": {"header": "x-cost", "default": 10},
			"limits": [{"algorithm": "sliding_window_log", "limit": 100, `+long+`}],
			"settle": {"status": ["200"], "cost": {"header": "x-tokens", "max": 1000}}}]}`,
		envoytest.Options{Redis: []string{server.Addr}, Workers: 1})
	return s, server
}

// awaitDecidedBy returns when a store decides, as access logs say it.
func (s *setting) awaitDecidedBy(t *testing.T, state string) {
	t.Helper()
	n := 0
	testenv.Wait(t, patience, func() error {
		n++
		path := fmt.Sprintf("/who?%s-%d", state, n)
		get(t, s.URL+path, "x-user: nobody", "x-cost: 0")
		if got := s.Logged(path, 1)[0].State; got != state {
			return fmt.Errorf("the outcome is %s, want %s", got, state)
		}
		return nil
	})
}

// fallbackWorths are the answers to requests that reserve 10, one for each user, and
// what is left of 100 where they are settled.
var fallbackWorths = map[string]struct {
	headers []string
	left    int
}{
	"less":         {[]string{"x-worth: 3"}, 97},
	"more":         {[]string{"x-worth: 60"}, 40},
	"nothing said": {nil, 90},
	"failed":       {[]string{"x-status: 500"}, 100},
}

// beginAll sends a request of each user, and leaves it without a response.
func beginAll(t *testing.T, s *setting) *inFlight {
	t.Helper()
	f := newInFlight(s)
	for user, worth := range fallbackWorths {
		f.send(t, append(worth.headers, "x-user: "+user)...)
	}
	return f
}

// expectAll wants what is left of each user's limit in a store.
func expectAll(t *testing.T, s *setting, store string, left func(user string) int) {
	t.Helper()
	for user := range fallbackWorths {
		t.Run(store+"/"+user, func(t *testing.T) { expectLeft(t, s.URL, left(user), "x-user: "+user) })
	}
}

func reserved(string) int     { return 90 }
func settled(user string) int { return fallbackWorths[user].left }
func untouched(string) int    { return 100 }

// TestSettleInModeLocal: a settlement changes the charge in the store that has it.
func TestSettleInModeLocal(t *testing.T) {
	t.Parallel()
	t.Run("Redis dies before the response", func(t *testing.T) {
		t.Parallel()
		s, server := startFallback(t)
		s.awaitDecidedBy(t, "allowed")
		f := beginAll(t, s)
		server.Kill()
		s.awaitDecidedBy(t, "local:allowed")
		f.finish()
		awaitOver(t, s)
		expectAll(t, s, "embedded", untouched) // it had no part in the charge
		expectSettlements(t, s, 0, 3)          // of the three that differ from the reservation
		server.Restart()
		s.awaitDecidedBy(t, "allowed")
		expectAll(t, s, "Redis", reserved)
	})
	t.Run("Redis dies for a moment", func(t *testing.T) {
		t.Parallel()
		s, server := startFallback(t)
		s.awaitDecidedBy(t, "allowed")
		f := beginAll(t, s)
		server.Restart() // settlements wait for a connection for 3 s
		f.finish()
		s.awaitDecidedBy(t, "allowed")
		expectAll(t, s, "Redis", settled)
	})
	t.Run("Redis was dead at the request", func(t *testing.T) {
		t.Parallel()
		s, server := startFallback(t)
		server.Kill()
		s.awaitDecidedBy(t, "local:allowed")
		f := beginAll(t, s)
		expectAll(t, s, "while it runs", reserved)
		f.finish()
		expectAll(t, s, "embedded", settled)
	})
	t.Run("Redis is back before the response", func(t *testing.T) {
		t.Parallel()
		s, server := startFallback(t)
		server.Kill()
		s.awaitDecidedBy(t, "local:allowed")
		f := beginAll(t, s)
		server.Restart()
		s.awaitDecidedBy(t, "allowed")
		f.finish()
		awaitOver(t, s)
		expectAll(t, s, "Redis", untouched)
		server.Kill()
		s.awaitDecidedBy(t, "local:allowed")
		expectAll(t, s, "embedded", settled)
	})
}
