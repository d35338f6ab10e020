package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// told is an INFO reply, all in one section.
func told(used, maximum, evicted, keys int) string {
	return fmt.Sprintf("# Keyspace\r\nused_memory:%d\r\nmaxmemory:%d\r\nmaxmemory_policy:allkeys-lru\r\n"+
		"evicted_keys:%d\r\ndb0:keys=%d,expires=0\r\n", used, maximum, evicted, keys)
}

// What a warning says.
const evicted, full = "has evicted", "of its maxmemory"

// reading is a report that a worker may hear some time later, and its news.
type reading struct {
	name    string
	after   time.Duration
	worker  int
	info    string
	asked   int
	total   int64
	warning string
}

var readings = []reading{
	{name: "the trial is the first reading", info: told(50, 100, 7, 3), asked: 1},
	{name: "the other worker is not to ask", worker: 1, after: 2 * time.Second, info: told(50, 100, 8, 3)},
	{name: "nor is the first", after: 20 * time.Second, info: told(50, 100, 8, 3)},
	{
		name: "the other is", worker: 1, after: 10 * time.Second, info: told(50, 100, 10, 3), asked: 1,
		total: 3, warning: evicted,
	},
	{name: "one warning an hour", after: 31 * time.Second, info: told(50, 100, 11, 3), asked: 1, total: 4},
	{name: "memory", after: 31 * time.Second, info: told(91, 100, 11, 3), asked: 1, total: 4, warning: full},
	{name: "once", worker: 1, after: 31 * time.Second, info: told(95, 100, 11, 3), asked: 1, total: 4},
	{name: "another server", after: 31 * time.Second, info: told(90, 100, 2, 3), asked: 1, total: 4},
	{
		name: "an hour later", after: time.Hour, info: told(96, 100, 5, 3), asked: 1, total: 7,
		warning: evicted + " " + full,
	},
	{name: "no bound", after: 31 * time.Second, info: told(96, 0, 5, 4), asked: 1, total: 7},
	{name: "nothing is said", after: 31 * time.Second, info: "", asked: 1, total: 7},
}

// One worker at a time asks how Redis is. What it hears is counted and warned of once in
// an Envoy, whoever hears it.
func TestVitals(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		asked, info := 0, "" // how often workers have asked for the memory, and what Redis says of itself
		c := &cluster{serve: func(_ *wasmhost.Conn, sent []byte) (replies []byte) {
			asked += bytes.Count(sent, []byte("\r\nmemory\r\n"))
			for command := range bytes.SplitSeq(sent, []byte("\r\n")) {
				switch string(command) {
				case "INFO":
					replies = fmt.Appendf(replies, "$%d\r\n%s\r\n", len(info), info)
				case "EVAL":
					replies = append(replies, "+OK\r\n"...)
				case "EVALSHA":
					replies = append(replies, "*5\r\n:1\r\n:9\r\n:0\r\n:0\r\n:0\r\n"...)
				}
			}
			return replies
		}}
		w.connect(c)
		workers := [2]*worker{w, w.sibling()}
		instances := [2]*instance{w.load(withRedis(perClient("a", 9))), workers[1].load(withRedis(perClient("a", 9)))}
		for _, i := range instances {
			i.ticked = func() { c.settle() }
		}
		for _, s := range readings {
			asked, info = 0, s.info
			one, i := workers[s.worker], instances[s.worker]
			one.clock.advance(s.after)
			before := len(one.logs())
			i.wait(5 * time.Millisecond)
			x := i.get("/", client("x")...)
			c.settle()
			x.end()
			i.wait(2 * time.Second)
			i.flush()
			got := strings.Join(one.logs()[before:], "; ")
			testenv.Same(one.t, s.name+": how often it was asked", asked, s.asked)
			testenv.Same(one.t, s.name+": evicted keys", one.stats()["redis.cluster.redis.evicted_keys_total"], s.total)
			for _, text := range []string{evicted, full} {
				testenv.Same(one.t, s.name+": that a warning "+text, strings.Contains(got, text),
					strings.Contains(s.warning, text))
			}
		}
		testenv.Same(t, "used", w.stats()["redis.cluster.redis.kind.used.memory_bytes"], 96)
		testenv.Same(t, "max", w.stats()["redis.cluster.redis.kind.max.memory_bytes"], 0)
		testenv.Same(t, "keys", w.stats()["redis.cluster.redis.keys"], 4)
	})
}

// The first line says which build this is, once in an Envoy, before any mistake.
func TestVersionIsTold(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		if _, err := w.start(`{"rules": []}`); err == nil {
			t.Error("a configuration without rules was loaded")
		}
		testenv.Same(t, "the first line", w.host.Logs[0].Text, "sluice: version dev")
		i := w.load(`{"rules": [` + perClient("a", 1) + `]}`)
		other := w.sibling()
		other.load(`{"rules": [` + perClient("a", 1) + `]}`)
		for _, line := range append(w.host.Logs[1:], other.host.Logs...) {
			testenv.Same(t, "that the version is told once more", strings.Contains(line.Text, "version"), false)
		}
		i.flush()
		value, _ := w.envoy.Metric("sluice." + buildInfo)
		testenv.Same(t, "the metric", value, 1)
	})
}
