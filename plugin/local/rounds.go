package local

import (
	"encoding/binary"
	"errors"

	"github.com/sluiceproxy/sluice/algo"
)

// ErrContended says that other workers wrote the page first, maxRounds times in
// a row. Nothing was charged; the failure policy decides.
var ErrContended = errors.New("local: the page is written by too many workers at once")

// maxRounds bounds the rounds of compare-and-swap of one call. Each lost round
// is another worker's success, so a call of one of n workers that do nothing
// else needs about n; this many lost in a row means that something is wrong.
//
// Bound: lost rounds of compare-and-swap in a row. Beyond it, the failure mode decides. Protects
// the worker from standing still.
const maxRounds = 1000

// casCreate creates a key unless it exists: Set ignores the version of a key
// that does not exist, and no existing key has this one. (Envoy counts versions
// from 1 and wraps: the key would have to be the 4,294,967,295th write of the
// process and be created by two workers at once, and then one charge is lost.)
const casCreate = 1<<32 - 1

// rounds are the tries of one call to change an identity's entry: each reads the page,
// and writes it if no other worker has in between.
type rounds struct {
	plan  *algo.Plan
	key   string // of the page
	tries int
	page  []byte // as it was read
	cas   uint32
	found bool  // the identity has an entry
	err   error // why there is no further round
}

// begin makes the identity that tag names the one at hand. Page and fingerprint
// are different bytes of one SHA-256, so no client can make two identities that share a
// fingerprint. The hash covers a secret, so no client can tell which identities share a page.
// (A Sum256 here would allocate three times under TinyGo.)
func (s *Store) begin(p *algo.Plan, tag []byte) (r rounds) {
	r.plan = p
	if s.secret == nil {
		if r.err = s.learnSecret(); r.err != nil {
			return r
		}
	}
	s.hash.Reset()
	s.hash.Write(s.secret)
	s.hash.Write(tag)
	s.digest = s.hash.AppendSum(s.digest[:0])
	word := binary.LittleEndian
	s.identity.fingerprint = fingerprint{word.Uint64(s.digest), word.Uint64(s.digest[8:])}
	page := int(word.Uint32(s.digest[fingerprintSize:])%s.pages) * pageKeyLen
	r.key = s.keys[page : page+pageKeyLen]
	return r
}

// load begins a round: it reads the identity at hand. It reports whether it could; else
// the rounds' error says why not.
func (s *Store) load(r *rounds, nowMicros int64, penalty *algo.Penalty) bool {
	if r.tries == maxRounds {
		r.err = ErrContended
	}
	if r.err != nil {
		return false
	}
	r.tries++
	r.page, r.cas, r.err = s.shared.Get(r.key)
	if errors.Is(r.err, ErrNotFound) {
		r.page, r.cas, r.err = nil, casCreate, nil
	}
	if r.err != nil {
		return false
	}
	r.found = s.identity.load(r.plan, r.page, nowMicros, penalty)
	return true
}

// save ends a round: it writes the identity back. It reports whether it is written;
// another round may follow if not.
func (s *Store) save(r *rounds) bool {
	id := &s.identity
	fresh := id.encode(r.plan, s.pageBytes-1)
	page, evicted := s.packer.pack(r.page, id.fingerprint, fresh, s.pageBytes, id.atMicros)
	err := s.shared.Set(r.key, page, r.cas)
	if err == nil {
		s.evictions += uint64(evicted)
		return true
	}
	if !errors.Is(err, ErrCASMismatch) {
		r.err = err
	}
	return false
}
