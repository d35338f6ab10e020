package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	wire "github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Status is Redis' word on one limit of an identity.
type Status struct {
	Tier      string `json:"tier,omitempty"`
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Limit     int64  `json:"limit"`
	Window    string `json:"window"`
	Capacity  int64  `json:"capacity"`
	Key       string `json:"key"`
	// Per are the values that a limit with "per" counts, as in its key.
	Per string `json:"per,omitempty"`
	// Guarantee and Pool are whether the limit is one of such a pair.
	Guarantee bool `json:"guarantee,omitempty"`
	Pool      bool `json:"pool,omitempty"`

	Used      int64 `json:"used"`
	Remaining int64 `json:"remaining"`
	// Cost is the cost asked for, 1 unless the request says more.
	Cost int64 `json:"cost"`
	// ResetMicros is the time until nothing is used, RetryMicros until a request of
	// this cost is admitted: 0 now, -1 never.
	ResetMicros int64 `json:"reset_micros"`
	RetryMicros int64 `json:"retry_micros"`
	// WindowBegins and WindowEnds are the calendar window that Redis' time is in.
	WindowBegins *time.Time `json:"window_begins,omitempty"`
	WindowEnds   *time.Time `json:"window_ends,omitempty"`
}

// Suffixes of keys that the plugin does not have.
const (
	reasonSuffix = ":reason" // after an override's
	noSuffix     = ":none"   // of a key that is never written
)

// never is a limit that no request of cost 2 passes. A script that has it among its
// limits says what each of the others would decide, and charges nothing.
var never = algo.Limit{Algorithm: algo.FixedWindow, Units: 1, WindowMicros: 1_000_000}

// question asks about limits without charging them.
type question struct {
	set      *rule.LimitSet
	counters []counter // of the set, as many as a plan may have
	plan     *algo.Plan
	// costs are those of the limits, of args too.
	costs []int64
	args  []any
}

// questions are as many as the counters of a list of limits need. Calendar windows are those around
// a time.
func questions(id *Identity, set *rule.LimitSet, counters []counter, micros int64) (all []question, err error) {
	const atOnce = algo.MaxLimits - 1
	at, sizes := LimitsAt(set, micros), id.sizes(set)
	for some := range slices.Chunk(counters, atOnce) {
		q := question{set: set, counters: some}
		var limits []algo.Limit
		for _, k := range some {
			l := at[k.limit]
			if sizes != nil {
				size := sizes[k.limit]
				l.Units, l.Burst, l.Ceiling = size.Units, size.Burst, size.Ceiling
			}
			size := l.Times(id.factor())
			l.Units, l.Burst = size.Units, size.Burst
			// Each is asked by itself, whatever the others are.
			l.PerID, l.Guarantee, l.Pool = l.PerID+k.values, false, false
			limits = append(limits, l)
			q.costs = append(q.costs, id.cost(k.limit))
		}
		if q.plan, err = algo.NewPlan(append(limits, never)); err != nil {
			return nil, err
		}
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

// Arguments are each limit's cost, nonce, what is over of an earlier batch, and constants.
func Arguments(plan *algo.Plan, nonce int64, costs []int64) (args []any) {
	for i := range plan.Limits() {
		args = append(args, costs[i])
		if plan.TakesNonce(i) {
			args = append(args, nonce)
		}
		if plan.TakesOver(i) {
			args = append(args, 0, 0)
		}
		for _, a := range plan.Args(i) {
			args = append(args, a)
		}
	}
	return args
}

// keys are those of the question's limits, and of never.
func (q *question) keys(prefix string, tag []byte) (keys []string) {
	for _, k := range q.counters {
		keys = append(keys, key(prefix, tag, k.suffix(q.set)))
	}
	return append(keys, key(prefix, tag, noSuffix))
}

func (c *Client) key(tag []byte, suffix string) string { return key(c.options.Prefix, tag, suffix) }

func key(prefix string, tag []byte, suffix string) string {
	return string(wire.AppendKey(nil, prefix, tag, suffix))
}

// read makes statuses of the reply.
func (q *question) read(reply any, prefix string, tag []byte, tier string) ([]Status, error) {
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
	for i, k := range q.counters {
		l, d, in := &q.set.Limits[k.limit], decisions[i], q.plan.Limits()[i]
		all = append(all, Status{
			Tier: tier, Name: l.Name, Algorithm: l.Algorithm.String(), Limit: in.Units, Window: l.Window,
			Capacity: in.Room(),
			Key:      key(prefix, tag, k.suffix(q.set)),
			Per:      k.values, Guarantee: l.Guarantee, Pool: l.Pool,
			Used: in.Room() - d.Remaining, Remaining: d.Remaining, Cost: q.costs[i],
			ResetMicros: d.ResetAfterMicros, RetryMicros: d.RetryAfterMicros,
			WindowBegins: timeOf(d.BeginsMicros), WindowEnds: timeOf(d.EndsMicros),
		})
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

// Prefix is the beginning of all keys of a configuration.
func Prefix(cfg *config.Config) string {
	if cfg.Redis == nil {
		return "rl" // as the plugin has it by default
	}
	return cfg.Redis.KeyPrefix
}

// Read asks for the state of an identity: one status for each limit that may apply.
func (c *Client) Read(ctx context.Context, id *Identity) ([]Status, error) {
	all, err := c.readAll(ctx, []*Identity{id})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// asked is one question that was sent.
type asked struct {
	question
	identity int
	tier     string
	reply    *redis.Cmd
}

// readAll asks for the state of identities in one round trip, or in two where Redis'
// clock is far from this machine's.
func (c *Client) readAll(ctx context.Context, ids []*Identity) ([][]Status, error) {
	all, err := c.readAllAt(ctx, ids, time.Now().UnixMicro())
	if other := (*otherTime)(nil); errors.As(err, &other) {
		return c.readAllAt(ctx, ids, other.redisMicros)
	}
	return all, err
}

// readAllAt does so with the calendar windows around a time.
func (c *Client) readAllAt(ctx context.Context, ids []*Identity, micros int64) ([][]Status, error) {
	var sent []asked
	for i, id := range ids {
		for _, set := range id.Sets {
			if set.Limits == nil {
				continue // an unlimited tier
			}
			counters, err := c.counters(ctx, id, set.Limits)
			if err != nil {
				return nil, err
			}
			all, err := questions(id, set.Limits, counters, micros)
			if err != nil {
				return nil, err
			}
			for _, q := range all {
				sent = append(sent, asked{question: q, identity: i, tier: set.Tier})
			}
		}
	}
	_, err := c.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range sent {
			q := &sent[i]
			q.reply = p.Eval(ctx, q.plan.Script().Source, q.keys(c.options.Prefix, ids[q.identity].Tag), q.args...)
		}
		return nil
	})
	if err != nil {
		return nil, c.options.explain(err)
	}
	found := make([][]Status, len(ids))
	for i := range sent {
		a := &sent[i]
		statuses, err := a.read(a.reply.Val(), c.options.Prefix, ids[a.identity].Tag, a.tier)
		if err != nil {
			return nil, err
		}
		found[a.identity] = append(found[a.identity], statuses...)
	}
	return found, nil
}

// Reset forgets what an identity has used. It returns how many limits' state there
// was.
func (c *Client) Reset(ctx context.Context, id *Identity) (int64, error) {
	var keys []string
	for _, set := range id.Sets {
		if set.Limits == nil {
			continue
		}
		counters, err := c.counters(ctx, id, set.Limits)
		if err != nil {
			return 0, err
		}
		for _, k := range counters {
			if id.Per != nil && k.values == "" {
				continue // a part of the identity is meant
			}
			if name := c.key(id.Tag, k.suffix(set.Limits)); !slices.Contains(keys, name) {
				keys = append(keys, name)
			}
		}
	}
	return c.remove(ctx, keys...)
}

func (c *Client) remove(ctx context.Context, keys ...string) (int64, error) {
	if len(keys) == 0 {
		return 0, nil
	}
	n, err := c.redis.Del(ctx, keys...).Result()
	if err != nil {
		return 0, c.options.explain(err)
	}
	return n, nil
}

// identityOf is the identity in a key's hash tag, if the tag is a rule's.
func identityOf(key, tagPrefix string) (string, bool) {
	_, rest, ok := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	if !ok || !closed {
		return "", false
	}
	return strings.CutPrefix(tag, tagPrefix)
}
