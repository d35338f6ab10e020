package local

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/sha256"
	"github.com/sluiceproxy/sluice/plugin/text"
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

const (
	pageKeyPrefix = "sluice.local."
	pageKeyLen    = len(pageKeyPrefix) + 8 // with the page's number in hexadecimal
)

// Store is one worker's access to the counters in the shared data. Its methods
// are not safe for concurrent use, as a worker is one thread; any number of
// Stores may share their data.
type Store struct {
	shared    SharedData
	chance    rand.Source
	pageBytes int
	namespace string
	pages     uint32 // how many there are
	keys      string // theirs: one string, cut up, as a request must not allocate its key
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
	var keys strings.Builder
	keys.Grow(DefaultPages * pageKeyLen)
	for page := range DefaultPages {
		keys.WriteString(pageKeyPrefix)
		for shift := 28; shift >= 0; shift -= 4 {
			keys.WriteByte(text.LowerHex[page>>shift&15])
		}
	}
	return &Store{
		shared:    shared,
		chance:    chance,
		pageBytes: DefaultPageBytes,
		namespace: namespace,
		pages:     DefaultPages,
		keys:      keys.String(),
		hash:      sha256.New(),
		identity:  identity{holder: 1 + int64(chance.Uint64()>>33)}, // there are few workers
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
	id, r := &s.identity, s.begin(p, tag)
	for s.load(&r, nowMicros, penalty) {
		if p.OtherTime(id.atMicros) {
			return algo.Ruling{}, algo.ErrOtherTime
		}
		ruling, changed := algo.Ruling{AtMicros: id.atMicros}, false
		if penalty != nil {
			id.penaltyState, changed = penalty.Rebase(id.penaltyState, id.atMicros)
			ruling.LeftMicros = penalty.LeftMicros(id.penaltyState, id.atMicros)
		}
		if ruling.LeftMicros > 0 {
			ruling.By = algo.ByPenalty
		} else {
			changed = p.RebaseFor(id.states, id.atMicros, costs, out) || changed
			if _, ok := p.Slots(); ok {
				p.Renew(id.states, id.atMicros, id.holder, id.held)
			}
			if how == Look {
				ruling.Allowed = p.Check(id.states, id.atMicros, costs, out)
			} else {
				ruling.Allowed = p.DecideAs(id.holder, id.states, id.atMicros, costs, out)
			}
			ruling.Over = ruling.Allowed && p.OthersPay(out)
			switch {
			case how == Look:
				changed = false
			case ruling.Allowed && len(costs) > 0 && slices.Max(costs) > 0:
				id.consumed, changed = byte(p.InUse(out, 255)), true
			case !ruling.Allowed && penalty != nil:
				id.penaltyState, ruling.EarnedMicros = penalty.Strike(id.penaltyState, id.atMicros)
				if ruling.EarnedMicros > 0 { // nothing would be given more if it were forgotten
					id.consumed = 255
				}
				changed = true
				algo.Earned(out, ruling.EarnedMicros)
			}
		}
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
		if more || slots { // it has consumed more or less than it is known for
			zeros := s.nothing(p)
			for len(s.out) < len(zeros) {
				s.out = append(s.out, algo.Decision{})
			}
			p.Decide(id.states, id.atMicros, zeros, s.out)
			id.consumed = byte(p.InUse(s.out, 255))
		}
		if s.save(&r) {
			return nil
		}
	}
	return r.err
}

// In the state of a concurrency limit each worker has one entry: how many slots its requests
// hold. The worker writes it anew with each call, so that nothing is lost for long if the
// identity was evicted, or a call gave up. If a worker's VM dies, its entry ends with its ttl.

// Occupying says how many slots this worker occupies of the identity that the next call is
// about.
func (s *Store) Occupying(slots int64) { s.identity.held = slots }

// Occupy says how many slots of an identity this worker occupies: fewer than before, or as
// many as before, whose ttl begins anew.
func (s *Store) Occupy(p *algo.Plan, tag []byte, nowMicros, held int64) error {
	s.Occupying(held)
	return s.RefundEach(p, tag, 0, nowMicros, s.nothing(p))
}

// nothing is a cost of 0 for each limit of a plan.
func (s *Store) nothing(p *algo.Plan) []int64 {
	for len(s.zeros) < len(p.Limits()) {
		s.zeros = append(s.zeros, 0)
	}
	return s.zeros[:len(p.Limits())]
}
