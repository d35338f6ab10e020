package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// routed is a configuration whose routes name their Redis clusters, and what else redis.cluster has.
func routed(more string) string {
	return `{"redis": {"cluster": {"metadata": ["example.com/backends", "redis"]` + more + `}}, "rules": [` +
		perClient("a", 9) + `]}`
}

// routedWorker sets a worker up whose requests have routes.
func routedWorker(w *worker) (route func(cluster string)) {
	w.properties = wasmhost.Properties{}
	const path = "xds\x00route_metadata\x00filter_metadata\x00example.com/backends\x00redis"
	return func(cluster string) {
		delete(w.properties, path)
		if cluster != "" {
			w.properties[path] = []byte(cluster)
		}
	}
}

// redisOf makes a real Redis the one that the plugin reaches by a cluster's name.
func (w *worker) redisOf(cluster string) *realRedis {
	w.t.Helper()
	r := &realRedis{Server: redistest.Start(w.t), t: w.t}
	w.realClock = true
	w.clusters[string(grpcService(cluster))] = r
	return r
}

// TestClusterOfRoute: each route's requests are decided by the Redis that the route names, over
// one stream for each name, and nothing is sent before a request has come.
func TestClusterOfRoute(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		route := routedWorker(w)
		redis := map[string]*realRedis{"one": w.redisOf("one"), "two": w.redisOf("two")}
		i := w.load(routed(""))
		i.wait(2 * time.Second)
		for name, r := range redis {
			testenv.Same(t, "streams to "+name+" before a request", len(r.conns), 0)
		}
		for _, c := range []struct {
			cluster   string
			remaining int
		}{{"one", 8}, {"two", 8}, {"one", 7}, {"two", 7}, {"one", 6}} {
			route(c.cluster)
			r := i.get("/", client("x")...)
			redis[c.cluster].settle()
			w.expect(c.cluster, r.end(),
				result{Status: 200, Outcome: "allowed", Limit: 9, Remaining: c.remaining, Reset: 3600})
		}
		route("")
		w.expect("no name", i.get("/", client("x")...).end(), result{Status: 200, Outcome: "failed:allow"})
		const unnamed = "sluice: redis did not decide a request: unreachable: the request's route names no cluster"
		testenv.Same(t, "that the log says why", w.logged(unnamed), true)
		for name, r := range redis {
			testenv.Same(t, "streams to "+name, len(r.conns), 1)
			testenv.Same(t, "counters of "+name, r.Client().DBSize(t.Context()).Val(), int64(1))
		}
		i.Close()
		for i.wait(time.Second); !redis["one"].conns[0].closed; i.wait(time.Second) {
			redis["one"].settle()
			redis["two"].settle()
		}
		testenv.Same(t, "that the second stream is closed", redis["two"].conns[0].closed, true)
	})
}

// TestClusterByDefault: routes without a name have the default's.
func TestClusterByDefault(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		route := routedWorker(w)
		one, other := w.redisOf("one"), w.redisOf("other")
		i := w.load(routed(`, "default": "other"`))
		for cluster, r := range map[string]*realRedis{"one": one, "": other, "other": other} {
			route(cluster)
			request := i.get("/", client("of "+cluster)...)
			r.settle()
			w.expect(cluster, request.end(),
				result{Status: 200, Outcome: "allowed", Limit: 9, Remaining: 8, Reset: 3600})
		}
		testenv.Same(t, "streams to the default", len(other.conns), 1)
		testenv.Same(t, "streams to the other", len(one.conns), 1)
	})
}

// TestClustersAreBounded: beyond 16 names the failure mode decides, and the log says so once.
func TestClustersAreBounded(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		route := routedWorker(w)
		m := &wasmhost.Memory{}
		for n := range 20 {
			w.clusters[string(grpcService(fmt.Sprint("redis-", n)))] = m
		}
		i := w.load(routed(`, "default": "redis-0"`))
		var waiting []*exchange
		for n := range 20 {
			route(fmt.Sprint("redis-", n))
			r := i.get("/", client("x")...)
			if n < maxClusters {
				waiting = append(waiting, r)
				continue
			}
			w.expect("one too many", r.end(), result{Status: 200, Outcome: "failed:allow"})
		}
		testenv.Same(t, "streams", len(m.Conns), maxClusters)
		for _, r := range waiting {
			if !r.waits() {
				t.Error("a request of one of the first clusters does not wait for its Redis")
			}
			r.End()
		}
		const refused = `sluice: redis.cluster: a route names "redis-16", which is one of more than 16 clusters`
		if !w.logged(refused) || w.logged(`a route names "redis-17"`) {
			t.Errorf("the log is %q, want one line: %s", w.logs(), refused)
		}
	})
}

// TestWhyNoCluster: the log says why a request has no Redis, whether its route names none, one too
// many or one that is too long, and whether or not there is a default.
func TestWhyNoCluster(t *testing.T) {
	t.Parallel()
	const (
		did     = "sluice: redis did not decide a request: unreachable: "
		noName  = did + "the request's route names no cluster (redis.cluster.metadata), and there is no default"
		refused = did + "the request's route names one cluster too many (redis.cluster.metadata: at most 16), or one " +
			"with more than 1024 bytes in its name"
	)
	for _, c := range []struct {
		what, more    string
		names         int // of clusters that routes name before
		then          string
		says, saysNot string
	}{
		{"no name", ``, 0, "", noName, refused},
		{"one too many", ``, 16, "another", refused, noName},
		{"one too many, and a default", `, "default": "0"`, 16, "another", refused, noName},
		{"a long name", ``, 0, strings.Repeat("n", 1025), refused, noName},
		{"a long name, and a default", `, "default": "0"`, 0, strings.Repeat("n", 1025), refused, noName},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				route := routedWorker(w)
				i := w.load(routed(c.more))
				for n := range c.names {
					w.clusters[string(grpcService(fmt.Sprint(n)))] = &wasmhost.Memory{}
					route(fmt.Sprint(n))
					i.get("/", client("x")...)
				}
				route(c.then)
				w.expect(c.what, i.get("/", client("x")...).end(), result{Status: 200, Outcome: "failed:allow"})
				testenv.Same(t, "that the log says why", w.logged(c.says), true)
				testenv.Same(t, "that it says something else", w.logged(c.saysNot), false)
			})
		})
	}
}
