package local

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/sha256"
)

// SharedData is the memory that the workers of one Envoy share:
// proxy_get_shared_data and proxy_set_shared_data.
type SharedData interface {
	// Get returns a copy of the key's value and the number of its version, or
	// ErrNotFound.
	Get(key string) (value []byte, cas uint32, err error)
	// Set replaces the key's value if its version is cas, else returns
	// ErrCASMismatch. A key that does not exist is created whatever cas is; with
	// cas 0 the value is replaced whatever its version is. It keeps a copy.
	Set(key string, value []byte, cas uint32) error
}

// Errors of SharedData.
var (
	ErrNotFound    = errors.New("local: no such key in the shared data")
	ErrCASMismatch = errors.New("local: another worker wrote the key in between")
)

// The size, which all Stores that share their data have: 16 MiB, which holds about 350,000 identities at a time.
const (
	// Bound: pages of the embedded store. Beyond it, identities share a page. Protects memory.
	DefaultPages = 4096
	// Bound: bytes of one page. Beyond it, the identity that matters least is dropped. Protects
	// memory, and the time to read a page.
	DefaultPageBytes = 4096
)

// Store is one worker's access to the counters in the shared data. Its methods
// are not safe for concurrent use, as a worker is one thread; any number of
// Stores may share their data.
type Store struct {
	shared    SharedData
	chance    rand.Source
	pageBytes int
	namespace string
	keys      pageKeys
	secret    []byte // what tags are hashed with, see secret.go; nil until it is known
	hash      *sha256.Hash
	digest    []byte
	out       []algo.Decision // scratch, for as many limits as any plan has had
	zeros     []int64         // scratch, of costs
	packer    packer
	identity  identity
	evictions uint64
}

// New returns a Store over shared. It touches no data yet. From chance it draws its own
// number among those that share the data and, if it is the first, what tags are hashed with.
// namespace tells counters apart that have the same tag, as key_prefix and database do in Redis.
func New(shared SharedData, chance rand.Source, namespace string) *Store {
	return &Store{
		shared:    shared,
		chance:    chance,
		pageBytes: DefaultPageBytes,
		namespace: namespace,
		keys:      newPageKeys(DefaultPages),
		hash:      sha256.New(),
		identity:  identity{holder: newHolder(chance)},
	}
}

// Evictions is how many records this Store has dropped before they expired, because it needed
// their room. Each let an identity start afresh.
func (s *Store) Evictions() uint64 { return s.evictions }

// How is what Decide does beside deciding.
type How uint8

const (
	// Charge charges what all limits allow, and knows of no penalty.
	Charge How = iota
	// Obey is Charge that obeys the plan's penalty, and counts towards it.
	Obey
	// Look charges nothing.
	Look
)

// Decide decides costs for the limits of p, for the identity that tag names
// ("<rule>|<identity>"), and charges them if all limits allow theirs. out has one
// element for each limit. It decides at the ruling's AtMicros, which RefundEach names: it is
// nowMicros, unless another worker has charged the identity at a slightly later
// time already. On an error nothing was charged and out means nothing.
func (s *Store) Decide(
	p *algo.Plan, tag []byte, nowMicros int64, costs []int64, out []algo.Decision, how How,
) (algo.Ruling, error) {
	var penalty *algo.Penalty
	if how == Obey {
		penalty = p.Terms().Penalty
	}
	r := s.begin(p, tag)
	for s.load(&r, nowMicros, penalty) {
		if p.OtherTime(s.identity.atMicros) {
			return algo.Ruling{}, algo.ErrOtherTime
		}
		ruling, changed := s.identity.decide(p, costs, out, how)
		if !changed || s.save(&r) {
			return ruling, nil
		}
	}
	return algo.Ruling{}, r.err
}

// RefundEach gives back what a Decide at chargedAtMicros charged, or a part of it. An identity
// that has expired or was evicted since has nothing to be given back. A cost below 0 is
// charged on top, see algo.Plan.Refund. Of slots the worker then occupies as many as Occupying
// says.
func (s *Store) RefundEach(p *algo.Plan, tag []byte, chargedAtMicros, nowMicros int64, costs []int64) error {
	id, more := &s.identity, slices.Min(costs) < 0
	_, slots := p.Slots()
	more = more || slots && id.held > 0
	r := s.begin(p, tag)
	for s.load(&r, nowMicros, nil) {
		if !r.found && !more {
			return nil
		}
		p.Rebase(id.states, id.atMicros)
		p.Refund(id.states, chargedAtMicros, id.atMicros, costs)
		if slots {
			p.Renew(id.states, id.atMicros, id.holder, id.held)
		}
		if more || slots {
			s.report(p)
		}
		if s.save(&r) {
			return nil
		}
	}
	return r.err
}

// report brings up to date how much the identity at hand has consumed.
func (s *Store) report(p *algo.Plan) {
	zeros := s.nothing(p)
	for len(s.out) < len(zeros) {
		s.out = append(s.out, algo.Decision{})
	}
	p.Decide(s.identity.states, s.identity.atMicros, zeros, s.out)
	s.identity.consumed = byte(p.InUse(s.out, 255))
}

// nothing is a cost of 0 for each limit of a plan.
func (s *Store) nothing(p *algo.Plan) []int64 {
	for len(s.zeros) < len(p.Limits()) {
		s.zeros = append(s.zeros, 0)
	}
	return s.zeros[:len(p.Limits())]
}

// decide decides for the identity that was loaded. It reports whether anything is to
// be saved.
func (id *identity) decide(
	p *algo.Plan, costs []int64, out []algo.Decision, how How,
) (r algo.Ruling, changed bool) {
	r.AtMicros = id.atMicros
	if id.penalty != nil {
		id.penaltyState, changed = id.penalty.Rebase(id.penaltyState, id.atMicros)
		if r.LeftMicros = id.penalty.LeftMicros(id.penaltyState, id.atMicros); r.LeftMicros > 0 {
			r.By = algo.ByPenalty
			return r, changed
		}
	}
	changed = p.RebaseFor(id.states, id.atMicros, costs, out) || changed
	if _, ok := p.Slots(); ok {
		p.Renew(id.states, id.atMicros, id.holder, id.held)
	}
	if how == Look {
		r.Allowed = p.Check(id.states, id.atMicros, costs, out)
	} else {
		r.Allowed = p.DecideAs(id.holder, id.states, id.atMicros, costs, out)
	}
	r.Over = r.Allowed && p.OthersPay(out)
	switch {
	case how == Look:
		changed = false
	case r.Allowed && len(costs) > 0 && slices.Max(costs) > 0:
		id.consumed, changed = byte(p.InUse(out, 255)), true
	case !r.Allowed && id.penalty != nil:
		r.EarnedMicros, changed = id.strike(), true
		algo.Earned(out, r.EarnedMicros)
	}
	return r, changed
}

// strike counts a rejection. An identity that has earned a block is one of those that
// would be given most if it were forgotten.
func (id *identity) strike() (earnedMicros int64) {
	id.penaltyState, earnedMicros = id.penalty.Strike(id.penaltyState, id.atMicros)
	if earnedMicros > 0 {
		id.consumed = 255
	}
	return earnedMicros
}
