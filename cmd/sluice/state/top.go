package state

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluiceproxy/sluice/plugin/rule"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// Top is an identity and its limit that is used most.
type Top struct {
	Identity string `json:"identity"`
	Status
}

// Top finds the identities of a rule that have used most of a limit. It walks over
// all keys in steps that are too small for Redis to notice.
func (c *Client) Top(ctx context.Context, cfg *config.Config, name, tier string, count int) ([]Top, error) {
	some, err := Tagged(cfg, name, tier, "")
	if err != nil {
		return nil, err
	}
	scan := &scan{client: c, rule: some, tagPrefix: string(some.Tag), seen: map[string]bool{}, count: count}
	pattern := escapeGlob(c.options.Prefix+":{"+scan.tagPrefix) + "*"
	err = c.eachKey(ctx, pattern, func(names []string) error { return scan.take(ctx, names) })
	if err == nil {
		err = scan.ask(ctx)
	}
	if err != nil {
		return nil, c.options.explain(err)
	}
	return scan.best, nil
}

// eachPrimary calls f for Redis, or for each primary of a Redis Cluster, one after
// the other.
func (c *Client) eachPrimary(ctx context.Context, f func(redis.Cmdable) error) error {
	cluster, ok := c.redis.(*redis.ClusterClient)
	if !ok {
		return f(c.redis)
	}
	var one sync.Mutex
	return cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		one.Lock()
		defer one.Unlock()
		return f(node)
	})
}

// scan collects identities and keeps the best of them.
type scan struct {
	client    *Client
	rule      *Identity // for its limits
	tagPrefix string
	seen      map[string]bool
	pending   []string // whose state has not been asked for
	best      []Top
	count     int
}

// take collects the identities of keys, and asks for their state once they are many.
func (s *scan) take(ctx context.Context, names []string) error {
	for _, name := range names {
		if identity, ok := identityOf(name, s.tagPrefix); ok && !s.seen[identity] {
			s.seen[identity] = true
			s.pending = append(s.pending, identity)
		}
	}
	if len(s.pending) >= s.client.options.IdentitiesAtOnce {
		return s.ask(ctx)
	}
	return nil
}

// eachKey calls f with the keys that match a pattern, some at a time and some of them twice, of each
// primary.
func (c *Client) eachKey(ctx context.Context, pattern string, f func(names []string) error) error {
	return c.eachPrimary(ctx, func(node redis.Cmdable) error {
		for cursor := uint64(0); ; {
			names, next, err := node.Scan(ctx, cursor, pattern, c.options.KeysInAScanStep).Result()
			if err != nil {
				return err
			}
			if err := f(names); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(c.options.PauseOfScan):
			}
		}
	})
}

// ask finds the state of the identities that are pending, in one round trip.
func (s *scan) ask(ctx context.Context) error {
	if len(s.pending) == 0 {
		return nil
	}
	ids := make([]*Identity, len(s.pending))
	for i, identity := range s.pending {
		ids[i] = &Identity{Rule: s.rule.Rule, Tag: []byte(s.tagPrefix + identity), Sets: s.rule.Sets, Values: rule.Values{}}
	}
	all, err := s.client.readAll(ctx, ids)
	if err != nil {
		return err
	}
	for i, identity := range s.pending {
		s.keep(identity, all[i])
	}
	s.pending = s.pending[:0]
	return nil
}

// keep takes an identity in if it is among those that have used most.
func (s *scan) keep(identity string, statuses []Status) {
	if len(statuses) == 0 {
		return
	}
	most := slices.MaxFunc(statuses, func(a, b Status) int { return compare(&a, &b) })
	if most.Used == 0 {
		return
	}
	s.best = append(s.best, Top{identity, most})
	slices.SortStableFunc(s.best, func(a, b Top) int { return compare(&b.Status, &a.Status) })
	s.best = s.best[:min(len(s.best), s.count)]
}

// compare orders by the share of the capacity that is used, then by how long it
// takes until it is back.
func compare(a, b *Status) int {
	used := func(s *Status) float64 { return float64(s.Used) / float64(max(1, s.Capacity)) }
	return cmp.Or(cmp.Compare(used(a), used(b)), cmp.Compare(a.ResetMicros, b.ResetMicros))
}

// escapeGlob writes a text so that a pattern of SCAN matches it alone.
func escapeGlob(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(text)
}
