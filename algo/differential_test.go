package algo

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// stepsPerPlan is how long one random plan is replayed.
const stepsPerPlan = 150

// TestDifferential replays random sequences on both twins: of one limit, of buckets of which workers take
// batches, and of several limits in one call, perhaps with a guarantee and its pool, or with limits that pay
// for others, and of limits under a penalty. Some are replayed on Lua 5.4, too.
func TestDifferential(t *testing.T) {
	t.Parallel()
	// So many steps of each algorithm; ALGO_STEPS overrides it.
	steps, err := strconv.Atoi(cmp.Or(os.Getenv("ALGO_STEPS"), "24000"))
	testenv.OK(t, err)
	client := startRedis(t)
	type family struct {
		name  string
		seed  uint64
		draw  func(r random) []Limit
		terms func(r random) Terms
	}
	all := Algorithms()
	families := []family{
		{name: "several", seed: 7, draw: func(r random) []Limit {
			return r.several(2+r.IntN(5), func(*Limit, int) bool { return true })
		}},
		{name: "guarantee", seed: 72, draw: func(r random) []Limit {
			return r.withPair(r.several(r.IntN(3), func(l *Limit, _ int) bool { return !l.Queue }))
		}},
		{name: "over", seed: 73, draw: func(r random) []Limit { // sometimes so many that their numbers are not packed
			own, others := 1+r.IntN(4), 1+r.IntN(3)
			if r.oneIn(10) {
				others = 8
			}
			return r.several(own+others, func(l *Limit, place int) bool {
				l.Over = place >= own
				return !l.Queue
			})
		}},
		{
			name: "penalty", seed: 71,
			draw:  func(r random) []Limit { return []Limit{r.limit(all[r.IntN(len(all))])} },
			terms: func(r random) Terms { return Terms{Overrides: r.oneIn(2), Penalty: r.penalty()} },
		},
	}
	for _, a := range all {
		families = append(families, family{name: a.String(), seed: uint64(a), draw: func(r random) []Limit {
			return []Limit{r.limit(a, r.class)}
		}})
		if a.HasBurst() {
			lent := func(r random) []Limit { return []Limit{r.limit(a, r.lease)} }
			families = append(families, family{name: "batches-" + a.String(), seed: 100 + uint64(a), draw: lent})
		}
	}
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			client, lua54 := client, startLua54(t)
			if f.name == "several" { // and with sorted sets in Redis' encoding for large ones
				client = startRedis(t)
				testenv.OK(t, client.ConfigSet(ctx, "zset-max-listpack-entries", "0").Err())
			}
			r := newRandom(f.seed)
			for i := range steps / stepsPerPlan {
				limits, terms := f.draw(r), Terms{}
				if f.terms != nil {
					terms = f.terms(r)
				}
				for i := range limits {
					l := &limits[i]
					if onClock := l.Algorithm == FixedWindow && !l.FromFirstRequest; onClock && r.oneIn(2) {
						l.CalendarID = fmt.Sprint("day:Test/", l.WindowMicros)
					}
				}
				plan, name := mustPlanWithTerms(t, terms, limits...), fmt.Sprintf("%s-%d", f.name, i)
				if i%20 == 0 {
					replay(t, newRandom(f.seed+uint64(1000*i)), newTwins(t, inBatch(t, lua54), plan, name))
				}
				l := inBatch(t, client)
				w := newTwins(t, l, plan, name)
				replay(t, r, w)
				if n := len(w.ruleKeys); len(w.penalty) > 0 {
					text, err := client.Get(ctx, w.ruleKeys[n-1]).Bytes()
					testenv.OK(t, err)
					testenv.SameList(t, name+": the penalty's key", ReadPenaltyState(text), w.penalty)
				}
				testenv.OK(t, client.Del(ctx, slices.Concat(w.keys, w.ruleKeys)...).Err())
			}
		})
	}
}

// several draws so many limits of any algorithms that a plan may have together and that fit.
func (r random) several(n int, fits func(l *Limit, place int) bool) (limits []Limit) {
	all := Algorithms()
	for len(limits) < n {
		l := r.limit(all[r.IntN(len(all))], r.class)
		if !fits(&l, len(limits)) {
			continue
		}
		if _, err := NewPlan(append(limits, l)); err == nil {
			limits = append(limits, l)
		}
	}
	return limits
}

// withPair puts a guarantee and its pool among limits: often such that the pool is soon in debt.
func (r random) withPair(limits []Limit) []Limit {
	for {
		both := []Algorithm{GCRA, TokenBucket}
		pool, guarantee := r.limit(both[r.IntN(2)], r.class), r.limit(both[r.IntN(2)], r.class)
		if r.oneIn(2) {
			guarantee.WindowMicros, guarantee.Units = pool.WindowMicros, r.span(1, pool.Units)
			guarantee.Burst = r.span(1, min(3*pool.Capacity(), MaxUnits))
		}
		pool.Pool, guarantee.Guarantee, guarantee.PerID = true, true, "tenant|"
		at := r.IntN(len(limits) + 1)
		all := slices.Insert(slices.Clone(limits), at, pool)
		all = slices.Insert(all, r.IntN(len(all)+1), guarantee)
		if _, err := NewPlan(all); err == nil {
			return all
		}
	}
}

// lastMicros, in the year 2109, is where the tests' clock is set back: beyond it
// some sums would leave the whole numbers that a double holds.
const lastMicros = 2 * epoch

// sequence is one plan replayed, with sizes that change: first in Go, while the
// same is queued for the Lua, then all compared.
type sequence struct {
	*twins
	random
	plain     *Plan // with the sizes it was made of
	nowMicros int64
	steady    int   // for how many steps a size lasts, on average
	ahead     int64 // by how much the clock is ahead for a moment
	forward   bool  // the clock has never been set back
	charges   []charge
}

func replay(t *testing.T, r random, w *twins) {
	t.Helper()
	s := &sequence{
		twins: w, random: r, plain: w.Plan, nowMicros: epoch + r.Int64N(1e15),
		steady: []int{1, 2, 20, 20}[r.IntN(4)], forward: true,
	}
	last := make([]Decision, len(s.states))
	for range stepsPerPlan {
		s.advance(t, last)
		s.resize(t)
		switch _, holds := s.Slots(); {
		case len(s.charges) > 0 && s.oneIn(8):
			s.settleSome(t)
		case len(s.charges) > 0 && holds && s.oneIn(8):
			s.renew(t, s.nowMicros, s.charges[max(0, len(s.charges)-1-s.IntN(4)):]...)
		default:
			last = s.decideOne(t)
		}
		s.expectExpiry(t)
	}
	for range 8 { // what the keys hold shows in what remains later
		s.nowMicros += s.span(0, max(s.Limits()[0].WindowMicros, s.Limits()[0].TTLMicros))
		s.forget(t, s.nowMicros)
		s.decide(t, s.nowMicros, 0)
	}
	s.flush(t)
}

// resize goes on with other limits and bursts now and then, or the first ones again, and brings calendars'
// windows to the sequence's time or, seldom, to another.
func (s *sequence) resize(t *testing.T) {
	t.Helper()
	sizes, changed := make([]Size, len(s.states)), s.oneIn(s.steady)
	for i, l := range s.limits {
		if sizes[i] = l.Size(); changed {
			sizes[i] = s.size(&s.plain.limits[i])
		}
	}
	for i, l := range s.limits {
		if l.CalendarID != "" {
			at := s.nowMicros
			if s.oneIn(20) {
				at = max(0, at+s.Int64N(6*l.WindowMicros)-3*l.WindowMicros)
			}
			sizes[i].Bounds, changed = boundsAround(&l, at), true
		}
	}
	if !changed {
		return
	}
	sized, ok := s.plain.Sized(new(Plan), sizes)
	if !ok {
		t.Fatalf("%v of %+v", sizes, s.plain.limits)
	}
	s.Plan = sized
}

// advance moves the clock, sometimes back, or ahead for a moment, and drops what
// Redis would by then have expired.
func (s *sequence) advance(t *testing.T, last []Decision) {
	t.Helper()
	i := s.IntN(len(last))
	limit := s.Limits()[i]
	switch {
	case s.ahead > 0 && s.oneIn(3):
		s.nowMicros -= s.ahead
		s.ahead, s.forward = 0, false
	case s.nowMicros > lastMicros:
		s.nowMicros = epoch
		s.ahead, s.forward = 0, false
	case s.oneIn(60):
		s.nowMicros = max(s.nowMicros-s.span(1, 2*max(limit.WindowMicros, limit.TTLMicros)), epoch)
		s.forward = false
	case s.oneIn(60) && s.ahead == 0:
		s.ahead = s.span(1, 10*MaxWindowMicros)
		s.nowMicros += s.ahead
	case s.terms.Penalty != nil && s.oneIn(2):
		s.nowMicros += s.span(1, 2*s.terms.Penalty.WithinMicros) - 1
	default:
		s.nowMicros = min(s.nowMicros+s.step(&limit, last[i], s.nowMicros), 1<<52)
	}
	s.forget(t, s.nowMicros)
}

// decideOne decides on one cost for all limits, or on a cost for each.
func (s *sequence) decideOne(t *testing.T) []Decision {
	t.Helper()
	capacity := int64(MaxUnits)
	for i := range s.Limits() {
		capacity = min(capacity, s.Limits()[i].Capacity())
	}
	costs := s.Each(s.cost(capacity))
	if s.oneIn(3) {
		for i := range costs {
			costs[i] = s.cost(s.Limits()[i].Capacity())
		}
	}
	a := asked{costs: costs}
	if p := s.terms.Penalty; p != nil {
		a.strikes, a.deferred = s.remembered(p), s.oneIn(8)
	}
	s.nonce += 1 + s.Int64N(1<<40)
	s.over = Over{}
	if s.TakesOver(0) && costs[0] > 1 && len(s.charges) > 0 && !s.oneIn(3) { // units of an earlier batch
		c := s.charges[len(s.charges)-1-s.IntN(min(len(s.charges), 4))]
		s.over = Over{s.span(1, max(c.costs[0], 1)), c.atMicros}
	}
	r, out := s.rule(t, s.nowMicros, a)
	if r.Allowed {
		charged := slices.Clone(costs)
		guarantee, _, _ := s.Guarantee()
		for i := range charged {
			if r.Over == (i < s.Own()) || i == guarantee && out[i].Hidden {
				charged[i] = 0
			}
		}
		s.charges = append(s.charges, charge{s.nowMicros, s.nonce, charged})
	}
	return out
}

// settleSome gives back some of the last charges, a part of each limit's, or charges
// more, perhaps not for the last time. Those that are under no nonce go in one call.
func (s *sequence) settleSome(t *testing.T) {
	t.Helper()
	n := 1
	if _, slots := s.Slots(); !slots {
		n += s.IntN(3)
	}
	if s.over = (Over{}); s.TakesOver(0) && s.oneIn(2) {
		s.over.Units = 1
	}
	var all []charge
	for range min(n, len(s.charges)) {
		i := len(s.charges) - 1 - s.IntN(min(len(s.charges), 4))
		c := s.charges[i]
		if !s.oneIn(4) {
			s.charges = slices.Delete(s.charges, i, i+1)
		}
		c.costs = slices.Clone(c.costs)
		for i := range c.costs {
			if !s.oneIn(2) {
				c.costs[i] = s.difference(c.costs[i], s.Limits()[i].Capacity())
			}
		}
		all = append(all, c)
	}
	s.settle(t, s.nowMicros, all...)
}

// expectExpiry holds the expiry of each key, if the clock only went forward. A key of slots may expire later.
func (s *sequence) expectExpiry(t *testing.T) {
	t.Helper()
	if !s.forward {
		return
	}
	limits, now, want := s.Limits(), s.nowMicros, make([]int64, len(s.states))
	for i := range want {
		want[i] = s.expiry(i)
	}
	s.expire(t, func(ms []int64) {
		for i, got := range ms {
			late := limits[i].Algorithm == Concurrency && want[i] > 0 && got > want[i]
			gone := got == -2 && want[i] < now/1000         // what is charged so late that it expires at once
			far := got == want[i]-1 && got > now/1000+1<<42 // as far as it goes, 2^52 us, which Lua rounds down
			if ok := got == want[i] || late || gone || far; !ok {
				t.Fatalf("at %d key %d of %+v expires at %d ms, want %d", now, i, limits, got, want[i])
			}
		}
	})
}
