package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// otherType stands for the value of a key that is no string.
const otherType = "(a key of another type)"

// Override is an operator's setting for an identity, and how long it stays.
type Override struct {
	Value string `json:"value"`
	// ForMicros is its remaining life; -1: without end.
	ForMicros int64 `json:"for_micros"`
	// Reason is the operator's reason. The plugin does not read it.
	Reason string `json:"reason,omitempty"`
}

// asking are the replies about one override, which are complete after the pipeline has run.
type asking struct {
	value, reason *redis.StringCmd
	life          *redis.DurationCmd
}

// overridesAt reads the overrides at keys, in their order; nil where there is none.
func (c *Client) overridesAt(ctx context.Context, names []string) (all []*Override, err error) {
	for some := range slices.Chunk(names, pipelined) {
		replies := make([]asking, len(some))
		_, _ = c.redis.Pipelined(ctx, func(p redis.Pipeliner) error { // each reply has its own error
			for i, name := range some {
				replies[i] = asking{p.Get(ctx, name), p.Get(ctx, name+reasonSuffix), p.PTTL(ctx, name)}
			}
			return nil
		})
		for _, r := range replies {
			var o *Override
			switch err := r.value.Err(); {
			case errors.Is(err, redis.Nil):
			case redis.HasErrorPrefix(err, "WRONGTYPE"):
				o = &Override{Value: otherType, ForMicros: -1}
			case err != nil:
				return nil, err
			default:
				o = &Override{Value: r.value.Val(), ForMicros: -1, Reason: r.reason.Val()}
				if r.life.Val() > 0 {
					o.ForMicros = r.life.Val().Microseconds()
				}
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// ReadOverrides reads the overrides of identities, by their tags and in their order; nil for those that
// have none.
func (c *Client) ReadOverrides(ctx context.Context, tags ...string) ([]*Override, error) {
	names := make([]string, len(tags))
	for i, tag := range tags {
		names[i] = c.key([]byte(tag), algo.OverrideSuffix)
	}
	all, err := c.overridesAt(ctx, names)
	return all, c.options.explain(err)
}

// Setting is an override that an identity is to have.
type Setting struct {
	Tag    string
	Value  string // "": none
	Reason string
	// Life is how long it lasts; 0: without end.
	Life time.Duration
}

// pipelined is how many identities one write is about: with 100,000 it takes a second or two, and
// holds up no check for longer than some milliseconds.
//
// Bound: identities whose overrides are read or written at once. Beyond it, the rest takes another
// round trip. Protects Redis from a long batch.
const pipelined = 500

// WriteSettings sets overrides, or takes them away where they have no value.
func (c *Client) WriteSettings(ctx context.Context, settings ...Setting) error {
	for some := range slices.Chunk(settings, pipelined) {
		_, err := c.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range some {
				s := &some[i]
				name := c.key([]byte(s.Tag), algo.OverrideSuffix)
				for _, pair := range [][2]string{{name, s.Value}, {name + reasonSuffix, s.Reason}} {
					if pair[1] == "" {
						p.Del(ctx, pair[0])
					} else {
						p.Set(ctx, pair[0], pair[1], s.Life)
					}
				}
			}
			return nil
		})
		if err != nil {
			return c.options.explain(err)
		}
	}
	return nil
}

// Unblock takes an override, and a penalty, away. It returns how many there were.
func (c *Client) Unblock(ctx context.Context, id *Identity) (int64, error) {
	name := c.key(id.Tag, algo.OverrideSuffix)
	if _, err := c.remove(ctx, name+reasonSuffix); err != nil {
		return 0, err
	}
	return c.remove(ctx, name, c.key(id.Tag, algo.PenaltySuffix))
}

// Overridden is an override in force.
type Overridden struct {
	Rule     string `json:"rule"` // "" if the configuration has no such rule
	Identity string `json:"identity"`
	Key      string `json:"key"` // in Redis
	Override
}

// Overrides lists the overrides of a rule, or of all rules where name is empty, in the order of
// their keys. It walks over all keys as Top does.
func (c *Client) Overrides(ctx context.Context, cfg *config.Config, name string) (all []Overridden, err error) {
	begin := c.options.Prefix + ":{"
	if name != "" {
		begin += rule.TagPrefix(name)
	}
	pattern := escapeGlob(begin) + "*}" + algo.OverrideSuffix
	seen := map[string]bool{}
	err = c.eachKey(ctx, pattern, func(names []string) error {
		names = slices.DeleteFunc(names, func(name string) bool { return seen[name] })
		for _, name := range names {
			seen[name] = true
		}
		found, err := c.overridesAt(ctx, names)
		for i, o := range found {
			if o != nil {
				all = append(all, Overridden{Key: names[i], Override: *o})
			}
		}
		return err
	})
	for i := range all {
		o := &all[i]
		o.Identity, _ = identityOf(o.Key, "")
		for j := range cfg.Rules {
			r := &cfg.Rules[j]
			if identity, ok := identityOf(o.Key, rule.TagPrefix(r.Name)); ok && !r.Exempt {
				o.Rule, o.Identity = r.Name, identity
				break
			}
		}
	}
	slices.SortFunc(all, func(a, b Overridden) int { return strings.Compare(a.Key, b.Key) })
	return all, c.options.explain(err)
}

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

// eachKey calls f with the keys that match a pattern, some at a time and some of them twice, of each
// primary.
func (c *Client) eachKey(ctx context.Context, pattern string, f func(names []string) error) error {
	walk := func(node redis.Cmdable) error {
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
	}
	cluster, ok := c.redis.(*redis.ClusterClient)
	if !ok {
		return walk(c.redis)
	}
	var one sync.Mutex // primaries are walked one after the other
	return cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		one.Lock()
		defer one.Unlock()
		return walk(node)
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

func topCommand(c *console.Console) *cobra.Command {
	f, count := new(Flags), 10
	command := &cobra.Command{
		Use:   "top RULE",
		Short: "List the identities that have used most of a rule's limits",
		Long: `Top walks over Redis' keys in small steps with pauses between them, which do not
hold up other clients, and shows the identities that have used the largest share
of a limit. Of a rule with tiers the state is weighed by each tier, or by --tier.

It needs the Redis user that docs/cli.md has for this command: Envoy's may not SCAN.`,
		Args: cobra.ExactArgs(1),
	}
	f.addWalk(command)
	command.Flags().IntVar(&count, "count", count, "how many identities to show")
	walk := f.check
	f.check = func(args []string) error {
		if count < 1 {
			return console.Usage("--count: want at least 1")
		}
		return walk(args)
	}
	return f.asking(c, command, func(ctx context.Context, s *session, args []string) error {
		if _, err := Tagged(s.limiter.Config, args[0], s.tier, ""); err != nil {
			return console.Usage("%w", err)
		}
		top, err := s.client.Top(ctx, s.limiter.Config, args[0], s.tier, count)
		if err != nil {
			return console.Redis(err)
		}
		if s.JSON() {
			return s.Print(map[string]any{"identities": append([]Top{}, top...)})
		}
		if len(top) == 0 {
			s.Say("no identity has used anything\n")
			return nil
		}
		rows := [][]string{{"IDENTITY", "USED", "OF", "RESET IN", "LIMIT"}}
		for _, t := range top {
			rows = append(rows, []string{
				console.Identity(t.Identity), console.Whole(t.Used), console.Units(console.Whole(t.Capacity), t.Unit),
				console.Wait(t.ResetMicros), t.Name,
			})
		}
		return s.Table(rows)
	})
}
