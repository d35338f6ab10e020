package local

import (
	"encoding/binary"

	"github.com/sluiceproxy/sluice/algo"
)

// An entry is one identity's part of a page. On the wire:
//
//	fingerprint  16 bytes, of the tag
//	written      8 bytes, little endian: when it was last charged
//	lifetime     7 bytes, little endian: from written until it no longer matters
//	consumed     1 byte: the share of its capacity in use when written, of 255
//	size         uvarint, the bytes that follow
//	records      one for each limit, see record
//
// All times are in microseconds. All but the records are at fixed offsets, as a
// full page has about a hundred entries to look through.
type entry []byte

const (
	fingerprintSize = 16
	lifetimeOffset  = fingerprintSize + 8
	sizeOffset      = lifetimeOffset + 8
	// Bound: us that an entry matters. Beyond it, the entry ends then. Protects seven bytes of the
	// entry.
	maxLifetimeMicros = 1<<56 - 1 // over two thousand years
)

// fingerprint is the first 16 bytes of a tag's SHA-256. (As bytes, each
// comparison would allocate under TinyGo.)
type fingerprint struct{ lo, hi uint64 }

// nextEntry splits the first entry off a page's entries; ok is false at the end,
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
	return int64(binary.LittleEndian.Uint64(e[lifetimeOffset:]) & maxLifetimeMicros)
}

func (e entry) consumed() byte { return e[sizeOffset-1] }

func (e entry) records() reader {
	_, n := binary.Uvarint(e[sizeOffset:])
	return reader{rest: e[sizeOffset+n:]}
}

// appendEntry appends an entry.
func appendEntry(dst []byte, f fingerprint, writtenMicros, expiresMicros int64, consumed byte, records []byte) []byte {
	lifetime := uint64(min(max(expiresMicros-writtenMicros, 0), maxLifetimeMicros))
	dst = binary.LittleEndian.AppendUint64(dst, f.lo)
	dst = binary.LittleEndian.AppendUint64(dst, f.hi)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(writtenMicros))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(consumed)<<56|lifetime)
	dst = binary.AppendUvarint(dst, uint64(len(records)))
	return append(dst, records...)
}

// A record is one limit's state. On the wire:
//
//	algorithm, window in milliseconds, variant   uvarints, see algo.ID
//	expires      uvarint, zigzag: from the entry's written; 0: with the entry
//	size         uvarint, the bytes that follow
//	state        see appendState; the first is near the entry's written, the
//	             others are near expires
type record struct {
	id            algo.ID
	expiresMicros int64
	state         []byte
}

// record reads the next record of e; ok is false at the end, and where the bytes
// make no sense.
func (r *reader) record(e entry) (rec record, ok bool) {
	if len(r.rest) == 0 {
		return record{}, false
	}
	rec.id.Algorithm = algo.Algorithm(r.uvarint())
	rec.id.WindowMillis = r.uvarint()
	rec.id.Variant = r.uvarint()
	rec.expiresMicros = e.expiresMicros()
	if after := r.uvarint(); after != 0 {
		rec.expiresMicros = e.writtenMicros() + unzigzag(after)
	}
	size := r.uvarint()
	if r.failed || size > uint64(len(r.rest)) {
		return record{}, false
	}
	rec.state, r.rest = r.rest[:size:size], r.rest[size:]
	return rec, true
}

// appendRecord appends rec to an entry that was written at a known time and, unless
// that is 0, expires at another one.
func appendRecord(dst []byte, rec record, writtenMicros, entryExpiresMicros int64) []byte {
	dst = binary.AppendUvarint(dst, uint64(rec.id.Algorithm))
	dst = binary.AppendUvarint(dst, rec.id.WindowMillis)
	dst = binary.AppendUvarint(dst, rec.id.Variant)
	after := uint64(0)
	if rec.expiresMicros != entryExpiresMicros {
		after = max(zigzag(rec.expiresMicros-writtenMicros), 1)
	}
	dst = binary.AppendUvarint(dst, after)
	dst = binary.AppendUvarint(dst, uint64(len(rec.state)))
	return append(dst, rec.state...)
}
