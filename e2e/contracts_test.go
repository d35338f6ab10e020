package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

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

// contractThatChangesTwice: an override that has changed again by the second call leaves the request
// undecided. It is charged nothing, and the next one is decided.
var contractThatChangesTwice = func() plain {
	var restless atomic.Bool
	return plain{
		name: "a contract that changes twice", config: contractRules, worker: true,
		own: func(t *testing.T, s *setting) string {
			s.redis = redistest.Start(t)
			client := s.redis.Client()
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
			return newWire(t, s.redis.Addr, carry).addr
		},
		play: func(t *testing.T, s *setting) {
			testenv.OK(t, s.client.Set(ctx, "rl:{c|warm}:override", "x2", 0).Err())
			get(t, s.URL+"/c?u=warm") // Redis knows the script from here on
			awaitTrial(t, s)
			restless.Store(true)
			for range 2 {
				before := scripts(t, s.client)
				testenv.Same(t, "restless: status", get(t, s.URL+"/c?u=a").status, http.StatusServiceUnavailable)
				testenv.Same(t, "restless: calls", scripts(t, s.client)-before, 2)
			}
			restless.Store(false)
			r := get(t, s.URL+"/c?u=a")
			if got := r.header.Get("RateLimit"); !strings.HasPrefix(got, `"c";r=9;`) {
				t.Errorf("at rest: status %d, RateLimit is %s, want 9 of 10 left", r.status, got)
			}
		},
	}
}()

// TestContractThatNeverRests: an override that changes all the time, and scripts that are gone all the
// time, are no failure of Redis: the limits of everybody else stay exact.
func TestContractThatNeverRests(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	client, opts := cluster.Client(), envoytest.Options{Redis: cluster.Addrs(), Route: envoytest.Cluster}
	opts.Beside = map[string]string{"two": contractRules}
	s := start(t, contractRules, opts)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		values := []string{"tier:pro", "tier:staff", "x2", "limits:c=5", "free", "nonsense"}
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
				client.Set(ctx, "rl:{c|restless}:override", values[i%len(values)], 0)
				if i%50 == 0 {
					client.ScriptFlush(ctx)
				}
			}
		}
	}()
	burst(t, 1000, 20, []string{s.URL + "/c?u=restless", s.Beside["two"] + "/c?u=restless"})
	got := burst(t, 200, 20, []string{s.URL + "/d?u=other", s.Beside["two"] + "/d?u=other"})
	expectTally(t, "somebody else", got, tally{200: 5, 429: 195})
	close(done)
	<-stopped
}

// contractOfClientsWhoLeave: clients that have left when Redis names their tier are charged nothing.
var contractOfClientsWhoLeave = plain{
	name: "a contract of clients who leave", config: contractRules, own: redisWith(),
	play: func(t *testing.T, s *setting) {
		testenv.OK(t, s.client.Set(ctx, "rl:{c|a}:override", "tier:pro", 0).Err())
		s.redis.Signal(syscall.SIGSTOP)
		leaving, leave := context.WithCancel(ctx)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() { _, _ = send(leaving, shared, s.URL+"/c?u=a", "x-cost: 5") })
		}
		awaitActive(t, s, 8)
		leave()
		group.Wait()
		awaitActive(t, s, 0)
		s.redis.Signal(syscall.SIGCONT)
		r := get(t, s.URL+"/c?u=a")
		if got := r.header.Get("RateLimit"); !strings.HasPrefix(got, `"requests";r=49;`) {
			t.Errorf("RateLimit is %s, want 49 requests left", got)
		}
	},
}
