package local

import (
	"math/rand/v2"

	"github.com/sluiceproxy/sluice/algo"
)

// In the state of a concurrency limit each worker has one entry: how many slots its requests
// hold. The worker writes it anew with each call, so that nothing is lost for long if the
// identity was evicted, or a call gave up. If a worker's VM dies, its entry ends with its ttl.

// newHolder draws what a worker's entry is under. There are few workers.
func newHolder(chance rand.Source) int64 { return 1 + int64(chance.Uint64()>>33) }

// Occupying says how many slots this worker occupies of the identity that the next call is
// about.
func (s *Store) Occupying(slots int64) { s.identity.held = slots }

// Occupy says how many slots of an identity this worker occupies: fewer than before, or as
// many as before, whose ttl begins anew.
func (s *Store) Occupy(p *algo.Plan, tag []byte, nowMicros, held int64) error {
	s.Occupying(held)
	return s.RefundEach(p, tag, 0, nowMicros, s.nothing(p))
}
