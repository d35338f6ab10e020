package algo

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

// capacities are the limits, and bursts, that must be exact at one instant.
const capacities = 1000

// windows are tried in turn; some make intervals that are not whole microseconds.
var windows = []int64{1e3, 1e6, 7e6, 60e6, 3600e6, 86400e6, MaxWindowMicros}

// plainLimits are one limit of each algorithm and variant that admits capacity
// at one instant.
func plainLimits(capacity, window int64) []Limit {
	return []Limit{
		{Algorithm: FixedWindow, Units: capacity, WindowMicros: window},
		{Algorithm: FixedWindow, Units: capacity, WindowMicros: window, FromFirstRequest: true},
		{Algorithm: SlidingWindowLog, Units: capacity, WindowMicros: window},
		{Algorithm: SlidingWindowCounter, Units: capacity, WindowMicros: window},
		{Algorithm: SlidingWindowCounter, Units: capacity, WindowMicros: window, SubWindows: 10},
		{Algorithm: TokenBucket, Units: capacity, WindowMicros: window},
		{Algorithm: LeakyBucket, Units: capacity, WindowMicros: window},
		{Algorithm: LeakyBucket, Units: capacity, WindowMicros: window, Queue: true, MaxDelayMicros: MaxWindowMicros},
		{Algorithm: GCRA, Units: capacity, WindowMicros: window},
		{Algorithm: GCRA, Units: 7, WindowMicros: window, Burst: min(capacity, 600)},
	}
}

func TestCapacityAtOneInstantInGo(t *testing.T) {
	t.Parallel()
	for capacity := int64(1); capacity <= capacities; capacity++ {
		window := windows[capacity%int64(len(windows))]
		for _, l := range plainLimits(capacity, window) {
			p, states, out := mustPlan(t, l), make([]State, 1), make([]Decision, 1)
			total := int64(0)
			for range l.Capacity() + 3 {
				if decide(p, states, epoch+capacity, 1, out) {
					total++
				}
			}
			if total != l.Capacity() {
				t.Errorf("%+v admitted %d at one instant", l, total)
			}
		}
	}
}

// admitted makes a function of the script that follows. It charges ARGV[1] at
// once, then single units, as often as the last argument says, and returns how
// many units were admitted.
const admitted = `
local times, total = ARGV[#ARGV], 0
local function try()
  if decide()[4] == 0 then total = total + ARGV[1] end
end
try()
ARGV[1] = '1'
for i = 1, times do try() end
return total
`

// TestCapacityAtOneInstantInLua charges most of a large capacity at once, which
// saves half a minute: what is added up are whole ticks all the same.
func TestCapacityAtOneInstantInLua(t *testing.T) {
	t.Parallel()
	const singles = 12
	client := startRedis(t)
	for variant, l := range plainLimits(1, 1e6) {
		source := "local function decide()\n" + mustPlan(t, l).Script().Source + "end" + admitted
		script := loadOnTestClock(t, client, source)
		pipe := client.Pipeline()
		var replies []*redis.Cmd
		for capacity := int64(1); capacity <= capacities; capacity++ {
			l := plainLimits(capacity, windows[capacity%int64(len(windows))])[variant]
			plan := luaPlan{Plan: mustPlan(t, l)}
			key := fmt.Sprint(capacity)
			costs, now := []int64{max(l.Capacity()-singles, 0)}, epoch+capacity
			args := plan.arguments(costs, now/1e6, now%1e6, singles+3)
			replies = append(replies, pipe.EvalSha(ctx, script, []string{key}, args...))
			pipe.Del(ctx, key)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		for i, reply := range replies {
			capacity := plainLimits(int64(i+1), 1e6)[variant].Capacity()
			if total, err := reply.Int64(); total != capacity || err != nil {
				t.Errorf("%+v of capacity %d: admitted %d at one instant, %v", l, capacity, total, err)
			}
		}
	}
}
