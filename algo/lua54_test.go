package algo

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// startLua54 returns a client of a stand-in for a Redis whose scripts run under Lua 5.4.
func startLua54(t testing.TB) *redis.Client {
	t.Helper()
	program := testenv.Tool(t, "lua5.4")
	address := testenv.Listen(t, func(conn net.Conn) {
		cmd := exec.Command(program, "testdata/redis.lua")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = conn, conn, os.Stderr
		_ = cmd.Run() // that it fails shows in what the client is answered
	})
	client := redis.NewClient(&redis.Options{
		Addr: address, Protocol: 2, DisableIdentity: true, PoolSize: 1, ReadTimeout: time.Minute,
	})
	t.Cleanup(func() { client.Close() })
	return client
}

// TestLua54OnTheClockOfAKey: where Redis refuses TIME the clock goes by the millisecond. Numbers are packed in
// the second and third of the plans.
func TestLua54OnTheClockOfAKey(t *testing.T) {
	t.Parallel()
	client, all := startLua54(t), append(everyLimit, hours)
	for n, limits := range [][]Limit{all, all[:maxPacked], all[len(all)-maxPacked:]} {
		w := newTwins(t, onRedis(client), mustPlan(t, limits...), fmt.Sprint("clock-", n))
		w.withoutTime()
		for now := int64(epoch); now < epoch+200*777_000; now += 777_000 {
			w.forget(t, now)
			a, want := costing(w.Each(1)...), make([]Decision, len(w.keys))
			a.costs[0] = now / 777_000 % 2
			w.Decide(w.states, now, a.costs, want)
			w.pipe.Do(ctx, "CLOCK", now+999)
			w.call(t, w.Script(), 0, slices.Concat(w.keys, w.clock), w.args(a), func(reply *redis.Cmd) {
				r, got, _, err := parseReply(w.Plan, reply)
				testenv.SameError(t, fmt.Sprint("at ", now), err, nil)
				testenv.Same(t, "the time", r.AtMicros, now)
				testenv.SameList(t, fmt.Sprintf("the reply at %d", now), got, want)
			})
		}
	}
}
