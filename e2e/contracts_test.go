package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// contractRules have a rule whose tiers come from overrides alone: of one of them the limit and the
// cost come with the request.
const contractRules = `{` + patient + `"headers": ["draft"], "rules": [
	{"name": "c", "match": {"path": "/c"}, "key": [{"query": "u"}], "overrides": true,
		"cost": {"header": "x-cost", "default": 1, "max": 9}, "limits_by": {"default": "free", "values": {
		"free": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 5, ` + long + `}],
		"pro": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 50, ` + long + `, "name": "requests"},
			{"algorithm": "gcra", "limit": 400, "window": "300d", "name": "burst"}],
		"own": [{"algorithm": "gcra", "limit": {"header": "x-limit", "default": 9, "max": 99}, "window": "300d"}],
		"staff": "unlimited"}}},
	{"name": "d", "match": {"path": "/d"}, "key": [{"query": "u"}], "limits": [
		{"algorithm": "fixed_window", "anchor": "first_request", "limit": 5, ` + long + `}]}]}`

// TestContractsAreExact: tiers and numbers take over what was used, in units, on all Envoys, each
// within a second.
func TestContractsAreExact(t *testing.T) {
	t.Parallel()
	onEachRedis(t, contractRules, func(t *testing.T, e *twoEnvoys) {
		admitted := 0
		for _, step := range []struct {
			value string
			most  int // in all
		}{
			{"", 5},
			{"tier:pro", 50},
			{"tier:free", 50},
			{"limits:c=70", 70},
			{"tier:gold", 70},     // no tier: as configured
			{"limits:gold=9", 70}, // no limit
			{"x20", 100},
			{"limits:c=0", 100},
			{"tier:staff", 300},
			{"tier:pro", 300},
		} {
			e.set("c|f", step.value, 0)
			time.Sleep(time.Second)
			got := burst(t, 200, 20, e.urls("/c?u=f"))
			admitted += got[http.StatusOK]
			testenv.Same(t, step.value+": admitted in all", admitted, step.most)
			testenv.Same(t, step.value+": answers", got[http.StatusOK]+got[http.StatusTooManyRequests], 200)
		}
	})
}

// TestContractAtFirstSight: the very first request that a worker sees of an identity is decided by its
// contract, in two round trips, with what its tier reads of the request.
func TestContractAtFirstSight(t *testing.T) {
	t.Parallel()
	onEachRedis(t, contractRules, func(t *testing.T, e *twoEnvoys) {
		for i, tc := range []struct {
			value   string
			headers []string
			want    string // RateLimit
		}{
			{"", nil, `"c";r=4;`},
			{"tier:pro", nil, `"requests";r=49;`},
			{"tier:pro", []string{"x-cost: 9"}, `"requests";r=41;`},
			{"tier:own", nil, `"c";r=8;`},
			{"tier:own", []string{"x-limit: 77", "x-cost: 7"}, `"c";r=70;`},
			{"limits:c=1000", []string{"x-cost: 3"}, `"c";r=997;`},
			{"x3", []string{"x-cost: 2"}, `"c";r=13;`},
		} {
			user := fmt.Sprintf("first-%d", i)
			e.set("c|"+user, tc.value, 0)
			r := get(t, e.both[i%2].URL+"/c?u="+user, tc.headers...)
			what := fmt.Sprintf("%s, %q", tc.value, tc.headers)
			testenv.Same(t, what+": status", r.status, http.StatusOK)
			if got := r.header.Get("RateLimit"); !strings.HasPrefix(got, tc.want) {
				t.Errorf("%s: RateLimit is %s, want %s", what, got, tc.want)
			}
		}
	})
}

// TestContractsWhileRedisIsAway: mode local goes by what the worker remembers: tiers, numbers, blocks
// and who is free, each as long as it lasts.
func TestContractsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	plugin := strings.Replace(contractRules, patient,
		`"redis": {"cluster": "redis", "timeout": "10s"}, "failure": {"mode": "local"}, `, 1)
	e := &twoEnvoys{t: t, client: server.Client()}
	e.both[0] = start(t, plugin, envoytest.Options{Redis: []string{server.Addr}, Workers: 1})
	contracts := map[string]string{"a": "tier:pro", "b": "limits:c=9", "c": "block", "d": "free", "e": "x2", "f": ""}
	for user, value := range contracts {
		e.set("c|"+user, value, 0)
		get(t, e.both[0].URL+"/c?u="+user)
	}
	brief := map[string]string{"g": "block", "h": "free", "i": "limits:c=1000000"}
	for user, value := range brief {
		e.set("c|"+user, value, 3*time.Second)
		get(t, e.both[0].URL+"/c?u="+user)
	}
	server.Kill()
	testenv.Wait(t, patience, func() error { // the breaker opens, and the embedded store decides
		if r := get(t, e.both[0].URL+"/d?u="+fmt.Sprint(time.Now().UnixNano())); r.status != http.StatusOK {
			return fmt.Errorf("status %d", r.status)
		}
		return nil
	})
	for user, want := range map[string]tally{
		"a": {200: 50, 429: 10}, "b": {200: 9, 429: 51}, "c": {429: 60}, "d": {200: 60}, "e": {200: 10, 429: 50},
		"f": {200: 5, 429: 55},
	} {
		expectTally(t, "who has "+contracts[user], burst(t, 60, 4, []string{e.both[0].URL + "/c?u=" + user}), want)
	}
	for user, status := range map[string]int{"g": http.StatusOK, "h": limitedStatus, "i": limitedStatus} {
		testenv.Wait(t, patience, func() error { // it ends, and a limit of five is in force
			if r := get(t, e.both[0].URL+"/c?u="+user); r.status != status {
				return fmt.Errorf("who had %s: status %d, want %d", brief[user], r.status, status)
			}
			return nil
		})
	}
}

// TestContractThatChangesTwice: an override that has changed again by the second call leaves the request
// undecided. It is charged nothing, and the next one is decided.
func TestContractThatChangesTwice(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	var restless atomic.Bool
	carry := func(to io.Writer, from io.Reader) { // before each command the operator changes the override
		piece := make([]byte, 64<<10)
		for n, err := from.Read(piece); err == nil; n, err = from.Read(piece) {
			if restless.Load() {
				client.Set(ctx, "rl:{c|a}:override", fmt.Sprint("x2.", 100+client.Incr(ctx, "changes").Val()), 0)
			}
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
	}
	s := start(t, contractRules, envoytest.Options{
		Redis: []string{newWireWith(t, server.Addr, carry).addr}, Workers: 1,
	})
	s.client = client
	s.contract(t, "c|warm", "x2")
	get(t, s.URL+"/c?u=warm") // Redis knows the script from here on
	awaitTrial(t, s)
	restless.Store(true)
	for range 2 {
		before := s.evals(t)
		testenv.Same(t, "restless: status", get(t, s.URL+"/c?u=a").status, http.StatusServiceUnavailable)
		testenv.Same(t, "restless: calls", s.evals(t)-before, 2)
	}
	restless.Store(false)
	r := get(t, s.URL+"/c?u=a")
	if got := r.header.Get("RateLimit"); !strings.HasPrefix(got, `"c";r=9;`) {
		t.Errorf("at rest: status %d, RateLimit is %s, want 9 of 10 left", r.status, got)
	}
}

// TestContractThatNeverRests: an override that changes all the time, and scripts that are gone all the
// time, are no failure of Redis: the limits of everybody else stay exact.
func TestContractThatNeverRests(t *testing.T) {
	t.Parallel()
	onEachRedis(t, contractRules, func(t *testing.T, e *twoEnvoys) {
		done, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			values := []string{"tier:pro", "tier:staff", "x2", "limits:c=5", "free", "nonsense"}
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
					e.client.Set(ctx, "rl:{c|restless}:override", values[i%len(values)], 0)
					if i%50 == 0 {
						e.client.ScriptFlush(ctx)
					}
				}
			}
		}()
		burst(t, 1000, 20, e.urls("/c?u=restless"))
		expectTally(t, "somebody else", burst(t, 200, 20, e.urls("/d?u=other")), tally{200: 5, 429: 195})
		close(done)
		<-stopped
	})
}
