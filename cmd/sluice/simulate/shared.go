package simulate

import "github.com/sluiceproxy/sluice/plugin/local"

// sharedData is the memory that the workers of one Envoy share.
type sharedData map[string]versioned

type versioned struct {
	value []byte
	cas   uint32
}

// Get implements local.SharedData.
func (s sharedData) Get(key string) ([]byte, uint32, error) {
	v, ok := s[key]
	if !ok {
		return nil, 0, local.ErrNotFound
	}
	return append([]byte(nil), v.value...), v.cas, nil
}

// Set implements local.SharedData.
func (s sharedData) Set(key string, value []byte, cas uint32) error {
	before, ok := s[key]
	if ok && cas != 0 && cas != before.cas {
		return local.ErrCASMismatch
	}
	s[key] = versioned{append([]byte(nil), value...), before.cas + 1}
	return nil
}
