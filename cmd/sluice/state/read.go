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

// The suffixes of the keys beside those of limits.
const (
	overrideSuffix = ":override"
	reasonSuffix   = ":reason" // after overrideSuffix
	penaltySuffix  = ":penalty"
	noSuffix       = ":none" // of a key that is never written
)

// never is a limit that no request of cost 2 passes. A script that has it among its
// limits says what each of the others would decide, and charges nothing.
var never = algo.Limit{Algorithm: algo.FixedWindow, Units: 1, WindowMicros: 1_000_000}

// question asks about limits without charging them.
type question struct {
	set  *rule.LimitSet
	from int // the limits [from, to) of the set: a plan has so many at most
	to   int
	plan *algo.Plan
	// costs are those of the limits, of args too.
	costs []int64
	args  []any
}

// questions are as many as a list of limits needs. Calendar windows are those around
// a time.
func questions(id *Identity, set *rule.LimitSet, micros int64) (all []question, err error) {
	const atOnce = algo.MaxLimits - 1
	at, sizes := LimitsAt(set, micros), id.sizes(set)
	for from := 0; from < len(at); from += atOnce {
		q := question{set: set, from: from, to: min(from+atOnce, len(at))}
		limits := append(at[q.from:q.to:q.to], never)
		for i := range limits[:q.to-q.from] {
			if sizes != nil {
				limits[i].Units, limits[i].Burst = sizes[q.from+i].Units, sizes[q.from+i].Burst
			}
			size := limits[i].Times(id.factor())
			limits[i].Units, limits[i].Burst = size.Units, size.Burst
			q.costs = append(q.costs, id.cost(q.from+i))
		}
		if q.plan, err = algo.NewPlan(limits); err != nil {
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
	for i := q.from; i < q.to; i++ {
		keys = append(keys, key(prefix, tag, q.set.KeySuffixes[i]))
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
	decisions := make([]algo.Decision, q.to-q.from+1)
	at, _, err := q.plan.ParseReply(values, decisions)
	if ok && errors.Is(err, algo.ErrOtherTime) {
		return nil, &otherTime{at}
	}
	if err != nil || !ok {
		return nil, fmt.Errorf("not what the script answers: %v", reply)
	}
	var all []Status
	for i := q.from; i < q.to; i++ {
		l, d, in := &q.set.Limits[i], decisions[i-q.from], q.plan.Limits()[i-q.from]
		all = append(all, Status{
			Tier: tier, Name: l.Name, Algorithm: l.Algorithm.String(), Limit: in.Units, Window: l.Window,
			Capacity: in.Capacity(),
			Key:      key(prefix, tag, q.set.KeySuffixes[i]),
			Used:     in.Capacity() - d.Remaining, Remaining: d.Remaining, Cost: q.costs[i-q.from],
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
	_, err := c.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			for _, set := range id.Sets {
				if set.Limits == nil {
					continue // an unlimited tier
				}
				all, err := questions(id, set.Limits, micros)
				if err != nil {
					return err
				}
				for _, q := range all {
					reply := p.Eval(ctx, q.plan.Script().Source, q.keys(c.options.Prefix, id.Tag), q.args...)
					sent = append(sent, asked{q, i, set.Tier, reply})
				}
			}
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
		for _, suffix := range set.Limits.KeySuffixes {
			if name := c.key(id.Tag, suffix); !slices.Contains(keys, name) {
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
