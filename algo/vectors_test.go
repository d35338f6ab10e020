package algo

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	"github.com/sluiceproxy/sluice/algo/vectors"
)

// A vector is one worked example of package vectors. Any implementation
// can replay it.
type vector struct {
	Name   string
	Why    string
	Limits []struct {
		Algorithm    string
		Limit        int64
		WindowMs     int64 `json:"window_ms"`
		Burst        int64
		FirstRequest bool `json:"first_request"`
		Step         bool
		SubWindows   int64 `json:"sub_windows"`
		Queue        bool
		MaxDelayMs   int64 `json:"max_delay_ms"`
		TTLMs        int64 `json:"ttl_ms"`
		Calendar     string
		Bounds       Bounds // of Calendar, s after 2040
	}
	Steps []vectorStep
}

// vectorStep is a decision, or the refund of an earlier one, or its settlement: it
// has cost less, or more, than was charged. The nonce of a decision is its index.
type vectorStep struct {
	At    int64 // us after 2040-01-01T00:00:00Z
	Cost  int64
	Costs []int64                        // of each limit, in place of Cost
	Sizes []struct{ Limit, Burst int64 } // of each limit, in place of the plan's
	// OtherTime says that the time is in none of a calendar's windows: it is all that
	// is answered.
	OtherTime bool `json:"other_time"`
	Want      []struct {
		Remaining, Reset, Retry, Delay int64  // times in us
		Before                         *int64 // reset without the charge; if given
	}
	RefundOf  *int    `json:"refund_of"`  // the index of a step
	SettleOf  *int    `json:"settle_of"`  // the step that is settled; Cost or Costs are the true ones
	ExpiresMs []int64 `json:"expires_ms"` // of each key, ms after 2040, 0 for no key; if given
}

// costs are the step's cost of each limit.
func (s *vectorStep) costs(p *Plan) []int64 {
	if s.Costs != nil {
		return s.Costs
	}
	return p.Each(s.Cost)
}

// nonce is that of step n, or of the one that it refunds or settles.
func (s *vectorStep) nonce(n int) int64 {
	switch {
	case s.RefundOf != nil:
		return int64(*s.RefundOf)
	case s.SettleOf != nil:
		return int64(*s.SettleOf)
	}
	return int64(n)
}

// settled is which step this one settles, and how much less each limit's cost is than
// was charged. ok is false for a decision.
func (v *vector) settled(p *Plan, s *vectorStep) (of *vectorStep, costs []int64, ok bool) {
	switch {
	case s.RefundOf != nil:
		of = &v.Steps[*s.RefundOf]
		return of, of.costs(p), true
	case s.SettleOf != nil:
		of = &v.Steps[*s.SettleOf]
		for i, charged := range of.costs(p) {
			costs = append(costs, charged-s.costs(p)[i])
		}
		return of, costs, true
	}
	return nil, nil, false
}

// sized is the plan with the sizes that the step brings.
func (v *vector) sized(t *testing.T, p *Plan, s *vectorStep) *Plan {
	t.Helper()
	var sizes []Size
	for i, l := range p.Limits() {
		size := Size{Units: l.Units, Burst: l.Burst, Bounds: l.Bounds}
		if s.Sizes != nil {
			size.Units, size.Burst = s.Sizes[i].Limit, s.Sizes[i].Burst
		}
		sizes = append(sizes, size)
	}
	sized, ok := p.Sized(new(Plan), sizes)
	if !ok {
		t.Fatalf("%v is out of bounds", sizes)
	}
	return sized
}

// run runs a check of step n.
func (v *vector) run(t *testing.T, n int, check func(t *testing.T)) {
	t.Helper()
	t.Run("step "+strconv.Itoa(n), check)
}

func readVectors(t *testing.T) (all []vector) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(vectors.JSON))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func (v *vector) plan(t *testing.T) *Plan {
	t.Helper()
	var limits []Limit
	for _, l := range v.Limits {
		algorithm, ok := ParseAlgorithm(l.Algorithm)
		if !ok {
			t.Fatalf("no algorithm %q", l.Algorithm)
		}
		for i := range l.Bounds {
			if l.Calendar != "" {
				l.Bounds[i] = epoch + l.Bounds[i]*1e6
			}
		}
		limits = append(limits, Limit{
			CalendarID: l.Calendar, Bounds: l.Bounds,
			Algorithm: algorithm, Units: l.Limit, WindowMicros: l.WindowMs * 1000, Burst: l.Burst,
			FromFirstRequest: l.FirstRequest, Steps: l.Step, SubWindows: l.SubWindows,
			Queue: l.Queue, MaxDelayMicros: l.MaxDelayMs * 1000, TTLMicros: l.TTLMs * 1000,
		})
	}
	return mustPlan(t, limits...)
}

// check compares what a step wants with what was decided.
func (s *vectorStep) check(t *testing.T, allowed bool, got []Decision) {
	t.Helper()
	wantAllowed := true
	for i, w := range s.Want {
		d := got[i]
		wantAllowed = wantAllowed && w.Retry == 0
		for _, field := range []struct {
			name      string
			got, want int64
		}{
			{"remaining", d.Remaining, w.Remaining},
			{"reset", d.ResetAfterMicros, w.Reset},
			{"retry", d.RetryAfterMicros, w.Retry},
			{"delay", d.DelayMicros, w.Delay},
		} {
			if field.got != field.want {
				t.Errorf("limit %d: %s is %d, want %d", i, field.name, field.got, field.want)
			}
		}
		if w.Before != nil && d.ResetBeforeMicros != *w.Before {
			t.Errorf("limit %d: reset before is %d, want %d", i, d.ResetBeforeMicros, *w.Before)
		}
	}
	if allowed != wantAllowed {
		t.Errorf("allowed is %v, want %v", allowed, wantAllowed)
	}
}

// expiry returns the answer that PEXPIRETIME should give for key i.
func (s *vectorStep) expiry(i int) int64 {
	if s.ExpiresMs[i] == 0 {
		return -2
	}
	return epoch/1000 + s.ExpiresMs[i]
}

func TestVectorsInGo(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			p := v.plan(t)
			states := make([]State, len(v.Limits))
			got := make([]Decision, len(v.Limits))
			for n, s := range v.Steps {
				now := epoch + s.At
				for i, st := range states { // what Redis would have expired
					if wantExpiry(p.ExpiresAtMicros(i, st)) < now/1000 {
						states[i] = nil
					}
				}
				sized := v.sized(t, p, &s)
				sized.Rebase(states, now)
				if of, costs, ok := v.settled(p, &s); ok {
					sized.RefundAs(s.nonce(n), states, epoch+of.At, now, costs)
				} else if s.OtherTime != sized.OtherTime(now) {
					t.Errorf("step %d: another time: %v", n, !s.OtherTime)
				} else if !s.OtherTime {
					allowed := sized.DecideAs(s.nonce(n), states, now, s.costs(p), got)
					v.run(t, n, func(t *testing.T) { s.check(t, allowed, got) })
				}
				for i := range s.ExpiresMs {
					if got := wantExpiry(p.ExpiresAtMicros(i, states[i])); got != s.expiry(i) {
						t.Errorf("step %d: limit %d expires at %d ms, want %d", n, i, got, s.expiry(i))
					}
				}
			}
		})
	}
}

func TestVectorsInLua(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			l := newLuaPlan(t, client, v.plan(t), v.Name)
			p := l.Plan
			for n, s := range v.Steps {
				now := epoch + s.At
				for _, key := range l.keys {
					if at := milliseconds(client.PExpireTime(ctx, key)); at > 0 && at < now/1000 {
						client.Del(ctx, key)
					}
				}
				l.Plan, l.nonce = v.sized(t, p, &s), s.nonce(n)
				if of, costs, ok := v.settled(p, &s); ok {
					if err := l.giveBackEach(client, now, costs, epoch+of.At).Err(); err != nil {
						t.Fatal(err)
					}
				} else {
					got, allowed, err := l.parse(l.decideEach(client, now, s.costs(p)))
					if s.OtherTime && errors.Is(err, ErrOtherTime) {
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					v.run(t, n, func(t *testing.T) { s.check(t, allowed, got) })
				}
				for i := range s.ExpiresMs {
					if got := milliseconds(client.PExpireTime(ctx, l.keys[i])); got != s.expiry(i) {
						t.Errorf("step %d: key %d expires at %d ms, want %d", n, i, got, s.expiry(i))
					}
				}
			}
		})
	}
}
