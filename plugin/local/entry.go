package local

import (
	"encoding/binary"

	"github.com/sluiceproxy/sluice/algo"
)

// An entry is what a slot holds of one identity. On the wire:
//
//	fingerprint  16 bytes, of the tag
//	written      8 bytes, little endian: when it was last charged
//	lifetime     7 bytes, likewise: from written until it no longer matters
//	consumed     1 byte: the share of its capacity in use when written, of 255
//	size         uvarint, the bytes that follow
//	records      one for each limit, see record
//
// All times are in microseconds. All but the records are at fixed offsets, as a
// full slot has about a hundred entries to look through.
type entry []byte

const (
	fingerprintSize = 16
	lifetimeOffset  = fingerprintSize + 8
	sizeOffset      = lifetimeOffset + 8
	maxLifetime     = 1<<56 - 1 // over two thousand years
)

// fingerprint is the first 16 bytes of a tag's SHA-256. (As bytes, each
// comparison would allocate under TinyGo.)
type fingerprint struct{ lo, hi uint64 }

func fingerprintOf(digest []byte) fingerprint {
	return fingerprint{binary.LittleEndian.Uint64(digest), binary.LittleEndian.Uint64(digest[8:])}
}

// nextEntry splits the first entry off a slot's entries; ok is false at the end,
// and where the bytes make no sense.
func nextEntry(entries []byte) (e entry, rest []byte, ok bool) {
	if len(entries) <= sizeOffset {
		return nil, nil, false
	}
	size, n := binary.Uvarint(entries[sizeOffset:])
	if n <= 0 || size > uint64(len(entries)-sizeOffset-n) {
		return nil, nil, false
	}
	end := sizeOffset + n + int(size)
	return entry(entries[:end]), entries[end:], true
}

func (e entry) is(f fingerprint) bool {
	return binary.LittleEndian.Uint64(e) == f.lo && binary.LittleEndian.Uint64(e[8:]) == f.hi
}

func (e entry) writtenMicros() int64 {
	return int64(binary.LittleEndian.Uint64(e[fingerprintSize:]))
}

func (e entry) expiresMicros() int64 {
	return e.writtenMicros() + e.lifetime()
}

func (e entry) lifetime() int64 {
	return int64(binary.LittleEndian.Uint64(e[lifetimeOffset:]) & maxLifetime)
}

func (e entry) consumed() byte { return e[sizeOffset-1] }

func (e entry) records() []byte {
	_, n := binary.Uvarint(e[sizeOffset:])
	return e[sizeOffset+n:]
}

// weight is what is presumably left of what the identity consumed, of 255, if
// it recovers evenly until the entry expires: what it would be given for
// nothing if the entry were dropped now.
func (e entry) weight(nowMicros int64) float64 {
	lifetime := e.lifetime()
	left := min(e.expiresMicros()-nowMicros, lifetime)
	if left <= 0 {
		return 0
	}
	return float64(e.consumed()) * float64(left) / float64(lifetime)
}

// appendEntry appends an entry.
func appendEntry(dst []byte, f fingerprint, writtenMicros, expiresMicros int64, consumed byte, records []byte) []byte {
	lifetime := uint64(min(max(expiresMicros-writtenMicros, 0), maxLifetime))
	dst = binary.LittleEndian.AppendUint64(dst, f.lo)
	dst = binary.LittleEndian.AppendUint64(dst, f.hi)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(writtenMicros))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(consumed)<<56|lifetime)
	dst = binary.AppendUvarint(dst, uint64(len(records)))
	return append(dst, records...)
}

// limitID says whose a state is. A limit goes on with the state of one that has
// the same ID, as it would with the same key in Redis, so that a change of its
// size (limit, burst, sub-windows) does not start everybody afresh.
type limitID struct {
	algorithm    algo.Algorithm
	windowMillis uint64
	variant      uint64 // 1 for a fixed window that starts with its first request, else 0
}

func idOf(l *algo.Limit) limitID {
	id := limitID{algorithm: l.Algorithm, windowMillis: uint64(l.WindowMicros / 1000)}
	if l.FromFirstRequest {
		id.variant = 1
	}
	return id
}

// A record is one limit's state. On the wire:
//
//	algorithm, window in milliseconds, variant   uvarints, see limitID
//	expires      uvarint, zigzag: from the entry's written
//	size         uvarint, the bytes that follow
//	state        see appendState; its base is expires
type record struct {
	id            limitID
	expiresMicros int64
	state         []byte
}

// record reads the next record of an entry; ok is false at the end, and where
// the bytes make no sense.
func (r *reader) record(writtenMicros int64) (rec record, ok bool) {
	if len(r.rest) == 0 {
		return record{}, false
	}
	rec.id.algorithm = algo.Algorithm(r.uvarint())
	rec.id.windowMillis = r.uvarint()
	rec.id.variant = r.uvarint()
	rec.expiresMicros = writtenMicros + unzigzag(r.uvarint())
	rec.state = r.bytes(r.uvarint())
	return rec, !r.failed
}

// appendRecord appends rec to an entry.
func appendRecord(dst []byte, rec record, writtenMicros int64) []byte {
	dst = binary.AppendUvarint(dst, uint64(rec.id.algorithm))
	dst = binary.AppendUvarint(dst, rec.id.windowMillis)
	dst = binary.AppendUvarint(dst, rec.id.variant)
	dst = binary.AppendUvarint(dst, zigzag(rec.expiresMicros-writtenMicros))
	dst = binary.AppendUvarint(dst, uint64(len(rec.state)))
	return append(dst, rec.state...)
}
