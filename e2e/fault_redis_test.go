package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestRedisFails: Redis is absent at first, is killed, full, no primary any more, hangs and runs a script that does not
// end, one after the other. It is restarted three times, and ends all connections, with requests under way.
func TestRedisFails(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--lua-time-limit", "500")
	server.Kill()
	o := launchOutage(t, outageTimeout, envoytest.Options{Redis: []string{server.Addr}})
	o.client = server.Client()
	o.await(20)
	do := func(args ...any) func() {
		return func() {
			if err := o.client.Do(ctx, args...).Err(); err != nil {
				t.Fatalf("%v: %v", args, err)
			}
		}
	}
	const timeouts = "wasmcustom.sluice.redis.cause.timeout.errors_total"
	var timedOut, before int // of the requests until it hangs
	other := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	for _, fault := range []struct {
		begin, heal func()
		said        string // by Redis
	}{
		{begin: func() {}, heal: server.Restart},
		{begin: func() { server.Kill() }, heal: server.Restart}, // it has lost its keys
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
		{begin: func() {
			timedOut, before = int(o.Stats(timeouts)[timeouts]), o.requests()
			server.Signal(syscall.SIGSTOP)
		}, heal: func() {
			time.Sleep(3 * time.Second) // no request waits while the breaker is open, and listeners have drained
			o.await(200)
			timedOut, before = int(o.Stats(timeouts)[timeouts])-timedOut, o.requests()-before
			testenv.Within(t, "the requests that have waited, of those while Redis hangs", timedOut, 1, before/2)
			const connections = "cluster.redis.upstream_cx_active" // of 3 listeners in 2 workers, before and after a reload
			testenv.Within(t, "connections to a Redis that hangs", o.Stats(connections)[connections], 0, 12)
			server.Signal(syscall.SIGCONT)
		}},
	} {
		fault.begin()
		o.expectModes()
		o.reload()
		o.expectModes()
		fault.heal()
		o.expectDecided()
		testenv.Same(t, "that the log has "+fault.said, strings.Contains(o.Log(), fault.said), true)
	}
	// For two seconds Redis answers nothing, then -BUSY.
	o.client.Do(ctx, "EVAL", `local t = redis.call('TIME') local stop = t[1] * 1000000 + t[2] + 2000000
		repeat t = redis.call('TIME') until t[1] * 1000000 + t[2] >= stop return 1`, 0)
	o.expectDecided()
	testenv.Same(t, "that the log has BUSY", strings.Contains(o.Log(), "BUSY"), true)
	for range 3 {
		server.Restart()
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
	o := launchOutage(t, outageTimeout, envoytest.Options{Route: envoytest.Proxy})
	o.await(50)
	o.expectDecided()
	o.redis.Kill()
	o.expectModes()
	o.reload()
	o.expectModes()
	o.redis.Restart()
	o.expectDecided()
	o.finish()
}

// TestScriptsFlushed: NOSCRIPT is answered with EVAL, and no mode applies.
func TestScriptsFlushed(t *testing.T) {
	t.Parallel()
	o := launchOutage(t, patience, envoytest.Options{})
	o.await(50)
	o.expectDecided()
	for range 20 {
		testenv.OK(t, o.client.ScriptFlush(ctx).Err())
		o.await(5)
	}
	o.reload()
	o.expectDecided()
	o.finish()
	for _, entry := range o.LoggedAll(o.requests()) {
		if entry.State != "allowed" && entry.State != "none" {
			t.Fatalf("%+v: not decided by Redis", entry)
		}
	}
}
