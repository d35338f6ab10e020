package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// The layers are asked about a request, in order. Only this file and conclude.go know more than
// one layer.

// layer is a layer that may answer a check at once.
type layer uint8

const (
	quotaLayer  layer = iota // what was said of a quota a moment ago: quota.go
	zeroLayer                // a limit of 0, see zero.go
	onlyLayer                // the embedded store, where it is the only one: embedded.go
	leaseLayer               // units that this worker holds: leases.go
	memoryLayer              // rejections that it remembers: memory.go
)

// sources is who answers in each layer.
var sources = [...]Source{
	quotaLayer: FromReport, zeroLayer: FromLimit, onlyLayer: FromEmbedded, leaseLayer: FromLease, memoryLayer: FromMemory,
}

// orderOf is the order in which the layers are asked about a request that comes. Redis is
// asked behind them, and in mode local the embedded store behind that.
func orderOf(cfg *config.Config, rules *rule.Set) (order []layer) {
	if remembersQuotas(cfg) {
		order = append(order, quotaLayer)
	}
	order = append(order, zeroLayer)
	if cfg.Redis == nil {
		return append(order, onlyLayer)
	}
	if slices.ContainsFunc(rules.LimitSets, isLeased) {
		order = append(order, leaseLayer) // what was charged is spent first
	}
	return append(order, memoryLayer)
}

// alone reports whether there is no Redis to ask.
func (s *Stores) alone() bool { return s.order[len(s.order)-1] == onlyLayer }

// Ask asks the layers that answer at once. It reports whether the request can be concluded;
// otherwise Redis is to be asked.
func (s *Stores) Ask(q *Question, now Time) (decided bool) {
	for _, l := range s.order {
		if s.ask(l, q, now) {
			return true
		}
	}
	return s.alone()
}

// ask asks one layer about the checks of a question that have no answer. It reports whether the
// request can be concluded, as a rule rejects it: then no other layer is asked.
func (s *Stores) ask(l layer, q *Question, now Time) (rejects bool) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if isUnasked(c) {
			s.askAbout(c, l, q, now)
			rejects = rejects || enforcedRejection(c) && !c.isOver()
		}
	}
	switch {
	case l != memoryLayer:
	case rejects || q.over && keepsRemembered(q):
		s.record.Count(metric.DenyCacheHit, 1)
		return true
	default: // a remembered decision that allows is shown with a rejection, but admits no request
		q.unask(FromMemory)
	}
	return rejects
}

// recall asks the memory of rejections once more, about a request that was kept back.
func (s *Stores) recall(q *Question, now Time) (decided bool) { return s.ask(memoryLayer, q, now) }

// askAbout asks one layer about one check.
func (s *Stores) askAbout(c *Check, l layer, q *Question, now Time) {
	var r algo.Ruling
	var charge lease.Charge
	ok := false
	switch l {
	case quotaLayer:
		if c.isReport() {
			s.fit(q, c, now)
			r, ok = s.quotas.recall(q, c, now)
		}
	case zeroLayer:
		s.fit(q, c, now)
		ok = c.rejectZero(c.Decisions)
	case leaseLayer:
		charge, ok = s.leases.spend(&c.Ask, c.Decisions, now)
		r = algo.Ruling{AtMicros: charge.StoreMicros, Allowed: true}
	case memoryLayer:
		r, ok = s.memory.recall(&c.Ask, c.Decisions, now)
		ok = ok && (r.By.Blocks() || !s.penalties.mustTell(&c.Ask, now))
	case onlyLayer:
		r, ok = s.embedded.decide(c, true, now)
	}
	if ok {
		c.ruled(sources[l], &r, c.Decisions, charge.Nonce)
		s.slots.occupy(&c.charged.receipt, now.SteadyMicros)
	}
}

// fit gives a check the limits and sizes that an operator's override makes of those that came with
// the request, in the calendar windows around the time of the store that is asked.
func (s *Stores) fit(q *Question, c *Check, now Time) {
	s.overrides.fit(q, c, now)
	if c.Limits.Calendars != nil {
		s.calendars.fit(c.Limits, c.Sizes, s.remote.micros(now))
	}
}

// size fits all checks of a request that was kept back once more.
func (s *Stores) size(q *Question, now Time) {
	for i := range q.Checks {
		s.fit(q, &q.Checks[i], now)
	}
}

// refit makes checks that Redis was never asked about what it has told of their identities
// meanwhile.
func (s *Stores) refit(q *Question, now Time) {
	for i := range q.Checks {
		if c := &q.Checks[i]; c.Status == Undecided && c.charged.sent.limits == nil {
			s.overrides.fit(q, c, now)
		}
	}
}

// AskRedis asks Redis about the remaining checks. It reports whether the request can be concluded;
// otherwise Question.replied says when it can be.
func (s *Stores) AskRedis(q *Question, now Time) (decided bool) {
	q.waiting++ // a stream that ends meanwhile does not conclude the request
	if q.first(isUnasked) != nil {
		s.send(q, now)
	}
	for i := range q.Checks {
		if a := &q.Checks[i].Ask; a.lease != nil {
			s.replenish(a, now) // leases.go
		}
	}
	s.leases.returnStale(now)
	q.waiting--
	return q.waiting == 0
}

// send sends Redis the checks that have no answer yet, in one write. What becomes of them is in
// replies.go.
func (s *Stores) send(q *Question, now Time) {
	cause := s.remote.conn.Begin(now.SteadyMicros)
	if q.keptMicros != 0 {
		s.remote.conn.KeptBack(s.remote.conn.ListeningMicros(now.SteadyMicros) - q.keptMicros)
	} else if q.over { // a purse has what is left of the timeout
		q.keptMicros = s.remote.conn.ListeningMicros(now.SteadyMicros)
	}
	for i := range q.Checks {
		c := &q.Checks[i]
		if !isUnasked(c) {
			continue
		}
		if cause != redis.NoCause {
			c.Status = Undecided
			continue
		}
		c.Status = Waiting
		q.waiting++
		q.inPipe++
		c.charged.sent = s.remote.ask(q, i, s.penalties.tell(&c.Ask, now), q.mustDefer())
		s.record.Count(metric.CheckSent, 1)
	}
	if cause == redis.NoCause {
		s.remote.conn.Flush(now.SteadyMicros)
	}
}

// fallBack asks the embedded store about those checks that Redis has not decided, in mode local.
func (s *Stores) fallBack(q *Question, fails func(*Check) bool, now Time) {
	for i := range q.Checks {
		if c := &q.Checks[i]; fails(c) {
			s.askFallback(c, q, now)
		}
	}
}

// askFallback asks the embedded store in Redis' place, by what the worker remembers of overrides.
func (s *Stores) askFallback(c *Check, q *Question, now Time) {
	if r, ok := s.overrides.remembered(&c.Ask, now); ok {
		c.ruled(FromFallback, &r, nil, 0)
		return
	}
	s.overrides.fit(q, c, now)                // Redis may have told more than the check knew
	q.sizes, c.Sizes = keep(q.sizes, c.Sizes) // what Redis was sent keeps its calendar windows
	s.calendars.fit(c.Limits, c.Sizes, now.UnixMicros)
	r, ok := s.embedded.decide(c, false, now)
	if ok {
		c.ruled(FromFallback, &r, c.Decisions, 0)
		s.slots.occupy(&c.charged.receipt, now.SteadyMicros)
	}
}
