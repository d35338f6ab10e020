package state

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/algo"
)

// Many overrides at once.

// pipelined is how many identities one write is about: with 100,000 it takes a second or two, and
// holds up no check for longer than some milliseconds.
//
// Bound: identities whose overrides are read or written at once. Beyond it, the rest takes another
// round trip. Protects Redis from a long batch.
const pipelined = 500

// Setting is an override that an identity is to have, or has.
type Setting struct {
	Tag   string
	Value string // "": none
	// Life is how long it lasts; 0: without end.
	Life time.Duration
}

// eachBatch calls f for some settings at a time, in one pipeline.
func (c *Client) eachBatch(ctx context.Context, settings []Setting, f func(redis.Pipeliner, *Setting)) error {
	for len(settings) > 0 {
		n := min(len(settings), pipelined)
		_, err := c.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range settings[:n] {
				f(p, &settings[i])
			}
			return nil
		})
		if err != nil && !isNil(err) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return c.options.explain(err)
		}
		settings = settings[n:]
	}
	return nil
}

// ReadSettings reads the settings of identities, in their order.
func (c *Client) ReadSettings(ctx context.Context, of []Setting) ([]Setting, error) {
	found, replies := make([]Setting, len(of)), make([]asking, 0, pipelined)
	at := 0
	for from := 0; from < len(of); from += pipelined {
		replies = replies[:0]
		err := c.eachBatch(ctx, of[from:min(from+pipelined, len(of))], func(p redis.Pipeliner, s *Setting) {
			name := c.key([]byte(s.Tag), algo.OverrideSuffix)
			replies = append(replies, asking{value: p.Get(ctx, name), life: p.PTTL(ctx, name)})
		})
		if err != nil {
			return nil, err
		}
		for i := range replies {
			found[at] = Setting{Tag: of[at].Tag, Value: replies[i].value.Val(), Life: max(replies[i].life.Val(), 0)}
			switch err := replies[i].value.Err(); {
			case redis.HasErrorPrefix(err, "WRONGTYPE"):
				found[at].Value = otherType
			case err != nil && !isNil(err):
				return nil, c.options.explain(err)
			}
			at++
		}
	}
	return found, nil
}

// otherType stands for the value of a key that is no string.
const otherType = "(a key of another type)"

// WriteSettings sets overrides, or takes them away where they have no value.
func (c *Client) WriteSettings(ctx context.Context, settings []Setting) error {
	return c.eachBatch(ctx, settings, func(p redis.Pipeliner, s *Setting) {
		name := c.key([]byte(s.Tag), algo.OverrideSuffix)
		if s.Value == "" {
			p.Del(ctx, name)
		} else {
			p.Set(ctx, name, s.Value, s.Life)
		}
		p.Del(ctx, name+reasonSuffix)
	})
}

// Micros is a time in microseconds.
func Micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
