package algo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/algo/vectors"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestVectors replays the examples in Go and on a real Redis.
func TestVectors(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	var all []vectors.Vector
	decoder := json.NewDecoder(bytes.NewReader(vectors.JSON))
	decoder.DisallowUnknownFields()
	testenv.OK(t, decoder.Decode(&all))
	for _, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			var limits []Limit
			for _, l := range v.Limits {
				algorithm, ok := ParseAlgorithm(l.Algorithm)
				testenv.Same(t, "that there is an algorithm "+l.Algorithm, ok, true)
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
			p := mustPlan(t, limits...)
			w := newTwins(t, onRedis(client), p, v.Name)
			for n := range v.Steps {
				s, what := &v.Steps[n], fmt.Sprintf("step %d: ", n)
				now, sizes := epoch+s.At, make([]Size, len(p.limits))
				w.forget(t, now)
				for i, l := range p.limits {
					if sizes[i] = l.Size(); s.Sizes != nil {
						sizes[i].Units, sizes[i].Burst = s.Sizes[i].Limit, s.Sizes[i].Burst
					}
				}
				var ok bool
				w.Plan, ok = p.Sized(new(Plan), sizes)
				testenv.Same(t, what+"that the sizes are within bounds", ok, true)
				w.nonce = int64(n)
				if of, costs := v.Settled(s); of >= 0 {
					w.settle(t, now, charge{epoch + v.Steps[of].At, int64(of), costs})
				} else {
					testenv.Same(t, what+"that it is another time", w.OtherTime(now), s.OtherTime)
					out, allowed := w.decide(t, now, s.Each(len(p.limits))...)
					wantAllowed := !s.OtherTime
					for i, want := range s.Want {
						wantAllowed = wantAllowed && want.Retry == 0
						got, decided := want, out[i]
						got.Remaining, got.Reset, got.Retry = decided.Remaining, decided.ResetAfterMicros, decided.RetryAfterMicros
						got.Delay = decided.DelayMicros
						testenv.Same(t, fmt.Sprintf("%slimit %d", what, i), got, want)
						if want.Before != nil {
							testenv.Same(t, what+"the reset before", decided.ResetBeforeMicros, *want.Before)
						}
					}
					testenv.Same(t, what+"that it is allowed", allowed, wantAllowed)
				}
				for i, ms := range s.ExpiresMs {
					want := int64(-2)
					if ms != 0 {
						want = epoch/1000 + ms
					}
					testenv.Same(t, fmt.Sprintf("%swhen limit %d expires in Go", what, i), w.expiry(i), want)
					w.expire(t, func(got []int64) {
						testenv.Same(t, fmt.Sprintf("%swhen key %d expires", what, i), got[i], want)
					})
				}
			}
		})
	}
}
