package state

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Override is what an operator has set for an identity, and how long it stays.
type Override struct {
	Value string `json:"value"`
	// ForMicros is its remaining life; -1: without end.
	ForMicros int64 `json:"for_micros"`
}

// ReadOverride is an identity's override; nil if it has none.
func (c *Client) ReadOverride(ctx context.Context, prefix string, id *Identity) (*Override, error) {
	name := key(prefix, id.Tag, overrideSuffix)
	var value *redis.StringCmd
	var life *redis.DurationCmd
	_, err := c.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		value, life = p.Get(ctx, name), p.PTTL(ctx, name)
		return nil
	})
	if isNil(err) {
		return nil, nil
	}
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return &Override{Value: "(a key of another type)", ForMicros: -1}, nil
	}
	if err != nil {
		return nil, c.options.explain(err)
	}
	o := &Override{Value: value.Val(), ForMicros: -1}
	if life.Val() > 0 {
		o.ForMicros = life.Val().Microseconds()
	}
	return o, nil
}

// SetOverride sets an identity's override, for a while or, with 0, for good.
func (c *Client) SetOverride(ctx context.Context, prefix string, id *Identity, value string, life time.Duration) error {
	if err := c.redis.Set(ctx, key(prefix, id.Tag, overrideSuffix), value, life).Err(); err != nil {
		return c.options.explain(err)
	}
	return nil
}

// Unblock takes an override, and a penalty, away. It returns how many there were.
func (c *Client) Unblock(ctx context.Context, prefix string, id *Identity) (int64, error) {
	return c.remove(ctx, key(prefix, id.Tag, overrideSuffix), key(prefix, id.Tag, penaltySuffix))
}
