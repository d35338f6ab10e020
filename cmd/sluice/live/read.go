package live

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
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

func (c *Client) key(tag []byte, suffix string) string {
	return string(wire.AppendKey(nil, c.options.Prefix, tag, suffix))
}

// Read asks for the state of an identity: one status for each limit that may apply.
func (c *Client) Read(ctx context.Context, id *Identity) ([]Status, error) {
	all, err := c.readAll(ctx, []*Identity{id})
	if err != nil {
		return nil, err
	}
	return all[id], nil
}

// readAll asks for the state of identities in one round trip, or in two where Redis'
// clock is far from this machine's.
func (c *Client) readAll(ctx context.Context, ids []*Identity) (map[*Identity][]Status, error) {
	all, err := c.readAllAt(ctx, ids, time.Now().UnixMicro())
	if other := (*otherTime)(nil); errors.As(err, &other) {
		return c.readAllAt(ctx, ids, other.redisMicros)
	}
	return all, err
}

// readAllAt does so with the calendar windows around a time.
func (c *Client) readAllAt(ctx context.Context, ids []*Identity, micros int64) (map[*Identity][]Status, error) {
	var sent []question
	for _, id := range ids {
		for _, set := range id.Sets {
			if set.Limits == nil {
				continue // an unlimited tier
			}
			counters, err := c.counters(ctx, id, set.Limits)
			if err != nil {
				return nil, err
			}
			all, err := questions(id, set, counters, micros)
			if err != nil {
				return nil, err
			}
			sent = append(sent, all...)
		}
	}
	_, err := c.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range sent {
			q := &sent[i]
			q.reply = p.Eval(ctx, q.plan.Script().Source, q.keys(c), q.args...)
		}
		return nil
	})
	if err != nil {
		return nil, c.options.explain(err)
	}
	found := map[*Identity][]Status{}
	for i := range sent {
		q := &sent[i]
		statuses, err := q.read(c)
		if err != nil {
			return nil, err
		}
		found[q.id] = append(found[q.id], statuses...)
	}
	return found, nil
}

// Reset forgets what an identity has used. It returns how many limits' state there
// was.
func (c *Client) Reset(ctx context.Context, id *Identity) (int64, error) {
	var keys []string
	for _, set := range id.LimitSets() {
		counters, err := c.counters(ctx, id, set)
		if err != nil {
			return 0, err
		}
		for _, k := range counters {
			if id.Per != nil && k.values == "" {
				continue // a part of the identity is meant
			}
			if name := c.key(id.Tag, k.suffix(set)); !slices.Contains(keys, name) {
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
	return n, c.options.explain(err)
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

// ReadPenalty is an identity's penalty; nil if its rule has none.
func (c *Client) ReadPenalty(ctx context.Context, id *Identity) (*Penalty, error) {
	p := rule.TermsOf(id.Rule).Penalty
	if p == nil {
		return nil, nil
	}
	name := c.key(id.Tag, algo.PenaltySuffix)
	text, err := c.redis.Get(ctx, name).Bytes()
	switch {
	case errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE"): // as the plugin takes it
		return &Penalty{After: p.After}, nil
	case err != nil:
		return nil, c.options.explain(err)
	}
	now, err := c.redis.Time(ctx).Result()
	if err != nil {
		return nil, c.options.explain(err)
	}
	state := algo.ReadPenaltyState(text)
	return &Penalty{
		Strikes: p.Strikes(state, now.UnixMicro()), After: p.After,
		ForMicros: p.LeftMicros(state, now.UnixMicro()),
	}, nil
}
