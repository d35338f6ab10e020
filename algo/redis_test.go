package algo

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

var ctx = context.Background()

// testClock takes the place of the scripts' clock: the last two arguments.
const testClock = "local time = {ARGV[#ARGV - 1], ARGV[#ARGV]}\n"

// epoch is where the tests' clock starts, 2040-01-01 in microseconds: their
// keys lie in the future of the real clock, so that Redis expires none.
const epoch = 2208988800_000000

// luaPolicy runs a policy's scripts on a real Redis at any time, with keys of
// its own.
type luaPolicy struct {
	*Plan
	client         *redis.Client
	check, takeOff string // SHA-1 of the two scripts on the tests' clock
	keys           []string
}

func newLuaPolicy(t testing.TB, client *redis.Client, p *Plan, name string) *luaPolicy {
	t.Helper()
	l := &luaPolicy{Plan: p, client: client}
	l.check = loadOnTestClock(t, client, p.Script().Source)
	l.takeOff = loadOnTestClock(t, client, p.RefundScript().Source)
	for i, limit := range p.Limits() {
		l.keys = append(l.keys, fmt.Sprintf("rl:{%s}:%s:%d:%d", name, limit.Algorithm, limit.WindowMicros, i))
	}
	return l
}

func loadOnTestClock(t testing.TB, client *redis.Client, source string) (sha string) {
	t.Helper()
	if strings.Count(source, clockLine) != 1 {
		t.Fatalf("want the line %q once in\n%s", clockLine, source)
	}
	sha, err := client.ScriptLoad(ctx, strings.Replace(source, clockLine, testClock, 1)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return sha
}

// decide queues a decision.
func (l *luaPolicy) decide(pipe redis.Cmdable, nowMicros, cost int64, nonce string) *redis.Cmd {
	return pipe.EvalSha(ctx, l.check, l.keys, l.arguments(nowMicros, cost, nonce)...)
}

// giveBack queues a refund.
func (l *luaPolicy) giveBack(pipe redis.Cmdable, nowMicros, cost int64, nonce string, chargedAtMicros int64) *redis.Cmd {
	return pipe.EvalSha(ctx, l.takeOff, l.keys, l.arguments(nowMicros, cost, nonce, chargedAtMicros)...)
}

func (l *luaPolicy) arguments(nowMicros, cost int64, nonce string, more ...any) []any {
	args := append([]any{cost, nonce}, more...)
	for _, a := range l.Args() {
		args = append(args, a)
	}
	return append(args, nowMicros/1e6, nowMicros%1e6)
}

// parse reads the reply of a decision.
func (l *luaPolicy) parse(cmd *redis.Cmd) (out []Decision, allowed bool, err error) {
	values, err := cmd.Int64Slice()
	if err != nil {
		return nil, false, err
	}
	out = make([]Decision, len(l.Limits()))
	_, allowed, err = l.ParseReply(values, out)
	if err != nil {
		err = fmt.Errorf("%w: %v", err, values)
	}
	return out, allowed, err
}

// state reads limit i's key as the State of its Go twin.
func (l *luaPolicy) state(t testing.TB, i int, nowMicros int64) State {
	t.Helper()
	limit, key := l.Limits()[i], l.keys[i]
	switch limit.Algorithm {
	case FixedWindow:
		return fixedState(t, l.client.Get(ctx, key), &limit, nowMicros)
	case SlidingWindowLog:
		return logState(t, l.client.ZRangeWithScores(ctx, key, 0, -1))
	case SlidingWindowCounter:
		return counterState(t, l.client.Get(ctx, key), &l.limiters[i].counter)
	default:
		return bucketState(t, l.client.Get(ctx, key), l.limiters[i].bucket, nowMicros)
	}
}

func fixedState(t testing.TB, cmd *redis.StringCmd, limit *Limit, nowMicros int64) State {
	t.Helper()
	text, ok := getText(t, cmd)
	if !ok {
		return nil
	}
	if limit.FromFirstRequest {
		var pair [2]float64
		if _, err := binary.Decode([]byte(text), binary.LittleEndian, &pair); err != nil {
			t.Fatal(err)
		}
		return State{int64(pair[0]), int64(pair[1])}
	}
	packed := number(t, text)
	const indexes = 1 << 22
	index := nowMicros / limit.WindowMicros
	index += (packed>>30-index%indexes+indexes*3/2)%indexes - indexes/2 // the nearest to now
	return State{index * limit.WindowMicros, packed & (1<<30 - 1)}
}

func logState(t testing.TB, cmd *redis.ZSliceCmd) (s State) {
	t.Helper()
	entries, err := cmd.Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		s = addUnits(s, int64(e.Score), 1)
	}
	return s
}

func counterState(t testing.TB, cmd *redis.StringCmd, c *slidingWindowCounter) (s State) {
	t.Helper()
	text, ok := getText(t, cmd)
	if !ok {
		return nil
	}
	var newest float64
	counts := make([]uint32, c.window/c.size+1)
	rest := []byte(text)
	for _, into := range []any{&newest, counts} {
		n, err := binary.Decode(rest, binary.LittleEndian, into)
		if err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	for age, units := range counts {
		if units > 0 {
			s = addUnits(s, int64(newest)-int64(age)*c.size, int64(units))
		}
	}
	return s
}

func bucketState(t testing.TB, cmd *redis.StringCmd, b bucket, nowMicros int64) State {
	t.Helper()
	text, ok := getText(t, cmd)
	if !ok {
		return nil
	}
	var micros float64
	if _, err := binary.Decode([]byte(text), binary.LittleEndian, &micros); err != nil {
		t.Fatal(err)
	}
	ticks := int64(micros * float64(int64(1)<<b.shift))
	wrapTicks := b.wrap << b.shift
	ahead := (ticks - nowMicros&(b.wrap-1)<<b.shift) & (wrapTicks - 1)
	if ahead > wrapTicks/2 {
		ahead -= wrapTicks
	}
	return b.store(nil, nowMicros, ahead)
}

func getText(t testing.TB, cmd *redis.StringCmd) (text string, ok bool) {
	t.Helper()
	text, err := cmd.Result()
	if err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	return text, err == nil
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// startRedis returns a client of a Redis that ends with the test. It waits long
// for the answers to a pipeline of thousands of commands.
func startRedis(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr, Protocol: 2, ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	return client
}

// mustPolicy makes a policy of limits that are known to be right.
func mustPolicy(t testing.TB, limits ...Limit) *Plan {
	t.Helper()
	p, err := NewPlan(limits)
	if err != nil {
		t.Fatalf("%+v: %v", limits, err)
	}
	return p
}
