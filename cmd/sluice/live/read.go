package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/plugin/config"
	wire "github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Status is Redis' word on one limit of an identity.
type Status struct {
	Tier string `json:"tier,omitempty"`
	explain.Limit
	// Pool is whether the limit is that of which another one guarantees a part.
	Pool bool `json:"pool,omitempty"`

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

func (s *session) key(tag []byte, suffix string) string {
	return string(wire.AppendKey(nil, s.Prefix, tag, suffix))
}

// counter is the subject of one limit: the identity, or of a limit with "per" a value within it.
type counter struct {
	limit  int
	values string // as in keys; "" for the identity itself
}

// suffix is that of the counter's key.
func (k counter) suffix(set *rule.LimitSet) string { return set.KeySuffixes[k.limit] + k.values }

// counters are those of an identity among limits: of one with "per" that of the values that are
// known, or else all that Redis has.
func (s *session) counters(ctx context.Context, id *Identity, set *rule.LimitSet) (all []counter, err error) {
	for i := range set.Limits {
		if !set.IsPer(i) {
			all = append(all, counter{limit: i})
			continue
		}
		values, known, err := id.valuesOf(set, i)
		switch {
		case err != nil:
			return nil, console.Redis(err)
		case known && values != "":
			all = append(all, counter{i, values})
		case !known:
			begin := s.key(id.Tag, set.KeySuffixes[i])
			names, err := s.keys(ctx, escapeGlob(begin)+"*")
			if err != nil {
				return nil, err
			}
			id.Scanned = true
			for _, name := range names {
				all = append(all, counter{i, strings.TrimPrefix(name, begin)})
			}
		}
	}
	return all, nil
}

// valuesOf are the values of a limit with "per"; "" if the limit does not apply. known is false if
// neither a request nor --per has any.
func (id *Identity) valuesOf(set *rule.LimitSet, limit int) (values string, known bool, err error) {
	if id.Values != nil {
		found, _ := set.ValuesOf(id.Values, limit)
		return string(found), true, nil
	}
	if id.Per == nil {
		return "", false, nil
	}
	var all []*config.Component // those of "per" in the order in which --per has their values: each once
	for _, set := range id.Sets {
		for i := range set.Limits {
			for _, c := range valued(set.Limits[i].Per) {
				known := func(other *config.Component) bool { return same(c, other) }
				if !slices.ContainsFunc(all, known) {
					all = append(all, c)
				}
			}
		}
	}
	if len(id.Per) > len(all) {
		return "", false, fmt.Errorf("rule %q has %s in \"per\", %d given (want %s)", id.Rule.Name,
			console.Count(len(all), "value"), len(id.Per), wanted(all))
	}
	per := set.Limits[limit].Per
	var given []string
	for _, c := range valued(per) {
		at := slices.IndexFunc(all, func(other *config.Component) bool { return same(c, other) })
		if at >= len(id.Per) {
			return "", true, nil // it does not apply to these values
		}
		given = append(given, id.Per[at])
	}
	t := tagger(&config.Rule{Name: "per", Key: per}, "")
	t.makes = "part of an identity"
	tag, _, err := t.Tag(given)
	_, values, _ = strings.Cut(string(tag), "|")
	return values, true, err
}

// read asks for the state of identities, a status for each limit that may apply, in one round trip.
func (s *session) read(ctx context.Context, ids ...*Identity) (map[*Identity][]Status, error) {
	var sent []*question
	for _, id := range ids {
		for _, set := range id.Sets {
			counters, err := s.counters(ctx, id, set)
			if err != nil {
				return nil, err
			}
			for some := range slices.Chunk(counters, algo.MaxLimits-1) { // and never
				q, err := newQuestion(id, set, some, s.nowMicros())
				if err != nil {
					return nil, err
				}
				sent = append(sent, q)
			}
		}
	}
	_, err := s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, q := range sent {
			var keys []string // of the limits, and of never
			for _, k := range q.counters {
				keys = append(keys, s.key(q.id.Tag, k.suffix(q.set)))
			}
			q.reply = p.Eval(ctx, q.plan.Script().Source, append(keys, s.key(q.id.Tag, noSuffix)), q.args...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	found := map[*Identity][]Status{}
	for _, q := range sent {
		statuses, err := q.read(s)
		if err != nil {
			return nil, console.Redis(err)
		}
		found[q.id] = append(found[q.id], statuses...)
	}
	return found, nil
}

// reset forgets what an identity has used. It returns how many limits' state there was.
func (s *session) reset(ctx context.Context, id *Identity) (int64, error) {
	var keys []string
	for _, set := range id.Sets {
		counters, err := s.counters(ctx, id, set)
		if err != nil {
			return 0, err
		}
		for _, k := range counters {
			if id.Per == nil || k.values != "" { // with --per a part of the identity is meant
				keys = append(keys, s.key(id.Tag, k.suffix(set)))
			}
		}
	}
	if len(keys) == 0 {
		return 0, nil
	}
	return s.redis.Del(ctx, keys...).Result()
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

// Penalty is the state of a rule's penalty for an identity.
type Penalty struct {
	// Strikes are the rejections that count, of the After that earn a block.
	Strikes int64 `json:"strikes"`
	After   int64 `json:"after"`
	// ForMicros is how long it is blocked; 0: it is not.
	ForMicros int64 `json:"for_micros"`
}

// penalty is an identity's penalty; nil if its rule has none.
func (s *session) penalty(ctx context.Context, id *Identity) (*Penalty, error) {
	p := rule.TermsOf(id.Rule).Penalty
	if p == nil {
		return nil, nil
	}
	text, err := s.redis.Get(ctx, s.key(id.Tag, algo.PenaltySuffix)).Bytes()
	if errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE") { // as the plugin takes it
		return &Penalty{After: p.After}, nil
	}
	state, at := algo.ReadPenaltyState(text), s.nowMicros()
	return &Penalty{Strikes: p.Strikes(state, at), After: p.After, ForMicros: p.LeftMicros(state, at)}, err
}

// never is a limit that no request of cost 2 passes. A script that has it among its
// limits says what each of the others would decide, and charges nothing.
var never = algo.Limit{Algorithm: algo.FixedWindow, Units: 1, WindowMicros: 1_000_000}

// question asks about limits without charging them.
type question struct {
	id       *Identity
	set      *rule.LimitSet
	counters []counter // of the set, as many as a plan may have
	plan     *algo.Plan
	costs    []int64 // of the limits, of args too
	args     []any
	reply    *redis.Cmd // when it has been sent
}

// newQuestion asks about some counters. Calendar windows are those around a time.
func newQuestion(id *Identity, set *rule.LimitSet, counters []counter, micros int64) (*question, error) {
	q := &question{id: id, set: set, counters: counters}
	at, sizes := LimitsAt(set, micros), explain.Sizes(id.setting, set, id.Sizes)
	var limits []algo.Limit
	for _, k := range counters {
		l, cost := at[k.limit], int64(1)
		if sizes != nil {
			size := sizes[k.limit]
			l.Units, l.Burst, l.Ceiling = size.Units, size.Burst, size.Ceiling
		}
		l.Fit()
		// Each is asked by itself, whatever the others are.
		l.PerID, l.Guarantee, l.Pool = l.PerID+k.values, false, false
		limits = append(limits, l)
		if id.Costs != nil {
			cost = id.Costs[k.limit]
		}
		q.costs = append(q.costs, cost)
	}
	last := never
	last.Over = limits[len(limits)-1].Over // what pays for others stands behind them
	plan, err := algo.NewPlan(append(limits, last))
	if err != nil {
		return nil, err
	}
	q.plan = plan.AsOne()
	q.args = Arguments(q.plan, 0, append(slices.Clone(q.costs), 2)) // more than never has
	return q, nil
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

// read makes statuses of the reply.
func (q *question) read(s *session) ([]Status, error) {
	values, err := q.reply.Int64Slice()
	decisions, at := make([]algo.Decision, len(q.counters)+1), int64(0)
	if err == nil {
		at, _, err = q.plan.ParseReply(values, decisions)
	}
	if errors.Is(err, algo.ErrOtherTime) {
		return nil, fmt.Errorf("the time in Redis is %s, and was another one",
			time.UnixMicro(at).UTC().Format(time.RFC3339))
	}
	if err != nil {
		return nil, fmt.Errorf("not what the script answers: %v", q.reply.Val())
	}
	var all []Status
	described := explain.Limits(q.set)
	for i, k := range q.counters {
		d, in := decisions[i], q.plan.Limits()[i]
		status := Status{
			Tier: q.set.Tier, Limit: described[k.limit], Pool: q.set.Limits[k.limit].Pool,
			Used: in.Room() - d.Remaining, Remaining: d.Remaining, Cost: q.costs[i],
			ResetMicros: d.ResetAfterMicros, RetryMicros: d.RetryAfterMicros,
			WindowBegins: timeOf(d.BeginsMicros), WindowEnds: timeOf(d.EndsMicros),
		}
		status.Limit.Limit, status.Capacity = in.Units, in.Room()
		status.Key, status.Per = s.key(q.id.Tag, k.suffix(q.set)), k.values
		all = append(all, status)
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
