package state

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

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
	case isNil(err) || redis.HasErrorPrefix(err, "WRONGTYPE"): // as the plugin takes it
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
