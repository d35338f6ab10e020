package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const (
	infoMemory = "# Memory\r\nused_memory:1000\r\nused_memory_rss:9\r\nmaxmemory:4000\r\n" +
		"maxmemory_policy:allkeys-lru\r\n"
	infoStats    = "# Stats\r\nexpired_keys:5\r\nevicted_keys:7\r\n"
	infoKeyspace = "# Keyspace\r\ndb0:keys=12,expires=11,avg_ttl=0,subexpiry=0\r\ndb10:keys=99,expires=0,avg_ttl=0\r\n"
)

// examine lets a worker whose turn it is ask, and answers.
func (r *rig) examine(replies ...string) {
	r.t.Helper()
	r.asks = true
	r.request("a").flush()
	r.allow(1)
	r.pass(minTickMicros)
	r.conn.Tick(r.now)
	if got := r.names(); got != "INFO INFO INFO" {
		r.t.Fatalf("sent %q", got)
	}
	for _, reply := range replies {
		r.answer(reply)
	}
}

// What the server says of itself is read, whatever it leaves out.
func TestServerStats(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		database int64
		replies  [3]string
		want     ServerStats
	}{
		{"all of it", 0, [3]string{infoMemory, infoStats, infoKeyspace}, ServerStats{1000, 4000, 7, 12}},
		{"another database", 10, [3]string{infoMemory, infoStats, infoKeyspace}, ServerStats{1000, 4000, 7, 99}},
		{"a database without keys", 1, [3]string{infoMemory, infoStats, infoKeyspace}, ServerStats{1000, 4000, 7, 0}},
		{"nothing", 0, [3]string{"", "", ""}, ServerStats{Unknown, Unknown, Unknown, Unknown}},
		{
			"no numbers", 0,
			[3]string{
				"used_memory:-1\r\nmaxmemory:1e9\r\n", "evicted_keys:99999999999999999999\r\n",
				"db0:keys=x,expires=1\r\n",
			},
			ServerStats{Unknown, Unknown, Unknown, Unknown},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			options := testOptions()
			options.Database = tc.database
			r := newRig(t, options)
			if tc.database != 0 {
				r.request("a").flush()
				r.answer("+OK\r\n")
				r.allow(1)
			}
			r.examine(bulk(tc.replies[0]), bulk(tc.replies[1]), bulk(tc.replies[2]))
			testenv.Same(t, "the stats", fmt.Sprint(r.stats), fmt.Sprint([]ServerStats{tc.want}))
		})
	}
}

// A worker asks while requests come, and looks whether it is its turn every 30 seconds.
func TestStatsAreAskedAmongRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.pass(ServerStatsMicros)
	r.conn.Tick(r.now)
	testenv.Same(t, "turns without a request", len(r.turns), 0)
	r.examine(bulk(infoMemory), bulk(infoStats), bulk(infoKeyspace))
	began := r.now
	for r.now < began+3*ServerStatsMicros {
		r.request("a").flush()
		r.allow(1)
		r.stall(1000 * ms)
		r.conn.Tick(r.now)
		for range r.commands {
			r.answer(bulk(""))
		}
	}
	testenv.Same(t, "turns in two minutes of requests", len(r.turns), 4)
	for i := 1; i < len(r.turns); i++ {
		testenv.Same(t, "that a turn is 30 s after the last", r.turns[i]-r.turns[i-1] >= ServerStatsMicros, true)
	}
	r.pass(3 * ServerStatsMicros)
	r.conn.Tick(r.now)
	testenv.Same(t, "turns while none comes", len(r.turns), 4)
}

// Where INFO is refused once, it is not asked again on that connection, but on the next.
func TestStatsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	again := func() string {
		r.stall(ServerStatsMicros)
		r.request("a").flush()
		if r.streams > 1 {
			r.prove()
		}
		r.allow(1)
		r.conn.Tick(r.now)
		return r.names()
	}
	r.examine(noInfo, noInfo, noInfo)
	testenv.Same(t, "what is told", len(r.stats), 0)
	testenv.Same(t, "what is sent on the same connection", again(), "")
	r.closeStream()
	testenv.Same(t, "what is sent on the next", again(), "INFO INFO INFO")
	testenv.Same(t, "the breaker", r.conn.State(), Closed)
	testenv.Same(t, "the log", len(r.lines)+len(r.warnings), 0)
}

// A startup check that may not ask INFO is the last to do so on its connection.
func TestStatsAfterRefusedStartupCheck(t *testing.T) {
	t.Parallel()
	r := newRig(t, tryOptions())
	r.asks = true
	r.pass(minTickMicros)
	for _, reply := range []string{noInfo, noInfo, "+OK\r\n"} {
		r.answer(reply)
	}
	testenv.Same(t, "what is sent after it", r.names(), "")
	testenv.Same(t, "turns", len(r.turns), 0)
}

// The startup check is followed by the first reading.
func TestStatsAfterStartupCheck(t *testing.T) {
	t.Parallel()
	r := newRig(t, tryOptions())
	r.asks = true
	r.pass(minTickMicros)
	for _, reply := range []string{
		bulk(infoServer), bulk(primary), "+OK\r\n", bulk(infoMemory), bulk(infoStats),
		bulk(infoKeyspace),
	} {
		r.answer(reply)
	}
	testenv.Same(t, "the stats", fmt.Sprint(r.stats), "[{1000 4000 7 12}]")
}

// Replies that never come hold nothing up.
func TestStatsUnanswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.examine(bulk(infoMemory))
	r.closeStream()
	r.request("b").flush()
	r.allow(2)
	testenv.Same(t, "what is told", len(r.stats), 0)
	testenv.Same(t, "failures", len(r.failed), 0)
}

// With overrides a startup check warns of a Redis that may evict them.
func TestStartupCheckWarnsOfEviction(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, policy string
		overrides    bool
		want         []string
	}{
		{"no overrides", "allkeys-lru", false, nil},
		{"keys with a TTL are evicted", "volatile-lru", true, nil},
		{"none are", "noeviction", true, nil},
		{"INFO says nothing", "", true, nil},
		{"any are", "allkeys-lfu", true, []string{`redis "redis" may evict overrides: its maxmemory-policy is allkeys-lfu`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			options := tryOptions()
			options.Overrides = tc.overrides
			r := newRig(t, options)
			r.pass(minTickMicros)
			replies := []string{bulk(infoServer), bulk(primary)}
			if tc.overrides {
				replies = append(replies, bulk("maxmemory_policy:"+tc.policy+"\r\n"))
			}
			for _, reply := range append(replies, "+OK\r\n") {
				r.answer(reply)
			}
			var warned []string
			for _, line := range r.lines[1:] {
				warned = append(warned, strings.SplitN(line, ", which", 2)[0])
			}
			testenv.Same(t, "that it answers", slices.Contains(r.lines, `redis "redis" answers: Redis 7.0.15, primary`), true)
			testenv.Same(t, "the warnings", fmt.Sprint(warned), fmt.Sprint(tc.want))
		})
	}
}

// Memory is a share of what the server may use, rounded up.
func TestMemoryPercent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ used, maximum, want int64 }{
		{90, 100, 90},
		{901, 1000, 91},
		{100, 100, 100},
		{150, 100, 150},
		{5, 0, 0},
		{Unknown, 100, 0},
		{5, Unknown, 0},
		{1 << 62, 1, 1e9},
	} {
		v := ServerStats{UsedBytes: tc.used, MaxBytes: tc.maximum}
		testenv.Same(t, "the percentage", v.MemoryPercent(), tc.want)
	}
}
