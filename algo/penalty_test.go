package algo

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// wholePenalty is an identity under a penalty, written down as one would say it: all rejections of a window, and
// the last block.
type wholePenalty struct {
	Penalty
	strikes []int64 // in the window that the first of them began
	blocks  int
	last    struct{ begin, end, level int64 }
}

// reject counts a rejection of a time that is not before the last block's end.
func (w *wholePenalty) reject(at, now int64) {
	if len(w.strikes) > 0 && at-w.strikes[0] >= w.WithinMicros {
		w.strikes = nil
	}
	if w.strikes = append(w.strikes, at); int64(len(w.strikes)) < w.After {
		return
	}
	w.blocks, w.strikes = w.blocks+1, nil
	if w.last.level++; now-w.last.end >= 2*(w.last.end-w.last.begin) {
		w.last.level = 0
	}
	w.last.level = min(w.last.level, int64(len(w.ForMicros))-1)
	w.last.begin, w.last.end = now, now+w.ForMicros[w.last.level]
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
					if at := now - strikes.AgeMicros; strikes.AgeMicros < p.WithinMicros && at >= model.last.end {
						model.reject(at, now)
					}
				}
			}
			left := p.LeftMicros(s, now)
			if want := max(model.last.end-now, 0); left != want {
				t.Fatalf("%+v, step %d: blocked for %d us, want %d", p, step, left, want)
			} else if left > 0 {
				now += r.span(1, 2*left)
				continue
			}
			s, _ = p.Strike(s, now)
			model.reject(now, now)
		}
		if model.blocks == 0 {
			t.Errorf("%+v: no block in all this time", p)
		}
	}
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
	var vectors []penaltyVector
	testenv.OK(t, json.Unmarshal(testenv.Read(t, "testdata/penalties.json"), &vectors))
	client := startRedis(t)
	for n, v := range vectors {
		p := &Penalty{After: v.After, WithinMicros: v.Within, ForMicros: v.For}
		plan := mustPlanWithTerms(t, Terms{Overrides: n%2 == 0, Penalty: p},
			Limit{Algorithm: FixedWindow, WindowMicros: 1000})
		w := newTwins(t, onRedis(client), plan, fmt.Sprint("vector-", n))
		for i, step := range v.Steps {
			a := costing(0)
			if step.Rejected {
				a.costs[0] = 1 // the limit is 0
			}
			for _, told := range step.Told {
				a.strikes = append(a.strikes, Strikes{told[0], told[1]})
			}
			r, _ := w.rule(t, epoch+step.At, a)
			what := fmt.Sprintf("%s, step %d, %s: ", v.Name, i, step.Why)
			testenv.Same(t, what+"what is earned", r.EarnedMicros, step.Earned)
			testenv.Same(t, what+"what is left", r.LeftMicros, step.Left)
		}
	}
}

// TestPenaltyBesideOverrides: free lifts a penalty, and a factor that is not known yet
// counts nothing twice.
func TestPenaltyBesideOverrides(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	p := &Penalty{After: 3, WithinMicros: 60e6, ForMicros: []int64{300e6}}
	plan := mustPlanWithTerms(t, Terms{Overrides: true, Penalty: p}, Limit{Algorithm: FixedWindow, WindowMicros: 1000})
	w := newTwins(t, onRedis(client), plan, "beside")
	two := []Strikes{{1, 2}}
	for _, tc := range []struct {
		name, override, madeFor string
		strikes                 []Strikes
		want                    Ruling
		err                     error
	}{
		{name: "another factor", override: "x2", strikes: two, want: Ruling{LeftMicros: Never}, err: ErrOtherOverride},
		{name: "and again", override: "x2", strikes: two, want: Ruling{LeftMicros: Never}, err: ErrOtherOverride},
		{name: "which counted nothing", override: "x2", madeFor: "x2", strikes: two, want: Ruling{EarnedMicros: 300e6}},
		{name: "the penalty comes before the factor", override: "x2", want: Ruling{By: ByPenalty, LeftMicros: 300e6}},
		{name: "a block comes before the penalty", override: "block", want: Ruling{By: ByBlock, LeftMicros: Never}},
		{
			name: "free comes first", override: "free", strikes: []Strikes{{1, 5}},
			want: Ruling{Allowed: true, By: ByFree, LeftMicros: Never},
		},
		{name: "free has lifted the penalty"},
	} {
		client.Del(ctx, w.ruleKeys[0])
		if tc.override != "" {
			client.Set(ctx, w.ruleKeys[0], tc.override, 0)
		}
		tc.want.AtMicros = epoch
		r, _, _, err := w.ruleInLua(t, epoch, asked{costs: []int64{1}, madeFor: tc.madeFor, strikes: tc.strikes})
		testenv.SameError(t, tc.name, err, tc.err)
		testenv.Same(t, tc.name, r, tc.want)
	}
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
	client := startRedis(t)
	plan := mustPlanWithTerms(t, Terms{Penalty: threeStrikes}, tenInASecond)
	w := newTwins(t, onRedis(client), plan, "garbage")
	numbers := []float64{0, -1, 0.5, 1e300, math.Inf(1), math.Inf(-1), math.NaN(), 1 << 52, epoch, epoch + 1e9, 1e9}
	for _, since := range numbers {
		for _, ends := range numbers {
			for _, length := range numbers {
				var b []byte
				for _, v := range []float64{since, ends, length} {
					b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
				}
				b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(b, math.MaxUint32), math.MaxUint32)
				client.Set(ctx, w.ruleKeys[0], b, 0)
				r, _, _, err := w.ruleInLua(t, epoch, costing(11))
				if err != nil || float64(r.LeftMicros) > max(length, 0) {
					t.Fatalf("%v %v %v: %+v, %v", since, ends, length, r, err)
				}
				r, _, _, err = w.ruleInLua(t, epoch+1<<52, costing(11))
				if err != nil || r.By != ByLimits {
					t.Fatalf("%v %v %v, later: %+v, %v", since, ends, length, r, err)
				}
			}
		}
	}
}
