package algo

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

var ctx = context.Background()

// testClock takes the place of the scripts' clock: the two arguments before the
// last.
const testClock = "local time = {ARGV[#ARGV - 2], ARGV[#ARGV - 1]}\n"

// refundClock does so in refunds, which may have any number of arguments: it takes
// these two away.
const refundClock = "local time = {table.remove(ARGV, #ARGV - 2), table.remove(ARGV, #ARGV - 1)}\n"

// epoch is where the tests' clock starts, 2040-01-01 in microseconds: their
// keys lie in the future of the real clock, so that Redis expires none.
const epoch = 2208988800_000000

// luaPlan runs a plan's scripts on a real Redis at any time, with keys of its own.
type luaPlan struct {
	*Plan
	client         *redis.Client
	check, takeOff string // SHA-1 of the two scripts on the tests' clock
	keys           []string
	nonce          int64 // of the next call
	over           Over  // of an earlier batch
}

func newLuaPlan(t testing.TB, client *redis.Client, p *Plan, name string) *luaPlan {
	t.Helper()
	l := &luaPlan{Plan: p, client: client}
	l.check = loadOnTestClock(t, client, p.Script().Source)
	l.takeOff = loadOnClock(t, client, p.RefundScript().Source, refundClock)
	for i, limit := range p.Limits() {
		l.keys = append(l.keys, fmt.Sprintf("rl:{%s}%s:%d", name, limit.KeySuffix(), i))
	}
	return l
}

func loadOnTestClock(t testing.TB, client *redis.Client, source string) (sha string) {
	t.Helper()
	return loadOnClock(t, client, source, testClock)
}

func loadOnClock(t testing.TB, client *redis.Client, source, clock string) (sha string) {
	t.Helper()
	if strings.Count(source, clockLine) != 1 {
		t.Fatalf("want the line %q once in\n%s", clockLine, source)
	}
	sha, err := client.ScriptLoad(ctx, strings.Replace(source, clockLine, clock, 1)).Result()
	testenv.OK(t, err)
	return sha
}

// decide queues a decision on the same cost for each limit.
func (l *luaPlan) decide(pipe redis.Cmdable, nowMicros, cost int64) *redis.Cmd {
	return l.decideEach(pipe, nowMicros, l.Each(cost))
}

// decideEach queues a decision.
func (l *luaPlan) decideEach(pipe redis.Cmdable, nowMicros int64, costs []int64) *redis.Cmd {
	args := l.arguments(costs, nowMicros/1e6, nowMicros%1e6, "")
	return pipe.EvalSha(ctx, l.check, l.keys, args...)
}

// giveBack queues a refund of the same cost for each limit.
func (l *luaPlan) giveBack(pipe redis.Cmdable, nowMicros, cost, chargedAtMicros int64) *redis.Cmd {
	return l.giveBackEach(pipe, nowMicros, l.Each(cost), chargedAtMicros)
}

// giveBackEach queues a refund.
func (l *luaPlan) giveBackEach(pipe redis.Cmdable, nowMicros int64, costs []int64, chargedAtMicros int64) *redis.Cmd {
	return l.giveBackAll(pipe, nowMicros, []settlement{{costs, chargedAtMicros}})
}

// settlement gives back part of a charge, limit by limit; below 0 it is owed.
type settlement struct {
	costs           []int64
	chargedAtMicros int64
}

// giveBackAll queues one call that settles several charges.
func (l *luaPlan) giveBackAll(pipe redis.Cmdable, nowMicros int64, all []settlement) *redis.Cmd {
	args := append(l.refundArguments(all[0].costs), all[0].chargedAtMicros)
	for _, further := range all[1:] {
		for _, cost := range further.costs {
			args = append(args, cost)
		}
		args = append(args, further.chargedAtMicros)
	}
	last := len(args) - 1
	args = append(args[:last:last], nowMicros/1e6, nowMicros%1e6, args[last])
	return pipe.EvalSha(ctx, l.takeOff, l.keys, args...)
}

// arguments are each limit's cost, nonce and constants, then more.
func (l *luaPlan) arguments(costs []int64, more ...any) (args []any) {
	return withMore(l.CheckArgs(l.nonce, l.over, costs), more)
}

// refundArguments are those of a refund.
func (l *luaPlan) refundArguments(costs []int64, more ...any) (args []any) {
	return withMore(l.RefundArgs(l.nonce, l.over, costs), more)
}

func withMore(args []string, more []any) (all []any) {
	for _, a := range args {
		all = append(all, a)
	}
	return append(all, more...)
}

// decide decides in Go as the script does, the same cost for each limit.
func decide(p *Plan, states []State, nowMicros, cost int64, out []Decision) bool {
	p.Rebase(states, nowMicros)
	return p.Decide(states, nowMicros, p.Each(cost), out)
}

// refund gives the same cost of each limit back in Go as the script does.
func refund(p *Plan, states []State, chargedAtMicros, nowMicros, cost int64) {
	p.Rebase(states, nowMicros)
	p.Refund(states, chargedAtMicros, nowMicros, p.Each(cost))
}

// parse reads the reply of a decision.
func (l *luaPlan) parse(cmd *redis.Cmd) (out []Decision, allowed bool, err error) {
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

// state reads limit i's key as the State of its Go twin, which is taken to be of a
// time near the one given.
func (l *luaPlan) state(t testing.TB, i int, nearMicros int64) State {
	t.Helper()
	limit, key := l.Limits()[i], l.keys[i]
	if limit.Steps {
		return stepState(t, l.client.Get(ctx, key), l.client.PExpireTime(ctx, key))
	}
	switch limit.Algorithm {
	case FixedWindow:
		s := fixedState(t, l.client.Get(ctx, key), &limit, nearMicros)
		if s != nil && limit.CalendarID != "" {
			s = append(s, milliseconds(l.client.PExpireTime(ctx, key))*1000)
		}
		return s
	case SlidingWindowLog:
		return logState(t, l.client.ZRangeWithScores(ctx, key, 0, -1))
	case Concurrency:
		return slotsState(t, l.client.ZRangeWithScores(ctx, key, 0, -1))
	case SlidingWindowCounter:
		return counterState(t, l.client.Get(ctx, key), &l.limiters[i].counter)
	default:
		return bucketState(t, l.client.Get(ctx, key), limit.WindowMicros)
	}
}

// unpack reads little-endian numbers into pointers or slices of a fixed size.
func unpack(t testing.TB, text string, into ...any) {
	t.Helper()
	rest := []byte(text)
	for _, v := range into {
		n, err := binary.Decode(rest, binary.LittleEndian, v)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		rest = rest[n:]
	}
	if len(rest) > 0 {
		t.Fatalf("%q: %d bytes too many", text, len(rest))
	}
}

func fixedState(t testing.TB, cmd *redis.StringCmd, limit *Limit, nearMicros int64) State {
	t.Helper()
	text, ok := getText(t, cmd)
	if !ok {
		return nil
	}
	if limit.FromFirstRequest {
		var start float64
		var count uint32
		unpack(t, text, &start, &count)
		return State{int64(start), int64(count)}
	}
	packed, unit := number(t, text), limit.WindowMicros
	if limit.CalendarID != "" {
		unit = minute
	}
	const indexes = 1 << 22
	index := nearMicros / unit
	index += (packed>>31-index%indexes+indexes*3/2)%indexes - indexes/2 // the nearest
	return State{index * unit, packed & (1<<31 - 1)}
}

// logState also checks the sum that the newest entry has.
func logState(t testing.TB, cmd *redis.ZSliceCmd) (s State) {
	t.Helper()
	entries, err := cmd.Result()
	testenv.OK(t, err)
	var first float64
	var units, total uint32
	sum := int64(0)
	for _, e := range entries {
		unpack(t, e.Member.(string), &first, &units, &total)
		s = append(s, int64(first), int64(e.Score), int64(units))
		sum += int64(units)
	}
	if sum != int64(total) {
		t.Errorf("the log's sum is %d, want %d", total, sum)
	}
	return s
}

// slotsState also checks the sum that the empty member has.
func slotsState(t testing.TB, cmd *redis.ZSliceCmd) (s State) {
	t.Helper()
	entries, err := cmd.Result()
	testenv.OK(t, err)
	more, sum := int64(0), int64(0)
	for _, e := range entries {
		if e.Member == "" {
			more = int64(-e.Score)
			continue
		}
		nonce, slots, _ := strings.Cut(e.Member.(string), ":")
		s = append(s, number(t, nonce), number(t, slots), int64(e.Score))
		sum += number(t, slots) - 1
	}
	if sum != more {
		t.Errorf("the slots beyond the first of each are %d, want %d", more, sum)
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
	unpack(t, text, &newest, counts)
	for age, units := range counts {
		if units > 0 {
			s = addUnits(s, int64(newest)-int64(age)*c.size, int64(units))
		}
	}
	return s
}

func stepState(t testing.TB, cmd *redis.StringCmd, expires *redis.DurationCmd) State {
	t.Helper()
	text, ok := getText(t, cmd)
	if !ok {
		return nil
	}
	var used, owed, at float64
	unpack(t, text, &used, &owed, &at)
	return State{int64(at), int64(used), int64(owed), milliseconds(expires) * 1000}
}

// bucketState takes the interval for that of the smallest limit which has it.
func bucketState(t testing.TB, cmd *redis.StringCmd, windowMicros int64) State {
	t.Helper()
	text, ok := getText(t, cmd)
	if !ok {
		return nil
	}
	var lead, interval, at, debt float64
	var lent [3]float64
	inDebt := len(text) == 32
	switch len(text) {
	case 32:
		unpack(t, text, &lead, &interval, &at, &debt)
	case 48:
		unpack(t, text, &lead, &interval, &at, &lent)
	default:
		unpack(t, text, &lead, &interval, &at)
	}
	limit := min(max(int64(math.Ceil(float64(windowMicros)/interval)), 1), MaxUnits)
	whole := math.Floor(lead)
	s := State{int64(at), int64(at + whole), int64((lead - whole) * (1 << maxShift)), limit}
	if whole = math.Floor(debt); inDebt {
		s = append(s, int64(whole), int64((debt-whole)*(1<<maxShift)))
	}
	if len(text) == 48 {
		s = append(s, int64(lent[0]), int64(lent[1]), int64(lent[2]))
	}
	return s
}

// sameInterval reports whether the two states of a bucket differ in limits at most
// that have the same interval.
func sameInterval(a, b State, windowMicros int64) bool {
	if len(a) < bucketLen || len(a) != len(b) {
		return false
	}
	shift, ticks := intervalOf(windowMicros, a[bucketLimit])
	otherShift, otherTicks := intervalOf(windowMicros, b[bucketLimit])
	return slices.Equal(a[:bucketLimit], b[:bucketLimit]) && slices.Equal(a[bucketLen:], b[bucketLen:]) &&
		shift == otherShift && ticks == otherTicks
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
	testenv.OK(t, err)
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

// mustPlan makes a plan of limits that are known to be right.
func mustPlan(t testing.TB, limits ...Limit) *Plan {
	t.Helper()
	p, err := NewPlan(limits)
	if err != nil {
		t.Fatalf("%+v: %v", limits, err)
	}
	return p
}
