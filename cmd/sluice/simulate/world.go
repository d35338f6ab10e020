// Package simulate plays traffic through the plugin's own code: its rules, stores,
// leases, deny cache and breaker, in as many workers as one likes, with a Redis
// made of the algorithms' Go twins.
package simulate

import (
	"container/heap"
	"math/rand/v2"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/live"
	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/decide"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Options are the world that traffic comes to. Times are in microseconds from its
// beginning.
type Options struct {
	Envoys, Workers int
	RoundTripMicros int64
	Shards          int      // of Redis, each with a core of its own; 0 stands for 1
	Away            []Period // Redis cannot be reached
	Hangs           []Period // Redis takes commands and answers nothing
	Loses           bool     // what is away comes back empty
	Seed            uint64
	Contracts       []live.Setting // in force from the beginning
	// Expressions are those that the rules were compiled with; nil: none has a value.
	Expressions *explain.Expressions
	// Refused is told of each request of a log, by its place in it, that a rule has refused, and
	// whom the rule counts; nil: no function is.
	Refused func(number int, rule, tag string)
}

// Period is a part of the time.
type Period struct{ FromMicros, ToMicros int64 }

func within(periods []Period, at int64) bool {
	return slices.ContainsFunc(periods, func(p Period) bool { return p.FromMicros <= at && at < p.ToMicros })
}

// epochMicros is when the world begins: on no edge of any window that people use,
// as traffic does.
const epochMicros = 1_800_000_123_400_000

// World is one simulation.
type World struct {
	cfg     *config.Config
	rules   *rule.Set
	options Options
	source  source

	random  *rand.Rand
	now     int64
	end     int64
	events  events
	tickets uint64
	workers []*worker
	server  *server
	matcher rule.Matcher
	tally   *tally
}

// source brings requests, in the order of their times.
type source interface {
	// next is the next request; nil after the last.
	next() *request
	durationMicros() int64
}

// request is one request on its way.
type request struct {
	atMicros int64
	http     *explain.Request
	client   *Client // nil if it came from a log
	group    int
	attempt  int              // from 1
	number   int              // in its log, from 0
	status   int64            // of its response there; 0: not known
	question *decide.Question // of the worker that has it
}

// Run simulates a configuration.
func Run(cfg *config.Config, rules *rule.Set, from source, o Options) *Report {
	w := &World{
		cfg: cfg, rules: rules, options: o, source: from,
		random: rand.New(rand.NewPCG(o.Seed, 2)),
		now:    epochMicros,
		end:    epochMicros + from.durationMicros(),
	}
	shards := max(1, o.Shards)
	w.server = &server{twin: twinredis.New(rules), freeNanos: make([]int64, shards), readBy: make([]int64, shards)}
	w.server.twin.Begins = w.server.run
	for i := range o.Contracts {
		c := &o.Contracts[i]
		key := redis.AppendKey(nil, cfg.Redis.KeyPrefix, []byte(c.Tag), algo.OverrideSuffix)
		w.server.twin.Set(string(key), c.Value, c.Life.Microseconds(), w.now)
	}
	w.tally = newTally(w)
	for range o.Envoys {
		shared := sharedData{}
		for range o.Workers {
			w.workers = append(w.workers, newWorker(w, len(w.workers), shared))
		}
	}
	if log, ok := from.(*Log); ok {
		log.settle(rules)
	} else {
		for _, r := range rules.Rules { // nothing is known of responses, so reservations stay
			r.Settle = nil
		}
	}
	for _, p := range o.Away {
		w.schedule(epochMicros+p.FromMicros, func() {
			for _, k := range w.workers {
				if k.open {
					k.open = false
					k.decides.Closed(k.now())
				}
			}
			if o.Loses {
				w.server.twin.Restart()
			}
		})
	}
	w.schedule(w.end, func() {
		w.server.Keys, w.server.KeyBytes = w.server.memory(w.now, w.rules)
	})
	w.arrivals()
	for len(w.events) > 0 {
		e := heap.Pop(&w.events).(event)
		if e.at > w.end+drainMicros {
			break
		}
		w.now = e.at
		e.happen()
	}
	return w.tally.report()
}

// drainMicros is how long what has begun may take after the last request.
const drainMicros = 5_000_000

// arrivals schedules the next request of the source.
func (w *World) arrivals() {
	if r := w.source.next(); r != nil {
		w.schedule(epochMicros+r.atMicros, func() {
			w.arrivals()
			w.arrive(r)
		})
	}
}

// arrive brings a request to any of the workers.
func (w *World) arrive(r *request) {
	r.atMicros = w.now
	w.tally.Requests++
	if len(w.tally.samples) < maxSamples && !slices.Contains(w.tally.samples, r.http) {
		w.tally.samples = append(w.tally.samples, r.http)
	}
	w.tally.group(r).Requests++
	if r.attempt > 1 {
		w.tally.Retries++
		w.tally.group(r).Retries++
	}
	w.workers[w.random.IntN(len(w.workers))].arrive(r)
}

func (w *World) away() bool { return within(w.options.Away, w.now-epochMicros) }

// concluded notes a verdict, and sends a rejected request once more if its client does.
func (w *World) concluded(r *request, q *decide.Question, v decide.Verdict) {
	w.tally.concluded(r, q, v, w.now)
	if admits(v.Outcome) {
		return
	}
	if w.options.Refused != nil { // the first rule that refuses
		isFirst := func(c decide.Check) bool { return c.Status == decide.Rejected && c.Rule.Enforced }
		if i := slices.IndexFunc(q.Checks, isFirst); i >= 0 {
			w.options.Refused(r.number, q.Checks[i].Rule.Name, string(q.Checks[i].Tag))
		}
	}
	if r.client == nil || r.attempt >= r.client.Attempts {
		return
	}
	const second = 1e6
	wait := q.WaitMicros()
	switch { // until its client sends it once more
	case r.client.Retry == "at once":
		wait = 10_000
	case r.client.Retry == "after" && wait != algo.Never && wait > 0:
		wait = (wait + second - 1) / second * second // as Retry-After
	default:
		return
	}
	next := *r
	next.attempt++
	if at := w.now + wait; at < w.end {
		w.schedule(at, func() { w.arrive(&next) })
	}
}

// event is something that happens at a time.
type event struct {
	at     int64
	ticket uint64 // of those at once, the first to be scheduled is the first
	happen func()
}

func (w *World) schedule(at int64, happen func()) {
	w.tickets++
	heap.Push(&w.events, event{at, w.tickets, happen})
}

// events is a heap by time (container/heap).
type events []event

func (h events) Len() int { return len(h) }

func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].ticket < h[j].ticket
}

func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *events) Push(x any) { *h = append(*h, x.(event)) }

// Pop implements heap.Interface.
func (h *events) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = slices.Delete(*h, last, last+1)
	return e
}
