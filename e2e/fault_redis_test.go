package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// absent is a Redis that has been killed.
func absent(t testing.TB, args ...string) *redistest.Server {
	t.Helper()
	server := redistest.Start(t, args...)
	server.Kill()
	return server
}

func TestRedisAbsentAtStart(t *testing.T) {
	t.Parallel()
	server := absent(t)
	o := launchOutage(t, outageTimeout, envoytest.Options{Redis: []string{server.Addr}})
	o.client = server.Client()
	o.await(20)
	o.expectModes()
	o.reload()
	o.expectModes()
	server.Restart()
	o.expectDecided()
	o.finish()
}

// TestRedisFails: Redis is killed, full, and no primary any more, one after the other. It is restarted
// three times, and ends all connections, with requests under way.
func TestRedisFails(t *testing.T) {
	t.Parallel()
	o := startOutage(t, outageTimeout, envoytest.Options{})
	do := func(args ...any) func() {
		return func() {
			if err := o.client.Do(ctx, args...).Err(); err != nil {
				t.Fatalf("%v: %v", args, err)
			}
		}
	}
	other := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	for _, fault := range []struct {
		begin, heal func()
		said        string // by Redis
	}{
		{begin: o.redis.Kill, heal: o.redis.Restart}, // it has lost its keys
		{do("CONFIG", "SET", "maxmemory", "1"), do("CONFIG", "SET", "maxmemory", "0"), "OOM"},
		{func() { // another server is the primary now
			do("REPLICAOF", "127.0.0.1", other.Port)()
			testenv.Wait(t, patience, func() error { // https://redis.io/docs/latest/commands/role/
				role, err := o.client.Do(ctx, "ROLE").Slice()
				if err == nil && (role[0] != "slave" || role[3] != "connected") {
					err = fmt.Errorf("role %v, want a connected replica", role)
				}
				return err
			})
		}, do("REPLICAOF", "NO", "ONE"), "READONLY"},
	} {
		fault.begin()
		o.expectModes()
		o.reload()
		o.expectModes()
		fault.heal()
		o.expectDecided()
		testenv.Same(t, "that the log has "+fault.said, strings.Contains(o.Log(), fault.said), true)
	}
	for range 3 {
		o.redis.Restart()
		o.await(20)
		o.reload()
		o.expectDecided()
	}
	for range 10 {
		do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")()
		o.await(10)
	}
	o.expectDecided()
	o.finish()
}

func TestRedisKilledBehindRedisProxy(t *testing.T) {
	t.Parallel()
	o := startOutage(t, outageTimeout, envoytest.Options{Route: envoytest.Proxy})
	o.redis.Kill()
	o.expectModes()
	o.reload()
	o.expectModes()
	o.redis.Restart()
	o.expectDecided()
	o.finish()
}

func TestRedisStopped(t *testing.T) {
	t.Parallel()
	o := startOutage(t, outageTimeout, envoytest.Options{})
	o.redis.Signal(syscall.SIGSTOP)
	woken := time.After(5 * time.Second)
	o.expectModes()
	o.reload()
	o.expectModes()
	<-woken
	const connections = "cluster.redis.upstream_cx_active" // of 3 listeners in 2 workers, before and after the reload
	if n := o.Stats(connections)[connections]; n > 12 {
		t.Errorf("Envoy has gathered %d connections to a Redis that hangs", n)
	}
	o.await(200)
	requests := 0
	for _, l := range o.loads {
		requests += l.total()
	}
	const timeouts = "wasmcustom.sluice.redis.cause.timeout.errors_total"
	if n := int(o.Stats(timeouts)[timeouts]); n == 0 || n > requests/2 {
		t.Errorf("%d of %d requests have waited; want few, as none waits while the breaker is open", n, requests)
	}
	o.redis.Signal(syscall.SIGCONT)
	o.expectDecided()
	o.finish()
}

// TestScriptsFlushed: NOSCRIPT is answered with EVAL, and no mode applies.
func TestScriptsFlushed(t *testing.T) {
	t.Parallel()
	o := startOutage(t, patience, envoytest.Options{})
	for range 20 {
		testenv.OK(t, o.client.ScriptFlush(ctx).Err())
		o.await(5)
	}
	o.reload()
	o.expectDecided()
	o.finish()
	requests := 0
	for _, l := range o.loads {
		requests += l.total()
	}
	for _, entry := range o.LoggedAll(requests) {
		if entry.State != "allowed" && entry.State != "none" {
			t.Fatalf("%+v: not decided by Redis", entry)
		}
	}
}

// TestRedisBlockedByScript: for two seconds Redis answers nothing, then -BUSY.
func TestRedisBlockedByScript(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--lua-time-limit", "500")
	o := launchOutage(t, outageTimeout, envoytest.Options{Redis: []string{server.Addr}})
	o.client = server.Client()
	o.settle()
	const block = `local t = redis.call('TIME') local stop = t[1] * 1000000 + t[2] + 2000000
		repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] >= stop return 1`
	done := make(chan error, 1)
	blocker := server.Client()
	go func() { done <- blocker.Do(ctx, "EVAL", block, 0).Err() }()
	o.reload()
	if err := <-done; err != nil {
		t.Errorf("the blocking script: %v", err)
	}
	o.expectDecided()
	o.finish()
	testenv.Same(t, "that the log has BUSY", strings.Contains(o.Log(), "BUSY"), true)
}

// TestRecoveryFromLocal: back from the embedded store, the counters are Redis' as
// they were, and what was admitted meanwhile does not count there.
func TestRecoveryFromLocal(t *testing.T) {
	t.Parallel()
	o := startOutage(t, time.Second, envoytest.Options{})
	url := o.urls["local"] + "/tight?u=steady"
	if got := burst(t, 2, 1, []string{url}); got[http.StatusOK] != 2 {
		t.Errorf("%v; want 2 of status 200", got)
	}
	o.redis.Signal(syscall.SIGSTOP)
	got := burst(t, 5, 1, []string{url})
	expectTally(t, "while Redis hangs and the embedded store begins anew", got,
		tally{http.StatusOK: 3, http.StatusTooManyRequests: 2})
	o.redis.Signal(syscall.SIGCONT)
	o.expectDecided()
	if got := burst(t, 2, 1, []string{url}); got[http.StatusOK] > 1 || got[http.StatusTooManyRequests] == 0 {
		t.Errorf("afterwards: %v; want 1 of status 200 at most, as Redis counted 2 before", got)
	}
	o.finish()
}
