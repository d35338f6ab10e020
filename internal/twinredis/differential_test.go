package twinredis

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/override"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/redisresp"
)

const everything = `{"redis": {"cluster": "redis"}, "rules": [
	{"name": "a%b", "key": [{"header": "x"}], "limits": [
		{"algorithm": "fixed_window", "limit": 9, "window": "1h"}, {"algorithm": "gcra", "limit": 5, "window": "1h"},
		{"algorithm": "token_bucket", "limit": 7, "window": "1h", "burst": 9},
			{"algorithm": "leaky_bucket", "limit": 8, "window": "1h"},
		{"algorithm": "sliding_window_log", "limit": 9, "window": "1h"},
			{"algorithm": "sliding_window_counter", "limit": 9, "window": "1h", "sub_windows": 6}]},
	{"name": "line", "key": [{"header": "x"}], "limits": [
		{"algorithm": "leaky_bucket", "limit": 8, "window": "1h", "overflow": "queue", "max_delay": "30m"}]},
	{"name": "burst", "key": [{"header": "x"}], "limits": [
		{"algorithm": "gcra", "limit": 900, "window": "1h", "burst": 5, "overflow": "queue", "max_wait": "20s"},
		{"algorithm": "token_bucket", "limit": 30, "window": "1s", "burst": 9, "refill": "step"}]},
	{"name": "flight", "key": [{"header": "x"}], "limits": [
		{"algorithm": "fixed_window", "limit": 90, "window": "1h"}, {"algorithm": "concurrency", "limit": 6, "ttl": "1m"}]},
	{"name": "days", "key": [{"header": "x"}], "limits": [
		{"algorithm": "fixed_window", "limit": 30, "window": "day", "timezone": "Europe/Berlin"},
			{"algorithm": "gcra", "limit": 20, "window": "1h"}]},
	{"name": "terms", "key": [{"header": "x"}], "limits": [{"algorithm": "fixed_window", "limit": 4, "window": "1h"},
		{"algorithm": "gcra", "limit": 3, "window": "1h"}],
		"overrides": true, "penalty": {"after": 3, "within": "1m", "for": ["20ms", "50ms"]}},
	{"name": "tiers", "key": [{"header": "x"}], "overrides": true, "limits_by": {"source": {"constant": "x"},
		"default": "free", "values": {"none": "unlimited",
		"free": [{"algorithm": "gcra", "limit": 3, "window": "1h"}],
		"pro": [{"algorithm": "gcra", "limit": 9, "window": "1h"},
			{"algorithm": "concurrency", "limit": 4, "ttl": "1m"}]}}},
	{"name": "levels", "key": [{"header": "x"}], "overrides": true, "limits": [
		{"name": "org", "algorithm": "gcra", "limit": 9, "window": "1h",
			"ceiling": {"source": {"header": "c"}, "values": {"a": 100, "b": 50}, "default": "a"}},
		{"name": "team", "algorithm": "sliding_window_counter", "limit": 5, "window": "1h", "per": [{"header": "t"}]},
		{"name": "user", "algorithm": "concurrency", "limit": 3, "ttl": "1m", "per": [{"header": "t"}, {"header": "u"}]},
		{"name": "all", "algorithm": "concurrency", "limit": 6, "ttl": "1m"}]},
	{"name": "fleet", "key": [{"header": "x"}], "overrides": true, "limits": [
		{"name": "tenant", "algorithm": "token_bucket", "limit": 4, "window": "1h", "per": [{"header": "t"}],
			"guarantee": true},
		{"name": "pool", "algorithm": "gcra", "limit": 6, "window": "1h",
			"ceiling": {"source": {"header": "c"}, "values": {"a": 100, "b": 50}, "default": "a"}},
		{"name": "fair", "algorithm": "fixed_window", "limit": 9, "window": "1h", "per": [{"header": "t"}]}]},
	{"name": "sevenths", "key": [{"header": "x"}], "limits": [
		{"algorithm": "gcra", "limit": 7, "window": "1s"}, {"algorithm": "token_bucket", "limit": 700000, "window": "1s"}]},
	{"name": "struck", "key": [{"header": "x"}], "limits": [{"algorithm": "token_bucket", "limit": 4, "window": "1s"}],
		"penalty": {"after": 2, "within": "1m", "for": ["10ms"]}}
]}`

// pair is a real Redis and its twin, as the Host of one Conn: what the real one answers, the
// twin must answer at the same time. Other calls than these do not come.
type pair struct {
	redis.Host
	redis.Observer

	t       *testing.T
	addr    string
	stream  net.Conn
	twin    *Server
	conn    *redis.Conn
	replies []byte
	now     int64

	rules   *rule.Set
	scripts []*redis.Script // by rule.LimitSet.ID
	set     *rule.LimitSet  // that is asked about
	asked   redis.Charge
	sizes   []algo.Size // that it was asked with last
	made    []made      // that may be given back
	events  map[string]int
	sources map[string]string
}

// made is a charge, and what it is of.
type made struct {
	redis.Charge

	set *rule.LimitSet
}

func (p *pair) OpenStream() (err error) {
	p.stream, err = net.Dial("tcp", p.addr)
	return err
}
func (p *pair) CloseStream()              { p.stream.Close() }
func (p *pair) Warn(line string)          { p.t.Error(line) }
func (p *pair) Info(string)               {}
func (p *pair) Turn(int64) bool           { return false }
func (p *pair) RoundTrip(int64)           {}
func (p *pair) Count(metric.Event, int64) {}

// Send has both run the commands, and compares. The Conn gets the replies later.
func (p *pair) Send(commands []byte) error {
	sent, err := Commands[[]byte](commands)
	for _, words := range sent {
		at, before := time.Now().UnixMicro(), maps.Clone(p.twin.values)
		got := p.twin.Do(nil, words, at)
		want := p.real(slices.Clone(words), at, got[0] == '-')
		if !bytes.Equal(got, want) && p.expired(before, words, at) {
			got = p.twin.Do(nil, words, at)
		}
		if !bytes.Equal(got, want) {
			p.t.Fatalf("%q: the twin answers %q, Redis %q", words, got, want)
		}
		if got[0] == '-' {
			p.events["error"]++
		}
		p.replies = append(p.replies, got...)
	}
	return err
}

// expired puts the twin back before a command, without those of its keys that have expired in Redis
// since it was sent: Redis expires them by its own clock, however long a busy machine has kept the
// command. It reports whether there were any.
func (p *pair) expired(before map[string]value, words [][]byte, atMicros int64) (some bool) {
	now := time.Now().UnixMicro()
	for _, word := range words {
		if v := before[string(word)]; v.expiresMicros > atMicros && v.expiresMicros <= now {
			delete(before, string(word))
			some = true
		}
	}
	if some {
		p.twin.values = before
	}
	return some
}

const clockLine = "local time = call('TIME')\n"

// real has the real Redis run a command: a script, but one that it does not know, by its
// source and at a given time.
func (p *pair) real(words [][]byte, atMicros int64, unknown bool) (reply []byte) {
	if name := string(words[0]); !unknown && strings.HasPrefix(name, "EVAL") {
		source := p.sources[string(words[1])]
		clock := fmt.Sprintf("local time = {%d, %d}\n", atMicros/1e6, atMicros%1e6)
		words[0], words[1] = []byte("EVAL"), []byte(strings.Replace(source, clockLine, clock, 1))
	}
	line := redisresp.AppendArray(nil, len(words))
	for _, word := range words {
		line = redisresp.AppendBulk(line, word)
	}
	if _, err := p.stream.Write(line); err != nil {
		p.t.Fatal(err)
	}
	decoder, part := redisresp.NewDecoder(redisresp.Limits{}), make([]byte, 4096)
	for {
		n, err := p.stream.Read(part)
		if err != nil {
			p.t.Fatal(err)
		}
		reply = append(reply, part[:n]...)
		if _, _, outcome := decoder.Decode(reply); outcome == redisresp.Complete {
			return reply
		}
	}
}

// receive brings the Conn all replies, and those to what they cause.
func (p *pair) receive() {
	for len(p.replies) > 0 {
		replies := p.replies
		p.replies = nil
		p.conn.Received(replies, p.now)
	}
}

// Remake implements redis.Waiter: it makes a check for another time, or what an override says.
func (p *pair) Remake(_ int, r *redis.Reply, check *redis.Check, _ int64) redis.Remade {
	var o override.Override
	p.sizes = nil
	if r.OtherOverride {
		p.events["another override"]++
		check.MadeFor = slices.Clone(r.Override)
		o = override.Parse(string(r.Override))
	}
	switch other := p.rules.Tier(p.set.Rule.ID, o.Rest); {
	case !r.OtherOverride:
		p.events["another time"]++
		p.sizes, _ = p.set.SizesOf(nil, nil, o)
		for i := range p.sizes {
			if p.set.Calendars[i] != nil {
				p.sizes[i].Bounds = p.set.Calendars[i].Around(r.AtMicros)
			}
		}
	case o.Kind == override.Factor || o.Kind == override.Numbers:
		p.sizes, _ = p.set.SizesOf(nil, nil, o)
		p.events[map[bool]string{true: "numbers", false: "a factor"}[o.Kind == override.Numbers]]++
	case o.Kind == override.Tier && other != nil:
		p.set = other
		check.Script, check.Costs = p.scripts[other.ID], other.Plan.Each(p.asked.Cost)
		p.asked.Script = check.Script
		p.events["a tier"]++
	}
	check.Sizes = p.sizes
	return redis.Again
}

// Decided implements redis.Waiter.
func (p *pair) Decided(_ int, r *redis.Reply, _ int64) {
	p.events[fmt.Sprint("by ", r.By, " ", r.Allowed)]++
	if charged := r.Allowed && r.By == algo.ByLimits; charged && len(p.set.Limits) > 0 {
		p.asked.AtMicros, p.asked.Sizes = r.AtMicros, slices.Clone(p.sizes)
		if guarantee, _, ok := p.set.Plan.Guarantee(); ok {
			p.asked.Costs = p.set.Plan.Each(p.asked.Cost)
			if r.Decisions[guarantee].Hidden {
				p.asked.Costs[guarantee] = 0
				p.events["borrowed"]++
			} else {
				p.events["guaranteed"]++
			}
		}
		p.made = append(p.made, made{p.asked, p.set})
	}
}

// Failed and Expired implement redis.Waiter.
func (p *pair) Failed(_ int, cause redis.Cause, _ int64) { p.t.Errorf("failed: %s", cause) }
func (p *pair) Expired(int, int64)                       { p.t.Error("expired") }

// TestAsRedis sends a real Redis and the twin the same random commands, which a Conn makes of
// checks, refunds, settlements, releases and renewals of every kind of rule.
func TestAsRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	cfg, err := config.Parse([]byte(everything))
	testenv.OK(t, err)
	rules, err := rule.Compile(cfg, nil)
	testenv.OK(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	p := &pair{
		t: t, addr: server.Addr, twin: New(rules), sources: map[string]string{}, events: map[string]int{}, now: 1e9,
		rules: rules,
	}
	p.conn = redis.New(p, p, redis.Options{
		KeyPrefix: "rl", TimeoutMicros: 1e6, MaxPending: 100,
		Breaker: config.Breaker{Failures: 5, MinOpenMicros: 1e5, MaxOpenMicros: 1e6},
	})
	for _, set := range rules.LimitSets {
		p.scripts = append(p.scripts, redis.NewScript(set.Plan, "rl", set.KeySuffixes))
		check, refund := set.Plan.Script(), set.Plan.RefundScript()
		for _, s := range []algo.Script{check, refund, algo.ReleaseScript(), algo.RenewScript()} {
			p.sources[s.SHA1], p.sources[s.Source] = s.Source, s.Source
		}
	}
	for range 3000 {
		p.now += 1000
		i := random.IntN(len(p.scripts))
		p.set = rules.LimitSets[i]
		switch n := random.IntN(100); {
		case n == 0:
			client.ScriptFlush(t.Context())
			p.twin.FlushScripts()
		case n < 8: // an operator changes an identity
			key := fmt.Sprintf("rl:{%s|%d}:override", []string{"terms", "tiers"}[random.IntN(2)], random.IntN(5))
			if text := operated[random.IntN(len(operated))]; text != "" {
				client.Set(t.Context(), key, text, 0)
				p.twin.Set(key, text, 0, 0)
			} else {
				client.Del(t.Context(), key)
				p.twin.Delete(key)
			}
		case n < 40 && len(p.made) > 0:
			p.giveBack(random)
		default: // a check of a random cost, with strikes that the worker remembers
			tag := fmt.Appendf(nil, "%s|%d", strings.ReplaceAll(p.set.Rule.Name, "%", "%25"), random.IntN(5))
			check := redis.Check{Script: p.scripts[i], Cost: random.Int64N(4), Demand: rule.Demand{Limits: p.set, Tag: tag}}
			for i := range p.set.Limits { // those with "per" have values
				if p.set.IsPer(i) {
					check.Values = append(check.Values, 1, byte('a'+random.IntN(3)))
				}
			}
			if p.set.Rule.Terms.Penalty != nil && random.IntN(4) == 0 {
				check.Strikes = []algo.Strikes{{AgeMicros: random.Int64N(1e5), Count: 1 + random.Int64N(3)}}
				check.Deferred = random.IntN(2) == 0
			}
			p.asked, p.sizes = redis.Charge{Script: check.Script, Demand: check.Demand, Cost: check.Cost}, nil
			if p.conn.Begin(p.now) != redis.NoCause {
				t.Fatal("no connection")
			}
			p.asked.Nonce = p.conn.Add(p, 0, check)
			p.conn.Flush(p.now)
		}
		p.receive()
		p.conn.Tick(p.now)
		p.receive()
	}
	for _, want := range []string{
		"by 0 true", "by 0 false", "by 1 true", "by 2 false", "by 3 false", "another override", "another time", "error",
		"a tier", "numbers",
		"refund", "settle", "release", "renew", "borrowed", "guaranteed",
	} {
		if p.events[want] == 0 {
			t.Errorf("never: %s; seen %v", want, p.events)
		}
	}
}

// giveBack changes, renews or gives back something that was charged.
func (p *pair) giveBack(random *rand.Rand) {
	i := random.IntN(len(p.made))
	c, set := p.made[i].Charge, p.made[i].set
	limit, slots := set.Plan.Slots()
	var part []byte // whose slots the first concurrency limit, if there is one, has taken
	for j := range set.Parts {
		if slices.Contains(set.Parts[j].Limits, limit) {
			part, _ = c.Name(&set.Parts[j], new([]byte))
		}
	}
	switch n := random.IntN(4); {
	case n == 0:
		p.conn.Refund(c, p.now)
		p.events["refund"]++
	case n == 1 && slots:
		p.conn.Release(c.Script, part, redis.Slots{Nonce: c.Nonce, Count: c.Cost}, p.now)
		p.events["release"]++
	case n == 2 && slots && c.Cost > 0:
		p.conn.Begin(p.now)
		p.conn.Renew(c.Script, part, []redis.Slots{{Nonce: c.Nonce, Count: c.Cost}}, p.now)
		p.conn.Flush(p.now)
		p.events["renew"]++
		return
	case !slots:
		c.Cost = random.Int64N(5) - 2
		p.conn.Settle(c, nil, p.now)
		p.events["settle"]++
	default:
		return
	}
	p.made = slices.Delete(p.made, i, i+1)
}

// operated are settings of operators.
var operated = []string{
	"", "free", "block", "x2", "x0.5", "x1.125", "x1000.5", "X2", "x2 ", "tier:pro", "tier:none", "tier:gold",
	"limits:tiers=2", "limits:tiers=9/3", "limits:terms-1h-gcra=2/9,terms-1h-fixed_window=7", "limits:nobody=1",
	strings.Repeat("a", algo.MaxOverrideBytes), strings.Repeat("a", algo.MaxOverrideBytes+1),
}
