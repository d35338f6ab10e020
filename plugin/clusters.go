package main

import (
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/decide"
	"github.com/sluiceproxy/sluice/plugin/message"
)

// clusters are the limiters of one configuration in one worker: one, unless routes name their own
// Redis clusters (redis.cluster.metadata). Then there is one for each name, with a connection and all
// that follows from it of its own. The rules and the timer are common to them. A limiter begins with
// the first request of a route that names its cluster.
type clusters struct {
	first    *limiter // of redis.cluster.default; without one it has no connection
	refusing *limiter // of names beyond the bounds; it has no connection. nil: there was none
	all      []*limiter
	named    int // how many of all have a cluster
	config   *config.Config
	property string // Envoy's, that has the name; "": all routes have one cluster
}

// Bound: Redis clusters that routes name, in one worker. Beyond it, the failure mode decides.
// Protects memory and Redis' connections from a control plane that names without end.
const maxClusters = 16

// Bound: bytes in the name of a Redis cluster that a route names. Beyond it, the failure mode
// decides. Protects memory.
const maxClusterName = 1024

// newClusters makes a limiter the first of a configuration's.
func newClusters(first *limiter, cfg *config.Config) *clusters {
	c := &clusters{first: first, all: []*limiter{first}, config: cfg}
	if cfg.Redis == nil || cfg.Redis.ClusterMetadata == "" {
		return c
	}
	c.property = "xds\x00route_metadata\x00filter_metadata\x00" + cfg.Redis.ClusterMetadata
	if cfg.Redis.Cluster == "" {
		first.stream.without = errNoName
	} else {
		c.named = 1
	}
	return c
}

// of is the limiter of a request that begins.
func (c *clusters) of(r *httpRequest) *limiter {
	for _, l := range c.all {
		if was := l.worker.Redirected(); was != nil && l.returns(was, r.question) {
			return l
		}
	}
	name, ok := c.first.host.property(r.question.ContextID, c.property)
	if !ok || len(name) == 0 {
		return c.first
	}
	for _, l := range c.all {
		if l.stream.cluster == string(name) {
			return l
		}
	}
	return c.begin(string(name))
}

// begin makes the limiter of a name that no request had so far.
func (c *clusters) begin(name string) *limiter {
	if c.named < maxClusters && len(name) <= maxClusterName {
		c.named++
		return c.add(name)
	}
	if c.refusing == nil {
		c.first.host.logLine(logWarn, "sluice: redis.cluster: a route names "+quoteName(name)+", which is one of more than "+
			strconv.Itoa(maxClusters)+" clusters or too long (want fewer names for this configuration); the failure mode "+
			"applies to its requests (logged once)")
		c.refusing = c.add("")
		c.refusing.stream.without = errRefusedName
	}
	return c.refusing
}

// quoteName is a name for the log.
func quoteName(name string) string {
	if len(name) > 64 {
		name = name[:64] + "..."
	}
	return strconv.Quote(name)
}

// add makes a limiter that differs from the first in its cluster alone.
func (c *clusters) add(name string) *limiter {
	cfg, redis := *c.config, *c.config.Redis
	redis.Cluster, cfg.Redis = name, &redis
	l := c.first.like(&cfg)
	c.all = append(c.all, l)
	return l
}

// turn makes a request that of the limiter whose cluster its route names.
func (c *clusters) turn(r *httpRequest) {
	l := c.of(r)
	if l == r.limiter {
		return
	}
	id := r.question.ContextID
	r.limiter.worker.Drop(r.question)
	r.limiter, r.question = l, l.worker.Question(id)
}

// streaming is the limiter that a stream of a configuration belongs to; nil if there is none.
func (v *vm) streaming(contextID, token uint32) *limiter {
	v.host.running(contextID)
	p := v.plugins[contextID]
	if p == nil || p.limiter == nil || p.limiter.stream == nil {
		return nil
	}
	for _, of := range p.limiter.clusters.all {
		if of.stream.knows(token) {
			return of
		}
	}
	for _, of := range p.limiter.clusters.all {
		if of.stream.one.opening {
			return of
		}
	}
	return p.limiter
}

// tick passes time to all. It reports whether the configuration, which was to end, has ended.
func (c *clusters) tick() (ended bool) {
	now := c.first.now()
	nowMicros := now.SteadyMicros
	c.first.timer.ticked(nowMicros)
	ended = true
	var next int64
	for _, l := range c.all {
		if l != c.first {
			now = l.now()
		}
		if !l.gone && l.tick(now) {
			l.gone = true
			l.letGo()
		}
		if !l.gone {
			ended = false
			next = decide.Sooner(next, l.nextMicros(nowMicros))
		}
	}
	c.first.timer.set(next, nowMicros)
	return ended
}

// close ends the configuration. It reports whether it has; otherwise a tick will.
func (c *clusters) close() (ended bool) {
	ended = true
	for _, l := range c.all {
		l.gone = l.close()
		ended = ended && l.gone
	}
	return ended
}

// errNoName is why a limiter of requests without a name asks no Redis.
var errNoName = message.Error(
	"the request's route names no cluster (redis.cluster.metadata), and there is no default",
)

// errRefusedName is why a limiter of names beyond the bounds asks no Redis.
var errRefusedName = message.Errorf("the request's route names one cluster too many (redis.cluster.metadata: "+
	"at most %d), or one with more than %d bytes in its name", maxClusters, maxClusterName)
