package wasmhost

import (
	"bytes"
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

// unmarshal reads what marshal writes. As in Envoy anything else is no pairs: what was read is
// written once more, and compared.
func unmarshal(b []byte) Pairs {
	if len(b) < 4 {
		return nil
	}
	n := int(binary.LittleEndian.Uint32(b))
	if n > maxPairs || 4+8*n > len(b) {
		return nil
	}
	sizes, rest := b[4:], b[4+8*n:]
	p := make(Pairs, n)
	for i := range p {
		for j := range p[i] {
			size := min(int(binary.LittleEndian.Uint32(sizes)), len(rest))
			p[i][j] = string(rest[:size])
			sizes, rest = sizes[4:], rest[min(size+1, len(rest)):]
		}
	}
	if !bytes.Equal(p.marshal(), b) {
		return nil
	}
	return p
}
