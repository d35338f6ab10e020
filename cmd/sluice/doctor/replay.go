package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/algo/vectors"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/live"
)

// epoch is when the vectors begin, in microseconds.
const epoch = 2208988800_000000

// nodes are Redis itself, or each primary of a Redis Cluster.
func (s *Redis) nodes(ctx context.Context) (all []node, err error) {
	cluster, ok := s.Client.(*redis.ClusterClient)
	if !ok {
		return []node{{"", newTag()}}, nil
	}
	var count atomic.Int64
	err = cluster.ForEachMaster(ctx, func(context.Context, *redis.Client) error {
		count.Add(1)
		return nil
	})
	for tries := 100 * int(count.Load()); err == nil && len(all) < int(count.Load()) && tries > 0; tries-- {
		tag := newTag()
		var primary *redis.Client
		if primary, err = cluster.MasterForKey(ctx, s.key(tag, "")); err == nil &&
			!slices.ContainsFunc(all, func(n node) bool { return n.address == primary.Options().Addr }) {
			all = append(all, node{primary.Options().Addr, tag})
		}
	}
	return all, err
}

// replay runs every algorithm's examples through the very scripts on this server, and on each
// primary of a cluster.
func (s *Redis) replay(ctx context.Context) {
	nodes, err := s.nodes(ctx)
	if err != nil {
		s.Add("nodes", Fail, "let the command reach every primary", "%s", s.Explain(err))
		return
	}
	if len(nodes) > 1 || nodes[0].address != "" {
		s.Add("nodes", Pass, "", "%d primaries, and all keys of an identity are on one of them", len(nodes))
	}
	var all []vectors.Vector
	console.Must(json.Unmarshal(vectors.JSON, &all))
	steps := 0
	for _, n := range nodes {
		for i := range all {
			p, at := player{Redis: s, v: &all[i], tag: fmt.Sprintf("%s-%d", n.tag, i)}, ""
			if n.address != "" {
				p.tag, at = n.tag, " at "+n.address // its slot is this primary's
			}
			err := p.play(ctx)
			if len(p.keys) > 0 {
				err = cmp.Or(err, s.Client.Del(ctx, p.keys...).Err())
			}
			if err != nil {
				s.Add("vectors", Fail, "use Redis 6.2 or later, or Valkey; this server decides otherwise than the algorithm, or "+
					"refuses its script", "%q%s: %s", all[i].Name, at, s.Explain(err))
				return
			}
			steps += len(all[i].Steps)
		}
	}
	s.Add("vectors", Pass, "", "%d worked examples of every algorithm, %d steps, passed on this server, by the scripts "+
		"that Envoy sends", len(all), steps)
}

// player replays one vector.
type player struct {
	*Redis
	v    *vectors.Vector
	tag  string
	keys []string

	plan           *algo.Plan // of the whole vector
	check, takeOff string     // the scripts on the vector's clock
}

// play makes the plan, its keys and its scripts, which all vectors have, and compares every step. Keys that would
// have expired by the vector's clock may stay: the scripts take no notice of what is over.
func (p *player) play(ctx context.Context) error {
	var limits []algo.Limit
	for _, l := range p.v.Limits {
		algorithm, _ := algo.ParseAlgorithm(l.Algorithm)
		for i := range l.Bounds {
			if l.Calendar != "" {
				l.Bounds[i] = epoch + l.Bounds[i]*1e6
			}
		}
		limits = append(limits, algo.Limit{
			CalendarID: l.Calendar, Bounds: algo.Bounds(l.Bounds),
			Algorithm: algorithm, Units: l.Limit, WindowMicros: l.WindowMs * 1000, Burst: l.Burst,
			FromFirstRequest: l.FirstRequest, Steps: l.Step, SubWindows: l.SubWindows,
			Queue: l.Queue, MaxDelayMicros: l.MaxDelayMs * 1000, TTLMicros: l.TTLMs * 1000,
		})
	}
	var err error
	p.plan, err = algo.NewPlan(limits)
	console.Must(err)
	for i := range limits {
		key := p.key(p.tag, limits[i].KeySuffix())
		if slices.Contains(p.keys, key) {
			key = fmt.Sprintf("%s:%d", key, i)
		}
		p.keys = append(p.keys, key)
	}
	p.check, err = algo.OnClock(p.plan.Script().Source)
	console.Must(err)
	p.takeOff, err = algo.OnClock(p.plan.RefundScript().Source)
	console.Must(err)
	for n := range p.v.Steps {
		if err := p.step(ctx, n, &p.v.Steps[n]); err != nil {
			return fmt.Errorf("step %d: %w", n, err)
		}
	}
	return nil
}

// step runs one step.
func (p *player) step(ctx context.Context, n int, s *vectors.Step) error {
	now := epoch + s.At
	var sizes []algo.Size
	for _, l := range p.plan.Limits() {
		sizes = append(sizes, l.Size())
	}
	for i, brought := range s.Sizes {
		sizes[i].Units, sizes[i].Burst = brought.Limit, brought.Burst
	}
	plan, _ := p.plan.Sized(new(algo.Plan), sizes) // none is out of bounds
	if of, costs := p.v.Settled(s); of >= 0 {
		args := live.Values(plan.RefundArgs(int64(of), algo.Over{}, costs))
		args = append(args, now/1e6, now%1e6, epoch+p.v.Steps[of].At)
		return p.Client.Eval(ctx, p.takeOff, p.keys, args...).Err()
	}
	args := append(live.Arguments(plan, int64(n), s.Each(len(p.keys))), now/1e6, now%1e6, "")
	got, err := decide(ctx, p.Client, plan, p.check, p.keys, args)
	if s.OtherTime && errors.Is(err, algo.ErrOtherTime) {
		return nil
	}
	if err != nil {
		return err
	}
	for i, w := range s.Want {
		d := got[i]
		if d.Remaining != w.Remaining || d.ResetAfterMicros != w.Reset || d.RetryAfterMicros != w.Retry ||
			d.DelayMicros != w.Delay {
			return fmt.Errorf("limit %d has %d remaining, resets in %d us, may be retried in %d us (want %d, %d, %d)",
				i, d.Remaining, d.ResetAfterMicros, d.RetryAfterMicros, w.Remaining, w.Reset, w.Retry)
		}
	}
	return nil
}

// decide runs a script that decides on each key.
func decide(
	ctx context.Context, client redis.Scripter, plan *algo.Plan, source string, keys []string, args []any,
) ([]algo.Decision, error) {
	values, err := redis.NewScript(source).Run(ctx, client, keys, args...).Int64Slice() // EVALSHA, as Envoy
	if err != nil {
		return nil, err
	}
	out := make([]algo.Decision, len(keys))
	_, _, err = plan.ParseReply(values, out)
	return out, err
}
