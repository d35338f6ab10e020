package algo

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

var (
	tenInASecond = Limit{Algorithm: GCRA, Units: 10, WindowMicros: 1e6}
	fivePerHour  = Limit{Algorithm: FixedWindow, Units: 5, WindowMicros: 3600e6, FromFirstRequest: true}
	threeStrikes = &Penalty{After: 3, WithinMicros: 60e6, ForMicros: []int64{300e6, 3600e6}}
)

// everyTerms are all terms that change a script.
var everyTerms = map[string]Terms{
	"overrides":         {Overrides: true},
	"penalty":           {Penalty: threeStrikes},
	"overrides-penalty": {Overrides: true, Penalty: threeStrikes},
}

// TestOverrides holds what each value of the operator's key means, on Redis' own clock.
func TestOverrides(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for i, tc := range overrideCases {
		for _, limits := range [][]Limit{{fivePerHour, tenInASecond}, nil} {
			for _, penalty := range []*Penalty{nil, threeStrikes} {
				what := fmt.Sprintf("%d: %.20q of %d limits, penalty %v, for %.20q: ",
					i, tc.value, len(limits), penalty != nil, tc.madeFor)
				plan := mustPlanWithTerms(t, Terms{Overrides: true, Penalty: penalty}, limits...)
				w := newTwins(t, onRedis(client), plan, what)
				if !tc.gone {
					testenv.OK(t, client.Set(ctx, w.ruleKeys[0], tc.value, tc.life).Err())
				}
				a := costing(w.Each(1)...)
				a.madeFor = tc.madeFor
				got, _, told, err := w.ruleInLua(t, epoch, a)
				want := tc.want
				want.AtMicros = epoch
				if want.LeftMicros > 0 { // some of it has gone by
					testenv.Within(t, what+"what is left", got.LeftMicros, want.LeftMicros-60e6+1, want.LeftMicros)
					want.LeftMicros = got.LeftMicros
				}
				testenv.SameError(t, what, err, tc.err)
				testenv.Same(t, what+"the ruling", got, want)
				wantTold := ""
				if tc.err != nil && len(tc.value) <= MaxOverrideBytes {
					wantTold = tc.value
				}
				testenv.Same(t, what+"the value that it tells", told, wantTold)
				charged := len(limits) > 0 && client.Exists(ctx, w.keys...).Val() > 0
				testenv.Same(t, what+"that it is charged", charged, got.Allowed && got.By == ByLimits && len(limits) > 0)
			}
		}
	}
}

// overrideCase is a value of an override's key, the one that a call was made for, and the ruling.
type overrideCase struct {
	value   string
	gone    bool // there is no such key
	madeFor string
	life    time.Duration
	want    Ruling
	err     error // the reply tells the value then, unless that is too long
}

var overrideCases = []overrideCase{
	{value: "free", want: Ruling{Allowed: true, By: ByFree, LeftMicros: Never}},
	{value: "free", life: time.Hour, want: Ruling{Allowed: true, By: ByFree, LeftMicros: 3600e6}},
	{value: "block", want: Ruling{By: ByBlock, LeftMicros: Never}},
	{value: "block", life: time.Hour, want: Ruling{By: ByBlock, LeftMicros: 3600e6}},
	{value: "x2", want: Ruling{LeftMicros: Never}, err: ErrOtherOverride},
	{value: "x2", madeFor: "x2", want: Ruling{Allowed: true}},
	{value: "x2", madeFor: "x2.0", want: Ruling{LeftMicros: Never}, err: ErrOtherOverride},
	{value: "x2", madeFor: "x2", life: time.Hour, want: Ruling{Allowed: true}},
	{value: "x2", madeFor: "x3", life: time.Hour, want: Ruling{LeftMicros: 3600e6}, err: ErrOtherOverride},
	{value: "tier:pro", want: Ruling{LeftMicros: Never}, err: ErrOtherOverride},
	{value: "tier:pro", madeFor: "tier:pro", want: Ruling{Allowed: true}},
	{value: "limits:a=1/2", madeFor: "limits:a=1/2", want: Ruling{Allowed: true}},
	{value: "nonsense", want: Ruling{LeftMicros: Never}, err: ErrOtherOverride},
	{value: "nonsense", madeFor: "nonsense", want: Ruling{Allowed: true}},
	{value: "\x00\xff", want: Ruling{LeftMicros: Never}, err: ErrOtherOverride},
	{value: "block ", want: Ruling{LeftMicros: Never}, err: ErrOtherOverride},
	{value: "FREE", want: Ruling{LeftMicros: Never}, err: ErrOtherOverride},
	{value: "free", madeFor: "x2", want: Ruling{Allowed: true, By: ByFree, LeftMicros: Never}},
	{value: "block", madeFor: "x2", want: Ruling{By: ByBlock, LeftMicros: Never}},
	{value: longest, want: Ruling{LeftMicros: Never}, err: ErrOtherOverride},
	{value: longest, madeFor: longest, want: Ruling{Allowed: true}},
	{value: longest + "a", want: Ruling{Allowed: true, Ignored: true}},
	{value: "", want: Ruling{Allowed: true, Ignored: true}},
	{value: "", madeFor: "x2", want: Ruling{LeftMicros: Never}, err: ErrOtherOverride},
	{value: longest + "a", madeFor: "x2", want: Ruling{LeftMicros: Never}, err: ErrOtherOverride},
	{gone: true, want: Ruling{Allowed: true}},
	{gone: true, madeFor: "x2", want: Ruling{LeftMicros: Never}, err: ErrOtherOverride},
}

var longest = strings.Repeat("a", MaxOverrideBytes)

// TestKeysOfOtherTypes: whatever the rule's own keys hold, the limits decide.
func TestKeysOfOtherTypes(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	texts := []string{strings.Repeat("B", 32), strings.Repeat("\xff", 32), strings.Repeat("9", 32), "garbage"}
	for _, text := range append(slices.Collect(maps.Keys(foreignKeys)), texts...) {
		put, isForeign := foreignKeys[text]
		for name, terms := range everyTerms {
			w := newTwins(t, onRedis(client), mustPlanWithTerms(t, terms, fivePerHour), fmt.Sprint(name, text))
			for _, key := range w.ruleKeys {
				if !isForeign {
					put = func(c redis.Cmdable, key string) error { return c.Set(ctx, key, text, 0).Err() }
				}
				testenv.OK(t, put(client, key))
			}
			a := costing(1)
			if madeFor, err := client.Get(ctx, w.ruleKeys[0]).Result(); err == nil && len(madeFor) <= MaxOverrideBytes {
				a.madeFor = madeFor
			}
			for n := range int64(7) {
				r, _, _, err := w.ruleInLua(t, epoch, a)
				what := fmt.Sprintf("%s, %.20q, request %d", name, text, n+1)
				testenv.SameError(t, what, err, nil)
				testenv.Same(t, what+": that it is allowed", r.Allowed, n < 5)
				testenv.Same(t, what+": that its override is ignored", r.Ignored, terms.Overrides && a.madeFor == "")
				testenv.Same(t, what+": what decides", r.By, ByLimits)
			}
		}
	}
}

// TestOtherErrorsStand: a key that a user may not read is not garbage, which would
// lift every block.
func TestOtherErrorsStand(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	testenv.OK(t, client.Do(ctx, "ACL", "SETUSER", "default", "resetkeys", "~*-1s").Err())
	for name, terms := range everyTerms {
		w := newTwins(t, onRedis(client), mustPlanWithTerms(t, terms, tenInASecond), name)
		keys := []string{"rl:{a}:gcra-1s", "b-1s", "c-1s"}
		source := w.Script().Source
		for _, own := range []string{"KEYS[2]", "KEYS[3]"} {
			source = strings.ReplaceAll(source, own, "'secret'") // which is not declared
		}
		err := client.Eval(ctx, source, keys, w.args(costing(1))...).Err()
		if err == nil || strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFactor follows one identity while its factor changes: its state is in units, so
// it never starts afresh.
func TestFactor(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for _, limit := range everyLimit {
		plain := mustPlanWithTerms(t, Terms{Overrides: true}, limit)
		w := newTwins(t, onRedis(client), plain, "factor"+limit.KeySuffix())
		used := int64(0)
		for _, step := range []struct {
			factor, take int64
			value        string
		}{{1000, 4, ""}, {2000, 10, "x2"}, {500, 0, "x0.5"}, {3000, 10, "x3"}, {1000, 0, ""}} {
			client.Del(ctx, w.ruleKeys[0])
			if step.value != "" {
				client.Set(ctx, w.ruleKeys[0], step.value, 0)
			}
			what := fmt.Sprintf("%s, %s: ", w.keys[0], step.value)
			sized, ok := plain.Sized(new(Plan), []Size{limit.Times(step.factor)})
			testenv.Same(t, what+"that the size is within bounds", ok, true)
			w.Plan = sized
			capacity := limit.Capacity() * step.factor / 1000
			a := costing(1)
			for a.madeFor = step.value; step.take > 0; step.take-- {
				r, _ := w.rule(t, epoch, a)
				testenv.Same(t, what+"that it is allowed", r.Allowed, true)
				used++
			}
			a.costs = []int64{0}
			_, out := w.rule(t, epoch, a)
			testenv.Same(t, what+"what remains", out[0].Remaining, max(capacity-used, 0))
			if limit.Algorithm.HasBurst() {
				used = min(used, capacity) // a bucket is clamped, but only a charge writes that
			}
			if step.factor == 500 {
				used = 14
			}
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	bucket := Limit{Algorithm: GCRA, Units: 10, WindowMicros: 1e6, Burst: 25}
	for _, tc := range []struct {
		limit  Limit
		factor int64
		want   Size
	}{
		{bucket, 1000, Size{Units: 10, Burst: 25}},
		{bucket, 2000, Size{Units: 20, Burst: 50}},
		{bucket, 500, Size{Units: 5, Burst: 12}},
		{bucket, 1, Size{Units: 1, Burst: 1}},
		{bucket, MaxFactor, Size{Units: 10_000, Burst: 25_000}},
		{Limit{Algorithm: FixedWindow, Units: 999, WindowMicros: 1e6}, 1999, Size{Units: 1997, Burst: 0}},
		{Limit{Algorithm: FixedWindow, WindowMicros: 1e6}, MaxFactor, Size{Units: 0, Burst: 0}},
		{
			Limit{Algorithm: GCRA, Units: MaxUnits, WindowMicros: 1e6, Burst: MaxUnits},
			MaxFactor,
			Size{Units: MaxUnits, Burst: MaxUnits},
		},
		// 1999 / 1 is restored in twice the time that 1,999,000 / 1,999 is.
		{Limit{Algorithm: GCRA, Units: 1_999, WindowMicros: MaxWindowMicros, Burst: 199_000}, 1, Size{Units: 1, Burst: 99}},
	} {
		got := tc.limit.Times(tc.factor)
		if got != tc.want {
			t.Errorf("%+v times %d is %+v, want %+v", tc.limit, tc.factor, got, tc.want)
		}
		sized := tc.limit
		sized.Units, sized.Burst = got.Units, got.Burst
		if !sized.sizeIsValid() {
			t.Errorf("%+v times %d is out of bounds: %+v", tc.limit, tc.factor, got)
		}
	}
}

func TestParseRuling(t *testing.T) {
	t.Parallel()
	both := mustPlanWithTerms(t, Terms{Overrides: true, Penalty: threeStrikes}, fivePerHour)
	penalty := mustPlanWithTerms(t, Terms{Penalty: threeStrikes}, fivePerHour)
	overrides := mustPlanWithTerms(t, Terms{Overrides: true}, fivePerHour)
	none := mustPlanWithTerms(t, Terms{Overrides: true})
	alone := mustPlanWithTerms(t, Terms{Penalty: threeStrikes})
	plain := mustPlan(t, fivePerHour)
	// What slots reply is as long as what has no limits to decide.
	slots := mustPlanWithTerms(t, Terms{Overrides: true}, slotsOfTwo)
	penalized := mustPlanWithTerms(t, Terms{Penalty: threeStrikes}, slotsOfTwo)
	for _, tc := range []struct {
		name   string
		plan   *Plan
		values []int64
		want   Ruling
		err    error
	}{
		{"no terms", plain, []int64{7, 4, 5, 0, 0}, Ruling{AtMicros: 7, Allowed: true}, nil},
		{"allowed", both, []int64{7, 4, 5, 0, 0, 0}, Ruling{AtMicros: 7, Allowed: true}, nil},
		{"ignored", both, []int64{7, 4, 5, 0, 0, 0, 1}, Ruling{AtMicros: 7, Allowed: true, Ignored: true}, nil},
		{"overrides alone", overrides, []int64{7, 4, 5, 0, 0}, Ruling{AtMicros: 7, Allowed: true}, nil},
		{
			"overrides alone, ignored", overrides,
			[]int64{7, 4, 5, 0, 0, 1},
			Ruling{AtMicros: 7, Allowed: true, Ignored: true},
			nil,
		},
		{"a block is earned", both, []int64{7, 0, 5, 5, 5, 300e6}, Ruling{AtMicros: 7, EarnedMicros: 300e6}, nil},
		{"an integer too many", both, []int64{7, 4, 5, 0, 0, 0, 1, 0}, Ruling{}, ErrReplyLength},
		{"an integer too many of overrides", overrides, []int64{7, 4, 5, 0, 0, 1, 0}, Ruling{}, ErrReplyLength},
		{"an integer too many of a penalty", penalty, []int64{7, 4, 5, 0, 0, 0, 0}, Ruling{}, ErrReplyLength},
		{"penalty alone", penalty, []int64{7, 0, 5, 5, 5, 9}, Ruling{AtMicros: 7, EarnedMicros: 9}, nil},
		{"free", both, []int64{7, -1, 0}, Ruling{AtMicros: 7, Allowed: true, By: ByFree}, nil},
		{"blocked", both, []int64{7, -2, -1}, Ruling{AtMicros: 7, By: ByBlock, LeftMicros: Never}, nil},
		{"penalized", penalty, []int64{7, -3, 8}, Ruling{AtMicros: 7, By: ByPenalty, LeftMicros: 8}, nil},
		{"unlimited", none, []int64{7, -4, 0}, Ruling{AtMicros: 7, Allowed: true}, nil},
		{"unlimited, ignored", none, []int64{7, -4, 1}, Ruling{AtMicros: 7, Allowed: true, Ignored: true}, nil},
		{"another override", both, []int64{7, -6, 2000}, Ruling{AtMicros: 7, LeftMicros: 2000}, ErrOtherOverride},
		{"an endless one", none, []int64{7, -6, -1}, Ruling{AtMicros: 7, LeftMicros: Never}, ErrOtherOverride},
		{"one that ends before never", both, []int64{7, -6, -2}, Ruling{}, ErrReplyRange},
		{"an override where there are none", penalty, []int64{7, -6, 2000}, Ruling{}, ErrReplyRange},
		{"a factor, as there once were", both, []int64{7, -5, 2000}, Ruling{}, ErrReplyRange},
		{"no such kind", both, []int64{7, -7, 0}, Ruling{}, ErrReplyRange},
		{"a life below never", both, []int64{7, -2, -2}, Ruling{}, ErrReplyRange},
		{"a life too large", both, []int64{7, -2, math.MaxInt64}, Ruling{}, ErrReplyRange},
		{"time below 0", both, []int64{-1, -2, 1}, Ruling{}, ErrReplyRange},
		{"too large a block", both, []int64{7, 0, 5, 5, 5, math.MaxInt64}, Ruling{}, ErrReplyRange},
		{"unlimited, a penalty", alone, []int64{7, -4, 0}, Ruling{AtMicros: 7, Allowed: true}, nil},
		{"free, of slots", slots, []int64{7, -1, 0}, Ruling{AtMicros: 7, Allowed: true, By: ByFree}, nil},
		{"another override, of slots", slots, []int64{7, -6, 5}, Ruling{AtMicros: 7, LeftMicros: 5}, ErrOtherOverride},
		{"a penalty without one", slots, []int64{7, -3, 5}, Ruling{}, ErrReplyRange},
		{"unlimited, with limits", slots, []int64{7, -4, 0}, Ruling{}, ErrReplyRange},
		{"free, cut", slots, []int64{7, -1}, Ruling{}, ErrReplyLength},
		{"free, too long", slots, []int64{7, -1, 0, 0}, Ruling{}, ErrReplyLength},
		{"penalized, of slots", penalized, []int64{7, -3, 5}, Ruling{AtMicros: 7, By: ByPenalty, LeftMicros: 5}, nil},
		{"an endless penalty", penalized, []int64{7, -3, -1}, Ruling{}, ErrReplyRange},
		{"a block without overrides", penalized, []int64{7, -2, 5}, Ruling{}, ErrReplyRange},
		{"free without overrides", penalized, []int64{7, -1, 0}, Ruling{}, ErrReplyRange},
		{"free without terms", mustPlan(t, slotsOfTwo), []int64{7, -1, 0}, Ruling{}, ErrReplyRange},
		{"nothing", both, nil, Ruling{}, ErrReplyLength},
		{"limits without terms", both, []int64{7, 4, 5, 0, 0}, Ruling{}, ErrReplyLength},
		{"terms without limits", none, []int64{7, 0, 0, 0}, Ruling{}, ErrReplyLength},
		{"time alone", none, []int64{7}, Ruling{}, ErrReplyLength},
	} {
		got, err := tc.plan.ParseRuling(tc.values, make([]Decision, len(tc.plan.Limits())))
		if err != nil && !errors.Is(err, ErrOtherOverride) {
			got = Ruling{}
		}
		testenv.SameError(t, tc.name, err, tc.err)
		testenv.Same(t, tc.name, got, tc.want)
	}
}

// TestRetryAfterAnEarnedBlock: whoever obeys Retry-After is not met by the block that it has
// earned.
func TestRetryAfterAnEarnedBlock(t *testing.T) {
	t.Parallel()
	plan := mustPlanWithTerms(t, Terms{Overrides: true, Penalty: threeStrikes}, fivePerHour)
	for _, tc := range []struct {
		name        string
		retry, want int64
	}{
		{"a wait that is shorter than the block", 5, 300e6},
		{"no wait helps", Never, Never},
	} {
		out := make([]Decision, 1)
		_, err := plan.ParseRuling([]int64{7, 0, 5, tc.retry, 5, 300e6}, out)
		testenv.SameError(t, tc.name, err, nil)
		testenv.Same(t, tc.name+": the wait", out[0].RetryAfterMicros, tc.want)
		testenv.Same(t, tc.name+": the reset", out[0].ResetAfterMicros, 5)
	}
}

// Whatever integers come, reading them ends with a ruling or an error.
func TestParseRulingOfAnything(t *testing.T) {
	t.Parallel()
	r := newRandom(74)
	for _, terms := range everyTerms {
		for _, limits := range [][]Limit{nil, {fivePerHour}, everyLimit} {
			p := mustPlanWithTerms(t, terms, limits...)
			for range 5000 {
				values := make([]int64, r.IntN(p.ReplyLen()+4))
				for i := range values {
					values[i] = []int64{-1, 0, 1, 2, 3, epoch, math.MaxInt64, math.MinInt64}[r.IntN(8)]
				}
				r, err := p.ParseRuling(values, make([]Decision, len(limits)))
				if err == nil {
					what := fmt.Sprintf("%v: ", values)
					testenv.Within(t, what+"the time", r.AtMicros, 0, math.MaxInt64)
					testenv.Within(t, what+"what is left", r.LeftMicros, Never, math.MaxInt64)
					testenv.Within(t, what+"what is earned", r.EarnedMicros, 0, math.MaxInt64)
					if r.Allowed {
						testenv.Same(t, what+"that it blocks, as it allows", r.By.Blocks(), false)
					}
				}
			}
		}
	}
}
