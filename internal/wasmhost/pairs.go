package wasmhost

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Pairs is a header map: names in lower case and values, in order, a name as
// often as it has values.
type Pairs [][2]string

// Request makes the headers of a request for example.com, followed by more
// names and values.
func Request(method, path string, namesAndValues ...string) Pairs {
	p := Pairs{{":method", method}, {":scheme", "http"}, {":authority", "example.com"}, {":path", path}}
	return p.with(namesAndValues)
}

// Response makes the headers of a response.
func Response(status string, namesAndValues ...string) Pairs {
	return Pairs{{":status", status}}.with(namesAndValues)
}

func (p Pairs) with(namesAndValues []string) Pairs {
	for pair := range slices.Chunk(namesAndValues, 2) {
		p = append(p, [2]string(pair))
	}
	return p
}

// Get is the first value of a name.
func (p Pairs) Get(name string) (value string, ok bool) {
	for _, pair := range p {
		if strings.EqualFold(pair[0], name) {
			return pair[1], true
		}
	}
	return "", false
}

func (p *Pairs) add(name, value string) {
	*p = append(*p, [2]string{strings.ToLower(name), value})
}

// set is Envoy's setCopy: all values go, and the new one comes last.
func (p *Pairs) set(name, value string) {
	p.remove(name)
	p.add(name, value)
}

func (p *Pairs) remove(name string) {
	*p = slices.DeleteFunc(*p, func(pair [2]string) bool { return strings.EqualFold(pair[0], name) })
}

// marshal writes the ABI's form: the number of pairs, the lengths of each name
// and value, then each name and value with a NUL behind it.
func (p Pairs) marshal() []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(p)))
	for _, pair := range p {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(pair[0])))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(pair[1])))
	}
	for _, pair := range p {
		b = append(append(b, pair[0]...), 0)
		b = append(append(b, pair[1]...), 0)
	}
	return b
}

const maxPairs = 1024 // PROXY_WASM_HOST_PAIRS_MAX_COUNT

// unmarshal reads what marshal writes. As in Envoy anything else is no pairs.
func unmarshal(b []byte) Pairs {
	if len(b) < 4 {
		return nil
	}
	n := int(binary.LittleEndian.Uint32(b))
	sizes := b[4:]
	if n > maxPairs || 8*n > len(sizes) {
		return nil
	}
	rest := sizes[8*n:]
	take := func(i int) (string, bool) {
		size := uint64(binary.LittleEndian.Uint32(sizes[4*i:]))
		if size >= uint64(len(rest)) || rest[size] != 0 {
			return "", false
		}
		s := string(rest[:size])
		rest = rest[size+1:]
		return s, true
	}
	p := make(Pairs, n)
	for i := range p {
		for j := range p[i] {
			s, ok := take(2*i + j)
			if !ok {
				return nil
			}
			p[i][j] = s
		}
	}
	if len(rest) != 0 {
		return nil
	}
	return p
}
