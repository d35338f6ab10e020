package main

import (
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/algo"
)

// subject is one way to decide a request, whose cost is measured.
type subject struct {
	Name   string
	Limits []struct {
		algo.Limit
		Algorithm string
	}
	Overrides, Penalty bool   // terms of the limits
	Override           string // the override that is set, and that checks know
	Filled             bool   // the counter's earlier sub-windows hold counts
	Held               int64  // slots that others hold while a check takes one and gives it back
	Denied             bool   // the limit, which is used up first, must reject the checks
	Apart              bool   // each limit is asked by a call of its own
	Charges            int    // after how many checks the size of the state is measured

	prime func(id string) []call // brings an identity's keys into the state that is measured; may be nil
	check func(id string) []call
}

//go:embed subjects.yaml
var subjectsFile []byte

// subjects are those of a part of subjects.yaml.
func subjects(part string) []subject {
	var file any
	err := yaml.Unmarshal(subjectsFile, &file)
	text, jsonErr := json.Marshal(file)
	var all struct{ Subjects, Sizes, Planned []subject }
	if err := errors.Join(err, jsonErr, json.Unmarshal(text, &all)); err != nil {
		panic(err) // the file is part of the program
	}
	chosen := map[string][]subject{"sizes": all.Sizes, "planned": all.Planned, "subjects": all.Subjects}[part]
	for i := range chosen {
		chosen[i].prepare()
	}
	return chosen
}

// prepare makes the calls of a subject.
func (s *subject) prepare() {
	limits := make([]algo.Limit, len(s.Limits))
	for i, l := range s.Limits {
		limits[i] = l.Limit
		limits[i].Algorithm, _ = algo.ParseAlgorithm(l.Algorithm)
	}
	terms := algo.Terms{Overrides: s.Overrides}
	if s.Penalty {
		terms.Penalty = &algo.Penalty{After: 5, WithinMicros: 60e6, ForMicros: []int64{300e6, 3600e6}}
	}
	r, nonce := newRule(s.Name, terms, limits...), int64(0)
	s.check = func(id string) []call {
		if limits[0].Algorithm == algo.Concurrency && s.Charges > 0 {
			nonce++ // each takes another slot
		}
		return []call{r.decide(id, nonce, 1, !s.Denied)}
	}
	switch l := limits[0]; {
	case s.Denied:
		s.prime = func(id string) []call { return []call{r.decide(id, 0, l.Units, true)} }
	case s.Filled:
		s.prime = func(id string) []call {
			size := l.WindowMicros / l.SubWindows
			newest := time.Now().UnixMicro()/size*size - size
			state := binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(newest)))
			for range l.SubWindows + 1 {
				state = binary.LittleEndian.AppendUint32(state, 1)
			}
			return []call{command("SET", r.keys(id)[0], string(state))}
		}
	case s.Held > 0:
		s.prime = func(id string) (calls []call) {
			for nonce := range s.Held {
				calls = append(calls, r.decide(id, nonce+1, 1, true))
			}
			return calls
		}
		s.check = func(id string) []call {
			release := []any{firstNonce, 1}
			return []call{r.decide(id, 0, 1, true), evalsha(algo.ReleaseScript().Source, r.keys(id), release, nil)}
		}
	case s.Override != "":
		s.prime = func(id string) []call { return []call{command("SET", r.keys(id)[1], s.Override)} }
		s.check = func(id string) []call {
			c := r.decide(id, 0, 1, true)
			c.command = append(c.command, s.Override)
			return []call{c}
		}
	case s.Apart:
		s.check = func(id string) (calls []call) {
			for _, l := range limits {
				calls = append(calls, newRule(s.Name, terms, l).decide(id, 0, 1, true))
			}
			return calls
		}
	}
}

// base is the unit of all figures.
var base = subject{Name: "EVALSHA 'return 1'", check: func(id string) []call {
	return []call{evalsha("return 1", []string{"rl:{base|" + id + "}:none:1s"}, nil, nil)}
}}

// peers are what others would call: a script, and commands without one.
func peers() []subject {
	return []subject{redisRate(), {Name: "INCRBY, EXPIRE: two commands, no script", check: func(id string) []call {
		return []call{command("INCRBY", "domain_key_"+id, "1"), command("EXPIRE", "domain_key_"+id, "3600")}
	}}}
}

// recorder is a Redis that learns the script and the arguments of the peer's calls.
type recorder struct {
	redis.Cmdable

	script string
	args   []any
}

// EvalSha knows no script, so that the peer sends it.
func (r *recorder) EvalSha(context.Context, string, []string, ...any) *redis.Cmd {
	return redis.NewCmdResult(nil, redis.ErrNoScript)
}

// Eval keeps the script.
func (r *recorder) Eval(_ context.Context, script string, _ []string, args ...any) *redis.Cmd {
	r.script, r.args = script, args
	return redis.NewCmdResult(nil, redis.ErrNoScript)
}

// redisRate calls the script of redis_rate v10, the usual GCRA of Go programs on Redis, as its Allow does, for
// 1000 a second. https://github.com/go-redis/redis_rate
func redisRate() subject {
	var r recorder
	_, _ = redis_rate.NewLimiter(&r).Allow(context.Background(), "", redis_rate.Limit{
		Rate: 1000, Burst: 1_000_000, Period: time.Second,
	})
	admitted := func(reply *redis.Cmd) error {
		if values, _ := reply.Slice(); len(values) == 0 || values[0] != int64(1) {
			return fmt.Errorf("its reply is %v (want 1 first)", values)
		}
		return nil
	}
	return subject{Name: "redis_rate v10", check: func(id string) []call {
		key := "rl:{redisrat|" + id + "}:gcra:1s" // as long as ours: it is the scripts that are compared
		return []call{evalsha(r.script, []string{key}, r.args, admitted)}
	}}
}

// call is one command.
type call struct {
	command []any
	script  string                 // that EVALSHA names; "" for other commands
	keys    []string               // of the script
	accept  func(*redis.Cmd) error // returns why a reply is wrong; nil accepts any
}

// command is a call that may answer anything.
func command(words ...any) call { return call{command: words} }

// evalsha calls a script.
func evalsha(source string, keys []string, args []any, accept func(*redis.Cmd) error) call {
	words := []any{"EVALSHA", redis.NewScript(source).Hash(), len(keys)}
	for _, key := range keys {
		words = append(words, key)
	}
	return call{append(words, args...), source, keys, accept}
}

// rule is a policy with keys of its own.
type rule struct {
	*algo.Plan
	tag string // as long for every rule, as the length of a key costs time and memory
}

// newRule makes a rule of limits and terms that are known to be right.
func newRule(name string, terms algo.Terms, limits ...algo.Limit) rule {
	p, err := algo.NewPlanWithTerms(limits, terms)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	return rule{p, fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(name)))}
}

// keys are as the plugin builds them: those of the limits, then those of the terms.
func (r rule) keys(id string) (keys []string) {
	var suffixes []string
	for _, l := range r.Limits() {
		suffixes = append(suffixes, l.KeySuffix())
	}
	for _, suffix := range append(suffixes, r.TermSuffixes()...) {
		keys = append(keys, fmt.Sprintf("rl:{%s|%s}%s", r.tag, id, suffix))
	}
	return keys
}

// firstNonce is as long as those of the plugin are.
const firstNonce = int64(1) << 62

// decide is a check that the limits must admit, or reject.
func (r rule) decide(id string, nonce, cost int64, allowed bool) call {
	var args []any
	for _, arg := range r.CheckArgs(firstNonce+nonce, algo.Over{}, r.Each(cost)) {
		args = append(args, arg)
	}
	if penalty := r.Terms().Penalty; penalty != nil {
		for _, arg := range append(penalty.Args(), "") {
			args = append(args, arg)
		}
	}
	return evalsha(r.Script().Source, r.keys(id), args, func(reply *redis.Cmd) error {
		values, err := reply.Int64Slice()
		if err != nil {
			return err
		}
		ruling, err := r.ParseRuling(values, make([]algo.Decision, len(r.Limits())))
		if err == nil && (ruling.By != algo.ByLimits || ruling.Allowed != allowed) {
			err = fmt.Errorf("%+v, which is not what is to be measured", ruling)
		}
		return err
	})
}
