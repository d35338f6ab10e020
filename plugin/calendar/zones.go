package calendar

import (
	_ "embed"
	"encoding/binary"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// zones is the file that cmd/zones writes:
//
//	the release, and a line's end
//	steps: their number; then each, the most frequent first: minutes since the step
//	       before, and by how many the clocks then change
//	zones: their number; then each: its length in bytes; its offset from UTC at the
//	       beginning of 1988, in minutes; the number of its steps, and of each
//	       its place among the steps; then its rule, if it has one: two offsets
//	       in minutes, standard time first, and when the second begins and ends,
//	       see yearly
//	names: in order, each: how many bytes it shares with the one before, how many
//	       follow, those, and the place of its zone
//
// Numbers are varints, signed ones as encoding/binary has them.
//
//go:embed zones.bin
var zones string

// firstSecond is the beginning of 1988: what was before is not known.
const firstSecond = 567_993_600

// Release is the tzdata release that the zones come from, such as "2025c".
func Release() string {
	release, _, _ := strings.Cut(zones, "\n")
	return release
}

// Zone is a time zone.
type Zone struct {
	first int64        // offset from UTC before all transitions, in seconds
	list  []transition // in order
	rule  *rule        // from the last of them on; nil: it stays as it is
}

// transition is a moment at which a zone's offset changes.
type transition struct{ at, offset int64 } // seconds

// Known reports whether there is a zone of an IANA name.
func Known(name string) bool {
	_, ok := index(name)
	return ok
}

// Find is the zone of an IANA name, such as "Europe/Berlin", and whether there is
// one.
func Find(name string) (z *Zone, ok bool) {
	at, ok := index(name)
	if !ok {
		return nil, false
	}
	r := reader{zones[len(Release())+1:]}
	steps := make([]transition, r.uvarint())
	for i := range steps {
		steps[i] = transition{int64(r.uvarint()) * 60, r.varint() * 60}
	}
	r.uvarint() // number of zones
	for range at {
		r.text(r.uvarint())
	}
	r = reader{r.text(r.uvarint())}
	z = &Zone{first: r.varint() * 60}
	last := transition{firstSecond, z.first}
	for range r.uvarint() {
		step := steps[r.uvarint()]
		last.at += step.at
		last.offset += step.offset
		z.list = append(z.list, last)
	}
	if len(r.rest) > 0 {
		z.rule = &rule{standard: r.varint() * 60, daylight: r.varint() * 60, begins: r.yearly(), ends: r.yearly()}
	}
	return z, true
}

func (r *reader) yearly() yearly {
	return yearly{month: int(r.uvarint()), week: int(r.uvarint()), weekday: int(r.uvarint()), second: r.varint() * 60}
}

// index is the place of a name's zone.
func index(name string) (at uint64, ok bool) {
	walk(func(candidate []byte, place uint64) bool {
		at, ok = place, string(candidate) == name
		return !ok
	})
	return at, ok
}

// walk calls f with each name, in order, until it returns false. A name is good during
// the call only: a configuration may have thousands of calendars.
func walk(f func(name []byte, place uint64) bool) {
	r := reader{zones[len(Release())+1:]}
	for range r.uvarint() {
		r.uvarint()
		r.varint()
	}
	for range r.uvarint() {
		r.text(r.uvarint())
	}
	var name []byte
	for len(r.rest) > 0 {
		name = append(name[:r.uvarint()], r.text(r.uvarint())...)
		if !f(name, r.uvarint()) {
			return
		}
	}
}

// reader reads zones, which are known to be whole: a test reads them all.
type reader struct{ rest string }

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(text.Bytes(r.rest))
	r.rest = r.rest[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(text.Bytes(r.rest))
	r.rest = r.rest[n:]
	return v
}

func (r *reader) text(n uint64) string {
	read := r.rest[:n]
	r.rest = r.rest[n:]
	return read
}
