package live

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// never is a limit that no request of cost 2 passes. A script that has it among its
// limits says what each of the others would decide, and charges nothing.
var never = algo.Limit{Algorithm: algo.FixedWindow, Units: 1, WindowMicros: 1_000_000}

// question asks about limits without charging them.
type question struct {
	id       *Identity
	set      Set
	counters []counter // of the set, as many as a plan may have
	plan     *algo.Plan
	// costs are those of the limits, of args too.
	costs []int64
	args  []any
	reply *redis.Cmd // when it has been sent
}

// questions are as many as the counters of a list of limits need. Calendar windows are those around
// a time.
func questions(id *Identity, set Set, counters []counter, micros int64) (all []question, err error) {
	const atOnce = algo.MaxLimits - 1
	at, sizes := LimitsAt(set.Limits, micros), explain.Sizes(id.setting, set.Limits, id.Sizes)
	for some := range slices.Chunk(counters, atOnce) {
		q := question{id: id, set: set, counters: some}
		var limits []algo.Limit
		for _, k := range some {
			l := at[k.limit]
			if sizes != nil {
				size := sizes[k.limit]
				l.Units, l.Burst, l.Ceiling = size.Units, size.Burst, size.Ceiling
			}
			l.Fit()
			// Each is asked by itself, whatever the others are.
			l.PerID, l.Guarantee, l.Pool = l.PerID+k.values, false, false
			limits = append(limits, l)
			cost := int64(1)
			if id.Costs != nil {
				cost = id.Costs[k.limit]
			}
			q.costs = append(q.costs, cost)
		}
		last := never
		last.Over = limits[len(limits)-1].Over // what pays for others stands behind them
		if q.plan, err = algo.NewPlan(append(limits, last)); err != nil {
			return nil, err
		}
		q.plan = q.plan.AsOne()
		q.args = Arguments(q.plan, 0, append(q.costs[:len(q.costs):len(q.costs)], 2)) // more than never has
		all = append(all, q)
	}
	return all, nil
}

// LimitsAt are a rule's limits, calendar windows around a time.
func LimitsAt(set *rule.LimitSet, micros int64) []algo.Limit {
	all := slices.Clone(set.Plan.Limits())
	for i := range all {
		if set.Calendars != nil && set.Calendars[i] != nil {
			all[i].Bounds = set.Calendars[i].Around(micros)
		}
	}
	return all
}

// Arguments are those of a check.
func Arguments(plan *algo.Plan, nonce int64, costs []int64) []any {
	return Values(plan.CheckArgs(nonce, algo.Over{}, costs))
}

// Values are a script's arguments as the client of Redis takes them.
func Values(args []string) (values []any) {
	for _, a := range args {
		values = append(values, a)
	}
	return values
}

// keys are those of the question's limits, and of never.
func (q *question) keys(c *Client) (keys []string) {
	for _, k := range q.counters {
		keys = append(keys, c.key(q.id.Tag, k.suffix(q.set.Limits)))
	}
	return append(keys, c.key(q.id.Tag, noSuffix))
}

// read makes statuses of the reply.
func (q *question) read(c *Client) ([]Status, error) {
	reply := q.reply.Val()
	list, ok := reply.([]any)
	values := make([]int64, len(list))
	for i := range list {
		var isNumber bool
		values[i], isNumber = list[i].(int64)
		ok = ok && isNumber
	}
	decisions := make([]algo.Decision, len(q.counters)+1)
	at, _, err := q.plan.ParseReply(values, decisions)
	if ok && errors.Is(err, algo.ErrOtherTime) {
		return nil, &otherTime{at}
	}
	if err != nil || !ok {
		return nil, fmt.Errorf("not what the script answers: %v", reply)
	}
	var all []Status
	described := explain.Limits(q.set.Limits)
	for i, k := range q.counters {
		d, in := decisions[i], q.plan.Limits()[i]
		s := Status{
			Tier: q.set.Tier, Limit: described[k.limit], Pool: q.set.Limits.Limits[k.limit].Pool,
			Used: in.Room() - d.Remaining, Remaining: d.Remaining, Cost: q.costs[i],
			ResetMicros: d.ResetAfterMicros, RetryMicros: d.RetryAfterMicros,
			WindowBegins: timeOf(d.BeginsMicros), WindowEnds: timeOf(d.EndsMicros),
		}
		s.Limit.Limit, s.Capacity = in.Units, in.Room()
		s.Key, s.Per = c.key(q.id.Tag, k.suffix(q.set.Limits)), k.values
		all = append(all, s)
	}
	return all, nil
}

// timeOf is nil for 0.
func timeOf(micros int64) *time.Time {
	if micros == 0 {
		return nil
	}
	t := time.UnixMicro(micros).UTC()
	return &t
}

// otherTime says that Redis' clock is far from this machine's.
type otherTime struct{ redisMicros int64 }

func (e *otherTime) Error() string {
	return fmt.Sprintf("the time in Redis is %s, and then another one",
		time.UnixMicro(e.redisMicros).UTC().Format(time.RFC3339))
}
