package live

import (
	"cmp"
	"context"
	"fmt"
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

// identitiesAtOnce is how many identities' state is asked for in one round trip.
const identitiesAtOnce = 100

// Top finds the identities of a rule that have used most of a limit. It walks over
// all keys in steps that are too small for Redis to notice.
func (c *Client) Top(ctx context.Context, cfg *config.Config, name, tier string, count int) (best []Top, err error) {
	some, err := Tagged(cfg, name, tier, "")
	if err != nil {
		return nil, err
	}
	prefix, seen := string(some.Tag), map[string]bool{}
	err = c.eachKey(ctx, escapeGlob(c.options.Prefix+":{"+prefix)+"*", func(names []string) error {
		var ids []*Identity
		for _, name := range names {
			if identity, ok := identityOf(name, prefix); ok && !seen[identity] {
				seen[identity] = true
				id := &Identity{Rule: some.Rule, Tag: []byte(prefix + identity), Sets: some.Sets, Values: rule.Values{}}
				ids = append(ids, id)
			}
		}
		for ids := range slices.Chunk(ids, identitiesAtOnce) {
			all, err := c.readAll(ctx, ids)
			if err != nil {
				return err
			}
			for _, id := range ids {
				best = keep(best, string(id.Tag[len(prefix):]), all[id], count)
			}
		}
		return nil
	})
	return best, c.options.explain(err)
}

// keep takes an identity in if it is among the count that have used most.
func keep(best []Top, identity string, statuses []Status, count int) []Top {
	if len(statuses) == 0 {
		return best
	}
	most := slices.MaxFunc(statuses, func(a, b Status) int { return compare(&a, &b) })
	if most.Used == 0 {
		return best
	}
	best = append(best, Top{identity, most})
	slices.SortStableFunc(best, func(a, b Top) int { return compare(&b.Status, &a.Status) })
	return best[:min(len(best), count)]
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

// eachKey calls f with the keys that match a pattern, some at a time and some of them twice, of each
// primary.
func (c *Client) eachKey(ctx context.Context, pattern string, f func(names []string) error) error {
	return c.eachPrimary(ctx, func(node redis.Cmdable) error {
		seen := map[uint64]bool{}
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
			if seen[cursor] {
				return fmt.Errorf("its SCAN goes round in circles: cursor %d came twice", cursor)
			}
			seen[cursor] = true
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(c.options.PauseOfScan):
			}
		}
	})
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
