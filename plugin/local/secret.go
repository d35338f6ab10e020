package local

import (
	"encoding/binary"
	"errors"
)

// seedKey is where the seed lies in the shared data: the first worker that needs
// it draws it, and it ends with the process, as the counters do.
//
// Pages are of a bounded size, and full ones evict. Could a client tell which
// identities share a page with a chosen one, it could drive that one's counter out
// with a few more.
const seedKey = "sluice.local.seed"

const seedSize = 32

// learnSecret makes, of the seed and the Store's namespace, what tags are hashed
// with. It draws the seed if there is none.
func (s *Store) learnSecret() error {
	for range maxRounds {
		seed, _, err := s.shared.Get(seedKey)
		if err == nil && len(seed) == seedSize {
			s.hash.Reset()
			s.hash.Write(seed)
			s.hash.Write([]byte(s.namespace))
			s.secret = s.hash.AppendSum(nil)
			return nil
		}
		cas := uint32(casCreate)
		if err == nil {
			cas = 0 // garbage, which no worker can use
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		seed = nil
		for range seedSize / 8 {
			seed = binary.LittleEndian.AppendUint64(seed, s.chance.Uint64())
		}
		if err := s.shared.Set(seedKey, seed, cas); err != nil && !errors.Is(err, ErrCASMismatch) {
			return err
		}
	}
	return ErrContended
}
