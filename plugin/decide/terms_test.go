package decide

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/redisresp"
)

const termed = `{"redis": {"cluster": "redis"}, "rules": [{"name": "r", "key": [{"constant": "c"}], "overrides": true,
	"limits": [{"algorithm": "gcra", "limit": 4, "window": "1m"}],
		"penalty": {"after": 1000, "within": "160ms", "for": ["1m"]}}]}`

// told has Redis answer the oldest check with a ruling, which it does not make, and returns the rejections that it
// was told of: age:count.
func (w *world) told(r algo.Ruling) (strikes string) {
	words := w.flying[0]
	w.flying = w.flying[1:]
	numbers := []int64{w.now.UnixMicros, int64(algo.MarkPenalty), r.LeftMicros}
	if r.By == algo.ByLimits {
		set, _ := w.server.SetOf(words)
		d := algo.Decision{RetryAfterMicros: map[bool]int64{false: 60e6}[r.Allowed]}
		numbers = set.Plan.AppendReply(nil, w.now.UnixMicros, []algo.Decision{d})
		if set.Rule.Terms.Penalty != nil {
			numbers = append(numbers, r.EarnedMicros)
		}
	}
	w.replies = redisresp.AppendArray(w.replies, len(numbers))
	for _, n := range numbers {
		w.replies = fmt.Appendf(w.replies, ":%d\r\n", n)
	}
	w.hear()
	return string(words[len(words)-1])
}

// Rejections from memory are told with the next call, grouped by when they were, and
// once; what is lost with a call stays lost.
func TestRejectionsFromMemoryAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, termed)
	w.asks(nil)
	if got := w.told(algo.Ruling{}); got != "" {
		t.Errorf("told of %v", got)
	}
	for _, step := range []int64{0, 9_999, 1, 10_000, 100_000} { // groups of 10 ms, a sixteenth of `within`
		w.pass(step)
		if v := w.arrive(nil).verdict; v.Outcome != answer.Limited {
			t.Fatalf("outcome %s", v.Outcome.Metric())
		}
	}
	w.pass(800_000) // the hold is over
	w.asks(nil)
	testenv.Same(t, "rejections told", w.told(algo.Ruling{}), "920000:2 910000:1 900000:1 800000:1")
	w.pass(900_000)
	w.asks(nil)
	if got := w.told(algo.Ruling{}); got != "" {
		t.Errorf("told again of %v", got)
	}
}

// However a client hammers, what is kept of it is bounded, and none is forgotten.
func TestRejectionsFromMemoryAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, termed)
	w.asks(nil)
	w.told(algo.Ruling{})
	const rejections = 850
	for range rejections {
		w.pass(1000)
		w.arrive(nil)
	}
	w.pass(60_000)
	w.asks(nil)
	strikes := strings.Fields(w.told(algo.Ruling{}))
	sum := 0
	for _, group := range strikes {
		var age, count int
		_, err := fmt.Sscanf(group, "%d:%d", &age, &count)
		testenv.OK(t, err)
		sum += count
	}
	testenv.Same(t, "groups", len(strikes), maxStrikeGroups)
	testenv.Same(t, "their rejections", sum, rejections)
}

// A worker does not answer from memory what earns a block by what it remembers alone.
func TestBlockIsEarnedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, strings.Replace(termed, "1000", "4", 1))
	w.asks(nil)
	w.told(algo.Ruling{})
	for _, micros := range []int64{0, 160_000, 1, 1} { // of the first no one speaks any more
		w.pass(micros)
		w.arrive(nil)
	}
	q := w.asks(nil) // the fourth within 160 ms
	told := w.told(algo.Ruling{By: algo.ByPenalty, LeftMicros: 60e6})
	testenv.Same(t, "rejections told", told, "160002:1 2:3")
	if v := q.verdict; v.Outcome != answer.Blocked || w.events[metric.PenaltyEarned] != 1 {
		t.Errorf("outcome %s, %d blocks are counted", v.Outcome.Metric(), w.events[metric.PenaltyEarned])
	}
}

// A call that cannot be sent keeps what it would have told.
func TestStrikesWaitForRedis(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, termed)
	w.asks(nil)
	w.told(algo.Ruling{})
	w.arrive(nil)
	w.pass(900_000)
	w.away = true
	w.lose()
	if v := w.arrive(nil).verdict; v.Outcome != answer.FailedAllow {
		t.Fatalf("outcome %s", v.Outcome.Metric())
	}
	w.away = false
	w.pass(500_000)
	w.asks(nil)
	w.next() // the probe of the new stream
	testenv.Same(t, "rejections told", w.told(algo.Ruling{}), "1400000:1")
}

// A rejection that has earned a block is remembered as one.
func TestEarnedBlockIsRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, termed)
	q := w.asks(nil)
	w.told(algo.Ruling{EarnedMicros: 60e6})
	testenv.Same(t, "the outcome of the one that earns it", q.verdict.Outcome, answer.Limited)
	w.pass(500_000)
	v := w.arrive(nil).verdict
	testenv.Same(t, "the outcome", v.Outcome, answer.Blocked)
	testenv.Same(t, "what is left of the block", v.By.LeftMicros, 59_500_000)
	testenv.Same(t, "the wait", v.By.Decisions[0].RetryAfterMicros, 59_500_000)
	testenv.Same(t, "the reset", v.By.Decisions[0].ResetAfterMicros, 59_500_000)
	w.pass(400_000)
	w.asks(nil)
	if got := w.told(algo.Ruling{}); got != "" {
		t.Errorf("what was blocked is told of: %v", got)
	}
}

// Operators are told once of each identity, and not of many at once.
func TestIgnoredOverridesAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, termed)
	for n, step := range []struct {
		tag    string
		micros int64
		want   int
	}{{"r|a", 0, 1}, {"r|a", 0, 1}, {"r|b", 999_999, 1}, {"r|b", 1, 2}, {"r|a", 5e6, 2}, {"r|b", 5e6, 2}} {
		w.pass(step.micros)
		a := Ask{Rule: w.rules.Rules[0], Demand: rule.Demand{Tag: []byte(step.tag)}}
		w.stores.overrides.learn(&a, &redis.Reply{Ruling: algo.Ruling{Ignored: true}}, w.now.SteadyMicros)
		if len(w.ignored) != step.want {
			t.Errorf("step %d: told of %q", n, w.ignored)
		}
	}
}

// A block rejects whatever the limits would say, in the rule's mode.
func TestVerdictOfBlocks(t *testing.T) {
	t.Parallel()
	block := weighed("block", config.Enforce, Rejected, FromRedis, 0)
	block.By = algo.ByBlock
	shadow := weighed("shadow", config.Shadow, Rejected, FromRedis, 0)
	shadow.By = algo.ByPenalty
	for _, tc := range []struct {
		checks  []Check
		outcome answer.Outcome
		by      string
	}{
		{[]Check{allowed, block}, answer.Blocked, "block"},
		{[]Check{undecided, block}, answer.Blocked, "block"},
		{[]Check{block, rejected}, answer.Blocked, "block"},
		{[]Check{rejected, block}, answer.Limited, "rejected"},
		{[]Check{allowed, shadow}, answer.ShadowLimited, "shadow"},
	} {
		q := &Question{Checks: tc.checks}
		v := q.Verdict()
		testenv.Same(t, tc.by+": the outcome", v.Outcome, tc.outcome)
		if v.By == nil || v.By.Rule.Name != tc.by {
			t.Errorf("by %v, want %s", v.By, tc.by)
		}
	}
}
