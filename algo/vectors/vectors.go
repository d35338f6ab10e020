// Package vectors has worked examples of every algorithm, which any implementation can replay: the
// tests of package algo do, on a Redis of their own, and "sluice doctor" on one that is in use.
package vectors

import (
	_ "embed"
	"slices"
)

// JSON is the list of examples, of Vector. Times are in microseconds after 2040-01-01T00:00:00Z, so that no
// key of them expires by the real clock.
//
//go:embed vectors.json
var JSON []byte

// Vector is one example.
type Vector struct {
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
		Bounds       [4]int64 // of Calendar, s after 2040
	}
	Steps []Step
}

// Step is a decision, or the refund of an earlier one, or its settlement: it has cost less, or more, than
// was charged. The nonce of a decision is its index.
type Step struct {
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

// Each are the step's costs of n limits.
func (s *Step) Each(n int) []int64 {
	if s.Costs != nil {
		return s.Costs
	}
	return slices.Repeat([]int64{s.Cost}, n)
}

// Settled is the index of the step that s refunds or settles, and how much less each limit's cost is than was
// charged. Of a decision the index is -1.
func (v *Vector) Settled(s *Step) (of int, costs []int64) {
	n := len(v.Limits)
	switch {
	case s.RefundOf != nil:
		return *s.RefundOf, v.Steps[*s.RefundOf].Each(n)
	case s.SettleOf != nil:
		for i, charged := range v.Steps[*s.SettleOf].Each(n) {
			costs = append(costs, charged-s.Each(n)[i])
		}
		return *s.SettleOf, costs
	}
	return -1, nil
}
