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

// overridesAt reads the overrides at keys, in the order of these; nil where there is none.
func (s *session) overridesAt(ctx context.Context, names []string) (all []*Override, err error) {
	for some := range slices.Chunk(names, pipelined) {
		replies := make([]asking, len(some))
		_, _ = s.redis.Pipelined(ctx, func(p redis.Pipeliner) error { // each reply has its own error
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

// Setting is an override that an identity is to have.
type Setting struct {
	Rule   string
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

// write sets overrides, or takes them away where they have no value.
func (s *session) write(ctx context.Context, settings ...Setting) error {
	for some := range slices.Chunk(settings, pipelined) {
		if _, err := s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, o := range some {
				name := s.key([]byte(o.Tag), algo.OverrideSuffix)
				for _, pair := range [][2]string{{name, o.Value}, {name + reasonSuffix, o.Reason}} {
					if pair[1] == "" {
						p.Del(ctx, pair[0])
					} else {
						p.Set(ctx, pair[0], pair[1], o.Life)
					}
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// unblock takes an override, and a penalty, away. It returns how many there were.
func (s *session) unblock(ctx context.Context, id *Identity) (int64, error) {
	name := s.key(id.Tag, algo.OverrideSuffix)
	if err := s.redis.Del(ctx, name+reasonSuffix).Err(); err != nil {
		return 0, err
	}
	return s.redis.Del(ctx, name, s.key(id.Tag, algo.PenaltySuffix)).Result()
}

// Overridden is an override in force.
type Overridden struct {
	Rule     string `json:"rule"` // "" if the configuration has no such rule
	Identity string `json:"identity"`
	Key      string `json:"key"` // in Redis
	Override
}

// overrides lists the overrides of a rule, or of all rules where name is empty, in the order of their keys.
// It walks over all keys as top does.
func (s *session) overrides(ctx context.Context, name string) (all []Overridden, err error) {
	begin := s.Prefix + ":{"
	if name != "" {
		begin += rule.TagPrefix(name)
	}
	names, err := s.keys(ctx, escapeGlob(begin)+"*}"+algo.OverrideSuffix)
	if err != nil {
		return nil, err
	}
	found, err := s.overridesAt(ctx, names)
	for i, o := range found {
		if o == nil {
			continue // it has ended
		}
		one := Overridden{Key: names[i], Override: *o}
		one.Identity, _ = identityOf(one.Key, "")
		for _, r := range s.limiter.Config.Rules {
			if identity, ok := identityOf(one.Key, rule.TagPrefix(r.Name)); ok && !r.Exempt {
				one.Rule, one.Identity = r.Name, identity
				break
			}
		}
		all = append(all, one)
	}
	return all, err
}

// Top is an identity and its limit that is used most.
type Top struct {
	Identity string `json:"identity"`
	Status
}

// identitiesAtOnce is how many identities' state is asked for in one round trip.
const identitiesAtOnce = 100

// eachKey calls f with the keys that match a pattern, some at a time and some of them twice, of each
// primary.
func (s *session) eachKey(ctx context.Context, pattern string, f func(names []string) error) error {
	walk := func(node redis.Cmdable) error {
		seen := map[uint64]bool{}
		for cursor := uint64(0); ; {
			names, next, err := node.Scan(ctx, cursor, pattern, s.step).Result()
			if err != nil {
				return err
			}
			if err := f(names); err != nil || next == 0 {
				return err
			}
			if cursor = next; seen[cursor] {
				return fmt.Errorf("its SCAN goes round in circles: cursor %d came twice", cursor)
			}
			seen[cursor] = true
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(s.pause):
			}
		}
	}
	cluster, ok := s.redis.(*redis.ClusterClient)
	if !ok {
		// A node of a Redis Cluster, of which SCAN would give its own keys alone, refuses keys of two slots.
		if err := s.redis.Eval(ctx, "return 1", []string{s.Prefix + ":{a}", s.Prefix + ":{b}"}).Err(); err != nil {
			return err
		}
		return walk(s.redis)
	}
	var one sync.Mutex // primaries are walked one after the other
	return cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		one.Lock()
		defer one.Unlock()
		return walk(node)
	})
}

// keys are those that match a pattern, in order.
func (s *session) keys(ctx context.Context, pattern string) (all []string, err error) {
	err = s.eachKey(ctx, pattern, func(names []string) error {
		all = append(all, names...)
		return nil
	})
	slices.Sort(all)
	return slices.Compact(all), err
}

// compare orders by the share of the capacity that is used, then by how long it
// takes until it is back.
func compare(a, b Status) int {
	used := func(s Status) float64 { return float64(s.Used) / float64(max(1, s.Capacity)) }
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
		Args: func(command *cobra.Command, args []string) error {
			if count < 1 {
				return console.Usage("--count: want at least 1")
			}
			return cobra.ExactArgs(1)(command, args)
		},
	}
	command.Flags().IntVar(&count, "count", count, "how many identities to show")
	return f.walking(c, command, func(ctx context.Context, s *session, args []string) error {
		t, err := NewTagger(s.limiter.Config, args[0])
		if err == nil {
			err = t.Any.choose(s.tier, nil)
		}
		if err != nil {
			return console.Misuse(err)
		}
		best, prefix, seen := []Top{}, t.prefix, map[string]bool{}
		err = s.eachKey(ctx, escapeGlob(s.Prefix+":{"+prefix)+"*", func(names []string) error {
			var ids []*Identity
			for _, name := range names {
				if identity, ok := identityOf(name, prefix); ok && !seen[identity] {
					seen[identity] = true
					demand := rule.Demand{Tag: []byte(prefix + identity), Values: rule.Values{}}
					ids = append(ids, &Identity{Rule: t.Rule, Demand: demand, Sets: t.Any.Sets})
				}
			}
			for ids := range slices.Chunk(ids, identitiesAtOnce) {
				all, err := s.read(ctx, ids...)
				if err != nil {
					return err
				}
				for _, id := range ids {
					if len(all[id]) == 0 {
						continue
					}
					if most := slices.MaxFunc(all[id], compare); most.Used > 0 {
						best = append(best, Top{string(id.Tag[len(prefix):]), most})
					}
				}
				slices.SortStableFunc(best, func(a, b Top) int { return compare(b.Status, a.Status) })
				best = best[:min(len(best), count)]
			}
			return nil
		})
		if err != nil {
			return err
		}
		rows := [][]string{{"IDENTITY", "USED", "OF", "RESET IN", "LIMIT"}}
		for _, t := range best {
			rows = append(rows, []string{
				console.Identity(t.Identity), console.Whole(t.Used), console.Units(console.Whole(t.Capacity), t.Unit),
				console.Wait(t.ResetMicros), t.Name,
			})
		}
		return s.Show(map[string]any{"identities": best}, rows, "no identity has used anything")
	})
}
