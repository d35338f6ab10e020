package main

import (
	"context"
	"fmt"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// The peer is redis_rate v10, the usual GCRA of Go programs on Redis. https://github.com/go-redis/redis_rate
const peerName = "redis_rate v10"

// recorder is a Redis that learns the script and the arguments of the peer's calls.
type recorder struct {
	redis.Cmdable

	script string
	args   []string
}

// EvalSha knows no script, so that the peer sends it.
func (r *recorder) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	reply := redis.NewCmd(ctx)
	reply.SetErr(redis.ErrNoScript)
	return reply
}

// Eval keeps the script.
func (r *recorder) Eval(ctx context.Context, script string, _ []string, args ...any) *redis.Cmd {
	r.script, r.args = script, nil
	for _, arg := range args {
		r.args = append(r.args, fmt.Sprint(arg))
	}
	return r.EvalSha(ctx, "", nil)
}

// redisRate calls the peer's script as its Allow does, for 1000 a second.
func redisRate() subject {
	var r recorder
	_, _ = redis_rate.NewLimiter(&r).Allow(context.Background(), "", redis_rate.Limit{
		Rate: busy, Burst: bigBurst, Period: second * 1000,
	})
	admitted := func(reply *redis.Cmd) error {
		if values, _ := reply.Slice(); len(values) == 0 || values[0] != int64(1) {
			return fmt.Errorf("its reply is %v (want 1 first)", values)
		}
		return nil
	}
	return subject{name: peerName, check: func(id string) []call {
		key := "rl:{redisrat|" + id + "}:gcra:1s" // as long as ours: it is the scripts that are compared
		return []call{evalsha(r.script, []string{key}, r.args, admitted)}
	}}
}
