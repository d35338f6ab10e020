package state

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

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

// ask queues the question about the override at a key.
func ask(ctx context.Context, p redis.Pipeliner, name string) asking {
	return asking{p.Get(ctx, name), p.Get(ctx, name+reasonSuffix), p.PTTL(ctx, name)}
}

// answer is the override; nil if there is none.
func (a *asking) answer() (*Override, error) {
	switch err := a.value.Err(); {
	case isNil(err):
		return nil, nil
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return &Override{Value: otherType, ForMicros: -1}, nil
	case err != nil:
		return nil, err
	}
	o := &Override{Value: a.value.Val(), ForMicros: -1, Reason: a.reason.Val()}
	if a.life.Val() > 0 {
		o.ForMicros = a.life.Val().Microseconds()
	}
	return o, nil
}

// ReadOverride is an identity's override; nil if it has none.
func (c *Client) ReadOverride(ctx context.Context, id *Identity) (*Override, error) {
	var asked asking
	_, _ = c.redis.Pipelined(ctx, func(p redis.Pipeliner) error { // each reply has its own error
		asked = ask(ctx, p, c.key(id.Tag, algo.OverrideSuffix))
		return nil
	})
	o, err := asked.answer()
	if err != nil {
		return nil, c.options.explain(err)
	}
	return o, nil
}

// SetOverride sets an identity's override, for ForMicros or, with 0, for good.
func (c *Client) SetOverride(ctx context.Context, id *Identity, o *Override) error {
	name, life := c.key(id.Tag, algo.OverrideSuffix), time.Duration(o.ForMicros)*time.Microsecond
	_, err := c.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, name, o.Value, life)
		if o.Reason == "" {
			p.Del(ctx, name+reasonSuffix)
		} else {
			p.Set(ctx, name+reasonSuffix, o.Reason, life)
		}
		return nil
	})
	if err != nil {
		return c.options.explain(err)
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
	pattern := escapeGlob(c.options.Prefix+":{") + "*}" + algo.OverrideSuffix
	if name != "" {
		r, err := find(cfg, name)
		if err != nil {
			return nil, err
		}
		pattern = escapeGlob(c.options.Prefix+":{"+rule.TagPrefix(r.Name)) + "*}" + algo.OverrideSuffix
	}
	seen := map[string]bool{}
	err = c.eachKey(ctx, pattern, func(names []string) error {
		names = slices.DeleteFunc(names, func(name string) bool { return seen[name] })
		for _, name := range names {
			seen[name] = true
		}
		found, err := c.overridesAt(ctx, names)
		all = append(all, found...)
		return err
	})
	if err != nil {
		return nil, c.options.explain(err)
	}
	for i := range all {
		all[i].name(cfg)
	}
	slices.SortFunc(all, func(a, b Overridden) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

// overridesAt reads the overrides at keys, in one round trip.
func (c *Client) overridesAt(ctx context.Context, names []string) (all []Overridden, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	replies := make([]asking, len(names))
	_, _ = c.redis.Pipelined(ctx, func(p redis.Pipeliner) error { // each reply has its own error
		for i, name := range names {
			replies[i] = ask(ctx, p, name)
		}
		return nil
	})
	for i, name := range names {
		o, err := replies[i].answer()
		if err != nil {
			return nil, err
		}
		if o != nil {
			all = append(all, Overridden{Key: name, Override: *o})
		}
	}
	return all, nil
}

// name finds the rule and the identity of a key.
func (o *Overridden) name(cfg *config.Config) {
	for i := range cfg.Rules {
		r := &cfg.Rules[i]
		if identity, ok := identityOf(o.Key, rule.TagPrefix(r.Name)); ok && !r.Exempt {
			o.Rule, o.Identity = r.Name, identity
			return
		}
	}
	o.Identity, _ = identityOf(o.Key, "")
}
