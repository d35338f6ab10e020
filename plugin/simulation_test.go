package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// A simulation is several workers of the whole plugin as Go, with one Redis of Go twins, on
// one clock, under random requests and faults. All chance comes from a seed, so that a
// simulation can be had again to the byte: TigerBeetle's VOPR is the model
// (https://github.com/tigerbeetle/tigerbeetle/blob/main/docs/internals/vopr.md).
type simulation struct {
	t        *testing.T
	random   *rand.Rand
	config   *simConfig
	ops      []string // what has happened
	clock    *clock
	redis    *twinredis.Server
	workers  []*worker
	guests   map[*worker]*nativeGuest
	current  []*instance // of the newest configuration
	loaded   []*instance // and those that are ending
	limiters map[*instance]*limiter
	conns    []*simConn
	users    int
	rates    [faults]int // how often each fault comes, of a thousand steps
	burst    int         // the most requests that come at once
	often    int         // how many thirds of the requests bring a header that a rule asks for
	log      simLog

	refuses bool   // Redis refuses connections
	hangs   bool   // Redis answers nothing
	refusal string // the error that Redis answers all commands with; empty: none
	ahead   int64  // how far Redis' clock is ahead, us
	steps   int
	embeds  bool // the embedded store may decide something in Redis' place

	all       []*simRequest
	live      []*simRequest
	waits     []*simRequest // of those, the ones that wait
	recent    []*simRequest // that have ended not long ago
	reloads   int
	untold    int   // requests that have left a configuration that was ending, which may count no more
	lostUnits int64 // of leases: granted by replies, or given back by commands, that were lost; at most
	granted   int64 // when the command that Redis runs has granted some; 0: it has not
	jumped    bool  // Redis' clock was set
	emptied   bool  // Redis has lost its data

	restsAt time.Time // nothing needs Redis from then on; zero: something may

	charged   map[string]int64 // by tag: of the first limit, without what was given back
	batches   map[int64]int64  // by when a lease was granted: what it has charged and not returned
	admitted  map[string]int64 // by rule and identity, by certain verdicts
	blocked   map[string]bool  // whom the operator has blocked
	blockedAt time.Time        // when the operator did anything last
	passed    map[string]int   // requests that were admitted, by user
	rejected  map[remembered]rejection
	began     time.Time
	exits     map[*worker]int  // that a host call made
	outcomes  map[string]int64 // for the report
	failed    string           // the first check that failed
}

// lossTime is how long after its end a request is surely done with.
const lossTime = 5 * time.Second

// newSimulation draws a simulation.
func newSimulation(t *testing.T, seed uint64) *simulation {
	random := newRandom(seed)
	c, kind := newSimConfig(random, seed)
	v := newSimulationOf(t, c)
	v.random = random
	v.users, v.burst, v.often = pick(random, 1, 3, 20), pick(random, 1, 4, 4, 10, 40), 1+random.IntN(2)
	for i := range v.rates {
		v.rates[i] = pick(random, 0, 0, 2, 8)
	}
	v.rates[crowded] /= 4 // it is many steps
	switch kind {
	case crowds:
		v.rates[crowded], v.rates[emptied], v.rates[clockSet] = 8, 0, 0
	case outages:
		v.rates[away], v.rates[reloaded], v.rates[emptied], v.rates[clockSet] = 8, 0, 0, 0
		v.users = 3
	}
	return v
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// newSimulationOf begins the simulation of a configuration, with workers of one Envoy, and keeps the native
// plugin of each to look into.
func newSimulationOf(t *testing.T, c *simConfig) *simulation {
	v := &simulation{
		t: t, config: c, embeds: strings.Contains(c.text(0)+c.text(1), `"local"`),
		guests: map[*worker]*nativeGuest{}, limiters: map[*instance]*limiter{},
		charged: map[string]int64{}, batches: map[int64]int64{}, admitted: map[string]int64{},
		blocked: map[string]bool{}, exits: map[*worker]int{}, outcomes: map[string]int64{},
		passed: map[string]int{}, rejected: map[remembered]rejection{},
	}
	v.redis = twinredis.New()
	v.redis.Ran, v.redis.Password, v.redis.WithoutTime = v.ran, c.Password, c.WithoutTime
	first := newWorker(v.t, func(w *worker, options *wasmhost.Options) {
		options.Native = func(h *wasmhost.Host) wasmhost.Guest {
			v.guests[w] = newNativeGuest(v.t, h, w.chance)
			return v.guests[w]
		}
	})
	first.redis = &twinRedis{Server: v.redis} // which knows what they load
	v.clock, v.began = first.clock, first.clock.now
	for i := range c.Workers {
		w := first
		if i > 0 {
			w = first.sibling()
		}
		w.clusters = map[string]wasmhost.Cluster{}
		w.connect(simCluster{v, w})
		w.chance = rand.NewPCG(c.Seed, uint64(100+i))
		v.workers = append(v.workers, w)
	}
	v.load()
	return v
}

// load gives all workers the configuration that is next.
func (v *simulation) load() {
	text := v.config.text(v.reloads)
	v.reloads++
	v.logf("load %s", text)
	old := v.current
	v.current = nil
	for _, w := range v.workers {
		i := w.load(text)
		limiters := v.guests[w].limiters()
		v.limiters[i] = limiters[slices.Max(slices.Collect(maps.Keys(limiters)))] // made last
		v.current, v.loaded = append(v.current, i), append(v.loaded, i)
	}
	for _, i := range old {
		i.Close()
	}
}

// maxGivenUp is how many commands about leased units a configuration may still have had to send.
const maxGivenUp = 8

// simExpressions compiles all: only Envoy evaluates.
type simExpressions struct{}

func (simExpressions) Create(string) (uint32, error) { return 1, nil }

// advance passes time, with every tick that is asked for at its time.
func (v *simulation) advance(d time.Duration) {
	end := v.clock.now.Add(d)
	for {
		v.loaded = slices.DeleteFunc(v.loaded, func(i *instance) bool { return i.Closed() })
		var next *instance
		for _, i := range v.loaded {
			i.arm()
			isDue := i.period > 0 && !i.due.After(end)
			if isDue && (next == nil || i.due.Before(next.due)) {
				next = i
			}
		}
		if next == nil {
			break
		}
		if next.due.After(v.clock.now) {
			v.clock.now = next.due
		}
		next.due = next.due.Add(next.period)
		v.logf("tick")
		limiter := v.limiters[next]
		next.Tick()
		waits := limiter.conn != nil && !limiter.conn.Idle()
		if waits && next.Closed() {
			v.logf("given up")
			v.lose(next.worker) // what it had to give back is lost after a second
			v.lostUnits += maxGivenUp * maxUnits
		}
		v.look()
	}
	v.clock.now = end
}

// drain lets all that has begun end, without faults.
func (v *simulation) drain() {
	v.refuses, v.hangs, v.refusal = false, false, ""
	v.logf("drain")
	for range 400 {
		v.serveAll()
		for _, r := range slices.Clone(v.live) {
			if r.exited {
				v.end(r)
			}
		}
		v.advance(4 * time.Millisecond)
	}
	v.restsAt = v.clock.now.Add(5 * time.Second)
	for range 1600 { // what rests closes after a minute
		v.serveAll()
		v.advance(50 * time.Millisecond)
	}
}

// serveAll has Redis answer all, and brings the answers.
func (v *simulation) serveAll() {
	for v.serveOnce() {
	}
}

// serveOnce has Redis answer what has been asked by now, and reports whether there was anything.
func (v *simulation) serveOnce() (served bool) {
	for _, c := range v.conns {
		if c.gone {
			continue
		}
		served = served || len(c.inbox)+len(c.outbox) > 0
		if c.serve(1 << 20); len(c.outbox) > 0 {
			c.deliver(len(c.outbox))
		}
	}
	return served
}

// anyConn is the index of a connection that is open; -1 if there is none.
func (v *simulation) anyConn() int {
	if len(v.conns) == 0 {
		return -1
	}
	return v.random.IntN(len(v.conns))
}

// run makes so many steps, and lets all end.
func (v *simulation) run(steps int) {
	v.play(steps+1, func() {
		if v.steps < steps {
			v.step()
		} else if v.random.IntN(2) == 0 { // a configuration ends with all that it has
			v.do("reload")
		}
	})
}

// play makes so many steps, lets all end, and notes an assertion of the plugin's that does not hold.
func (v *simulation) play(steps int, step func()) {
	defer func() {
		if r := recover(); r != nil {
			v.fail("%v\n%s", r, debug.Stack())
		}
	}()
	for v.steps = range steps {
		step()
		if v.checkStep(); v.failed != "" {
			return
		}
	}
	v.drain()
	v.checkEnd()
}

// simLog is the history, line by line, if it is kept.
type simLog struct {
	kept bool
	strings.Builder
}

func (v *simulation) logf(format string, args ...any) {
	if v.log.kept {
		fmt.Fprintf(&v.log, "%d %d ", v.steps, v.clock.now.UnixMicro())
		fmt.Fprintf(&v.log, format, args...)
		v.log.WriteByte('\n')
	}
}

// fail notes the first check that does not hold.
func (v *simulation) fail(format string, args ...any) {
	if v.failed == "" {
		v.failed = fmt.Sprintf("step %d: ", v.steps) + fmt.Sprintf(format, args...)
		v.logf("FAILED %s", v.failed)
	}
}
