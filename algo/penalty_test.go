package algo

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// wholePenalty is an identity under a penalty, written down as one would say it: all
// rejections, all blocks.
type wholePenalty struct {
	Penalty
	strikes []int64 // in the window that the first of them began
	blocks  []block
}

type block struct{ begin, end, level int64 }

func (w *wholePenalty) blockedFor(now int64) int64 {
	if n := len(w.blocks); n > 0 {
		return max(w.blocks[n-1].end-now, 0)
	}
	return 0
}

// reject counts a rejection of a time that is not before the last block's end.
func (w *wholePenalty) reject(at, now int64) {
	if len(w.strikes) > 0 && at-w.strikes[0] >= w.WithinMicros {
		w.strikes = nil
	}
	if w.strikes = append(w.strikes, at); int64(len(w.strikes)) < w.After {
		return
	}
	w.strikes = nil
	level := int64(0)
	if n := len(w.blocks); n > 0 {
		last := w.blocks[n-1]
		if now-last.end < 2*(last.end-last.begin) {
			level = min(last.level+1, int64(len(w.ForMicros))-1)
		}
	}
	w.blocks = append(w.blocks, block{now, now + w.ForMicros[level], level})
}

func (r random) penalty() *Penalty {
	p := &Penalty{After: r.span(1, 12), WithinMicros: r.span(1, 100_000) * 1000}
	for range 1 + r.IntN(4) {
		p.ForMicros = append(p.ForMicros, r.span(1, 1_000_000)*1000)
	}
	return p
}

// remembered draws what a worker brings, oldest first.
func (r random) remembered(p *Penalty) (list []Strikes) {
	for range r.IntN(4) {
		list = append(list, Strikes{AgeMicros: r.span(1, 2*p.WithinMicros), Count: r.span(1, p.After)})
	}
	slices.SortFunc(list, func(a, b Strikes) int { return int(b.AgeMicros - a.AgeMicros) })
	return list
}

// TestPenaltyProperty holds the penalty against the plain model.
func TestPenaltyProperty(t *testing.T) {
	t.Parallel()
	r := newRandom(71)
	for range 400 {
		p := r.penalty()
		model, now := wholePenalty{Penalty: *p}, int64(epoch)
		var s State
		for step := range 300 {
			now += r.span(1, 2*p.WithinMicros) - 1
			if r.oneIn(40) {
				now += 3 * p.ForMicros[len(p.ForMicros)-1]
			}
			if p.ExpiresAtMicros(s) <= now {
				s = s[:0]
			}
			list := r.remembered(p)
			s = p.Remember(s, list, now)
			for _, strikes := range list {
				for range strikes.Count {
					at, lastEnd := now-strikes.AgeMicros, int64(math.MinInt64)
					if n := len(model.blocks); n > 0 {
						lastEnd = model.blocks[n-1].end
					}
					if strikes.AgeMicros < p.WithinMicros && at >= lastEnd {
						model.reject(at, now)
					}
				}
			}
			if left := p.LeftMicros(s, now); left != model.blockedFor(now) {
				t.Fatalf("%+v, step %d: blocked for %d us, want %d", p, step, left, model.blockedFor(now))
			} else if left > 0 {
				now += r.span(1, 2*left)
				continue
			}
			s, _ = p.Strike(s, now)
			model.reject(now, now)
		}
		if len(model.blocks) == 0 {
			t.Errorf("%+v: no block in all this time", p)
		}
	}
}

// TestPenaltyDifferential replays rejections, remembered ones and clocks that jump in
// Lua and in Go.
func TestPenaltyDifferential(t *testing.T) {
	t.Parallel()
	client, r := startRedis(t), newRandom(72)
	for i := range 60 {
		p := r.penalty()
		plan := mustPlanWithTerms(t, Terms{Overrides: i%2 == 0, Penalty: p}, fivePerHour)
		c := newTermed(t, client, plan, fmt.Sprint("penalty-", i))
		pipe, states, out := c.client.Pipeline(), make([]State, 1), make([]Decision, 1)
		var s State
		var steps []penaltyStep
		key := c.terms[len(c.terms)-1]
		now := int64(epoch)
		for range 150 {
			now += r.span(1, 2*p.WithinMicros) - 1
			switch {
			case r.oneIn(30):
				now += 3 * p.ForMicros[0]
			case r.oneIn(30):
				now = max(now-r.span(1, 4*p.ForMicros[0]), epoch)
			}
			if stop := p.ExpiresAtMicros(s); len(s) > 0 && now/1000 > ceilDiv(stop, 1000) {
				s = s[:0]
				pipe.Del(ctx, key)
			}
			if e := c.ExpiresAtMicros(0, states[0]); len(states[0]) > 0 && now/1000 > ceilDiv(e, 1000) {
				states[0] = states[0][:0]
				pipe.Del(ctx, c.keys[0])
			}
			step := penaltyStep{asked: asked{now: now, cost: 1 + r.Int64N(3), strikes: r.remembered(p)}}
			s, _ = p.Rebase(s, now)
			s = p.Remember(s, step.strikes, now)
			step.want = Ruling{AtMicros: now}
			if left := p.LeftMicros(s, now); left > 0 {
				step.want.By, step.want.LeftMicros = ByPenalty, left
			} else {
				c.Rebase(states, now)
				if step.want.Allowed = c.Decide(states, now, c.Each(step.cost), out); !step.want.Allowed {
					s, step.want.EarnedMicros = p.Strike(s, now)
				}
			}
			step.reply = c.call(pipe, step.asked)
			steps = append(steps, step)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		for n, step := range steps {
			if got, _, err := c.rule(step.reply); err != nil || got != step.want {
				t.Fatalf("%+v, step %d, %+v:\nLua %+v, %v\nGo  %+v", p, n, step.asked, got, err, step.want)
			}
		}
		text, ok := getText(t, c.client.Get(ctx, key))
		testenv.Same(t, fmt.Sprintf("%+v: that there is a key", p), ok, len(s) > 0)
		if !ok || len(s) == 0 {
			continue
		}
		testenv.SameList(t, fmt.Sprintf("%+v: the key", p), ReadPenaltyState([]byte(text)), s)
		expires := milliseconds(c.client.PExpireTime(ctx, key))
		testenv.Same(t, fmt.Sprintf("%+v: its end", p), expires, ceilDiv(p.ExpiresAtMicros(s), 1000))
	}
}

// step is one call, and what the Go says of it.
type penaltyStep struct {
	asked
	reply *redis.Cmd
	want  Ruling
}

// penaltyVector is one worked example of testdata/penalties.json, which any
// implementation can replay. Times are in us, "at" after 2040-01-01T00:00:00Z.
type penaltyVector struct {
	Name          string
	After, Within int64
	For           []int64
	Steps         []struct {
		At       int64
		Rejected bool       // by the rule's limits, if it is not blocked
		Told     [][2]int64 // rejections from memory: how long ago, how many
		Earned   int64      // the block that this rejection has earned
		Left     int64      // of a block
		Why      string
	}
}

// TestPenaltyVectors tells whole stories, on Redis and in Go, to the microsecond.
func TestPenaltyVectors(t *testing.T) {
	t.Parallel()
	text := testenv.Read(t, "testdata/penalties.json")
	var vectors []penaltyVector
	testenv.OK(t, json.Unmarshal(text, &vectors))
	client := startRedis(t)
	for n, v := range vectors {
		p := &Penalty{After: v.After, WithinMicros: v.Within, ForMicros: v.For}
		plan := mustPlanWithTerms(t, Terms{Overrides: n%2 == 0, Penalty: p},
			Limit{Algorithm: FixedWindow, WindowMicros: 1000})
		c := newTermed(t, client, plan, fmt.Sprint("vector-", n))
		var s State
		for i, step := range v.Steps {
			a := asked{now: epoch + step.At}
			if step.Rejected {
				a.cost = 1 // the limit is 0
			}
			for _, told := range step.Told {
				a.strikes = append(a.strikes, Strikes{told[0], told[1]})
			}
			s, _ = p.Rebase(s, a.now)
			s = p.Remember(s, a.strikes, a.now)
			earned, left := int64(0), p.LeftMicros(s, a.now)
			if left == 0 && step.Rejected {
				s, earned = p.Strike(s, a.now)
			}
			if earned != step.Earned || left != step.Left {
				t.Errorf("%s, step %d, %s: in Go %d earned, %d left", v.Name, i, step.Why, earned, left)
			}
			r, _, err := c.rule(c.call(client, a))
			what := fmt.Sprintf("%s, step %d, %s: in Lua", v.Name, i, step.Why)
			testenv.SameError(t, what, err, nil)
			testenv.Same(t, what+" what is earned", r.EarnedMicros, step.Earned)
			testenv.Same(t, what+" what is left", r.LeftMicros, step.Left)
		}
	}
}

// TestPenaltyBesideOverrides: free lifts a penalty, and a factor that is not known yet
// counts nothing twice.
func TestPenaltyBesideOverrides(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	p := &Penalty{After: 3, WithinMicros: 60e6, ForMicros: []int64{300e6}}
	c := newTermed(t, client, mustPlanWithTerms(t, Terms{Overrides: true, Penalty: p},
		Limit{Algorithm: FixedWindow, WindowMicros: 1000}), "beside")
	override, penalty := c.terms[0], c.terms[1]
	ask := func(a asked) Ruling {
		t.Helper()
		a.now = epoch
		r, _, err := c.rule(c.call(client, a))
		if err != nil && err != ErrOtherOverride {
			t.Fatal(err)
		}
		return r
	}
	client.Set(ctx, override, "x2", 0)
	for range 5 {
		if r := ask(asked{cost: 1, strikes: []Strikes{{1, 2}}}); c.value != "x2" {
			t.Fatalf("%+v: %q", r, c.value)
		}
	}
	if n := client.Exists(ctx, penalty).Val(); n != 0 {
		t.Error("a call that was made for another factor has counted")
	}
	if r := ask(asked{cost: 1, madeFor: "x2", strikes: []Strikes{{1, 2}}}); r.EarnedMicros != 300e6 {
		t.Errorf("%+v", r)
	}
	if r := ask(asked{cost: 1}); r.By != ByPenalty {
		t.Errorf("the penalty comes before the factor: %+v", r)
	}
	client.Set(ctx, override, "block", 0)
	if r := ask(asked{cost: 1}); r.By != ByBlock {
		t.Errorf("a block comes before the penalty: %+v", r)
	}
	client.Set(ctx, override, "free", 0)
	if r := ask(asked{cost: 1, strikes: []Strikes{{1, 5}}}); r.By != ByFree {
		t.Errorf("free comes first: %+v", r)
	}
	client.Del(ctx, override)
	if r := ask(asked{cost: 1}); r.By != ByLimits || r.EarnedMicros != 0 {
		t.Errorf("free has lifted the penalty: %+v", r)
	}
}

// TestPenaltyUnderLua54 replays it where numbers are integers or floats.
func TestPenaltyUnderLua54(t *testing.T) {
	t.Parallel()
	l, r := newLua54(t), newRandom(73)
	for n := range 20 {
		p := r.penalty()
		plan := mustPlanWithTerms(t, Terms{Overrides: true, Penalty: p}, fivePerHour)
		keys := []string{
			fmt.Sprint("rl:{", n, "}:a"), fmt.Sprint("rl:{", n, "}:override"),
			fmt.Sprint("rl:{", n, "}:penalty"),
		}
		var s State
		states, out := make([]State, 1), make([]Decision, 1)
		now := int64(epoch)
		for range 60 {
			now += r.span(1, 2*p.WithinMicros)
			if r.oneIn(20) {
				now = max(now-r.span(1, 4*p.ForMicros[0]), epoch)
			}
			if ceilDiv(p.ExpiresAtMicros(s), 1000)*1000 <= now {
				s = s[:0]
			}
			if ceilDiv(plan.ExpiresAtMicros(0, states[0]), 1000)*1000 <= now {
				states[0] = states[0][:0]
			}
			a := asked{now: now, cost: 1 + r.Int64N(3), strikes: r.remembered(p)}
			s, _ = p.Rebase(s, now)
			s = p.Remember(s, a.strikes, now)
			want := Ruling{AtMicros: now}
			if left := p.LeftMicros(s, now); left > 0 {
				want.By, want.LeftMicros = ByPenalty, left
			} else {
				plan.Rebase(states, now)
				if want.Allowed = plan.Decide(states, now, plan.Each(a.cost), out); !want.Allowed {
					s, want.EarnedMicros = p.Strike(s, now)
				}
			}
			l.call(plan.Script(), now, keys, a.args(plan), func(values []int64) {
				if got, err := plan.ParseRuling(values, make([]Decision, 1)); err != nil || got != want {
					t.Errorf("%+v, %+v: %+v, %v; want %+v", p, a, got, err, want)
				}
			})
		}
	}
	l.run(t)
}

// TestPenaltyIsRefused holds the bounds.
func TestPenaltyIsRefused(t *testing.T) {
	t.Parallel()
	good := func() *Penalty { return &Penalty{After: 1, WithinMicros: 1000, ForMicros: []int64{1000}} }
	for name, change := range map[string]func(*Penalty){
		"after 0":         func(p *Penalty) { p.After = 0 },
		"after too many":  func(p *Penalty) { p.After = MaxStrikes + 1 },
		"within too long": func(p *Penalty) { p.WithinMicros = MaxWindowMicros + 1 },
		"no block":        func(p *Penalty) { p.ForMicros = nil },
		"too many blocks": func(p *Penalty) { p.ForMicros = make([]int64, MaxBlocks+1) },
		"a block of 0":    func(p *Penalty) { p.ForMicros[0] = 0 },
	} {
		p := good()
		if _, err := NewPlanWithTerms([]Limit{tenInASecond}, Terms{Penalty: p}); err != nil {
			t.Fatal(err)
		}
		change(p)
		if _, err := NewPlanWithTerms([]Limit{tenInASecond}, Terms{Penalty: p}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := NewPlanWithTerms(nil, Terms{}); err == nil {
		t.Error("a plan of nothing: accepted")
	}
}

// TestPenaltyStateOfGarbage: no state that Redis can hold makes a script fail or
// blocks for longer than it says.
func TestPenaltyStateOfGarbage(t *testing.T) {
	t.Parallel()
	c := newTermed(t, startRedis(t), mustPlanWithTerms(t, Terms{Penalty: threeStrikes}, tenInASecond), "garbage")
	numbers := []float64{0, -1, 0.5, 1e300, math.Inf(1), math.Inf(-1), math.NaN(), 1 << 52, epoch, epoch + 1e9, 1e9}
	for _, since := range numbers {
		for _, ends := range numbers {
			for _, length := range numbers {
				var b []byte
				for _, v := range []float64{since, ends, length} {
					b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
				}
				b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, math.MaxUint32), math.MaxUint32)
				c.client.Set(ctx, c.terms[0], b, 0)
				r, _, err := c.rule(c.call(c.client, asked{now: epoch, cost: 11}))
				if err != nil || float64(r.LeftMicros) > max(length, 0) {
					t.Fatalf("%v %v %v: %+v, %v", since, ends, length, r, err)
				}
				r, _, err = c.rule(c.call(c.client, asked{now: epoch + 1<<52, cost: 11}))
				if err != nil || r.By != ByLimits {
					t.Fatalf("%v %v %v, later: %+v, %v", since, ends, length, r, err)
				}
			}
		}
	}
}
