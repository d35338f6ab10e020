package local

import (
	"math/rand/v2"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
)

// Options are a Store's namespace, and its size if it is another than usual.
type Options struct {
	Namespace        string
	Pages, PageBytes int
}

// sized is a Store with options.
func sized(shared SharedData, chance rand.Source, opts Options) *Store {
	s := New(shared, chance, opts.Namespace)
	if opts.Pages > 0 {
		s.pages = uint32(opts.Pages)
	}
	if opts.PageBytes > 0 {
		s.pageBytes = opts.PageBytes
	}
	return s
}

// Take is Decide with one cost for all limits, and without terms.
func (s *Store) Take(
	p *algo.Plan, tag []byte, nowMicros, cost int64, out []algo.Decision,
) (atMicros int64, allowed bool, err error) {
	return s.TakeEach(p, tag, nowMicros, each(p, cost), out)
}

// TakeEach is Take with a cost for each limit.
func (s *Store) TakeEach(
	p *algo.Plan, tag []byte, nowMicros int64, costs []int64, out []algo.Decision,
) (atMicros int64, allowed bool, err error) {
	r, err := s.Decide(p, tag, nowMicros, costs, out, Charge)
	return r.AtMicros, r.Allowed, err
}

// Refund is RefundEach with one cost for all limits.
func (s *Store) Refund(p *algo.Plan, tag []byte, chargedAtMicros, nowMicros, cost int64) error {
	return s.RefundEach(p, tag, chargedAtMicros, nowMicros, each(p, cost))
}

// each is one cost for all limits of a plan.
func each(p *algo.Plan, cost int64) []int64 { return slices.Repeat([]int64{cost}, len(p.Limits())) }
