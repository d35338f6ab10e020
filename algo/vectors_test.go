package algo

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	"github.com/sluiceproxy/sluice/algo/vectors"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// A vector is one worked example of package vectors.
type vector struct{ vectors.Vector }

// vectorStep is one of its steps.
type vectorStep struct{ *vectors.Step }

// settled is the step that this one settles, nil for a decision, the nonce, and how much less each limit's cost
// is than was charged.
func (v *vector) settled(n int) (of *vectors.Step, nonce int64, costs []int64) {
	at, costs := v.Settled(&v.Steps[n])
	if at < 0 {
		return nil, int64(n), nil
	}
	return &v.Steps[at], int64(at), costs
}

// sized is the plan with the sizes that the step brings.
func (v *vector) sized(t *testing.T, p *Plan, s *vectors.Step) *Plan {
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
	testenv.OK(t, decoder.Decode(&all))
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
			CalendarID: l.Calendar, Bounds: Bounds(l.Bounds),
			Algorithm: algorithm, Units: l.Limit, WindowMicros: l.WindowMs * 1000, Burst: l.Burst,
			FromFirstRequest: l.FirstRequest, Steps: l.Step, SubWindows: l.SubWindows,
			Queue: l.Queue, MaxDelayMicros: l.MaxDelayMs * 1000, TTLMicros: l.TTLMs * 1000,
		})
	}
	return mustPlan(t, limits...)
}

// check compares what a step wants with what was decided.
func (s vectorStep) check(t *testing.T, allowed bool, got []Decision) {
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
func (s vectorStep) expiry(i int) int64 {
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
			for n := range v.Steps {
				s := vectorStep{&v.Steps[n]}
				now := epoch + s.At
				for i, st := range states { // what Redis would have expired
					if wantExpiry(p.ExpiresAtMicros(i, st)) < now/1000 {
						states[i] = nil
					}
				}
				sized := v.sized(t, p, s.Step)
				sized.Rebase(states, now)
				of, nonce, costs := v.settled(n)
				if of != nil {
					sized.RefundAs(nonce, states, epoch+of.At, now, costs)
				} else if s.OtherTime != sized.OtherTime(now) {
					t.Errorf("step %d: another time: %v", n, !s.OtherTime)
				} else if !s.OtherTime {
					allowed := sized.DecideAs(nonce, states, now, s.Each(len(got)), got)
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
			for n := range v.Steps {
				s := vectorStep{&v.Steps[n]}
				now := epoch + s.At
				for _, key := range l.keys {
					if at := milliseconds(client.PExpireTime(ctx, key)); at > 0 && at < now/1000 {
						client.Del(ctx, key)
					}
				}
				of, nonce, costs := v.settled(n)
				l.Plan, l.nonce = v.sized(t, p, s.Step), nonce
				if of != nil {
					testenv.OK(t, l.giveBackEach(client, now, costs, epoch+of.At).Err())
				} else {
					got, allowed, err := l.parse(l.decideEach(client, now, s.Each(len(v.Limits))))
					if s.OtherTime && errors.Is(err, ErrOtherTime) {
						continue
					}
					testenv.OK(t, err)
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
