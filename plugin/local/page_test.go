package local

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// entryOf encodes an entry whose fingerprint is 16 times name.
func entryOf(name byte, writtenMicros, expiresMicros int64, consumed byte, records int) []byte {
	return appendEntry(nil, named(name), writtenMicros, expiresMicros, consumed, make([]byte, records))
}

func named(name byte) fingerprint {
	half := binary.LittleEndian.Uint64(bytes.Repeat([]byte{name}, 8))
	return fingerprint{half, half}
}

func pageOf(entries ...[]byte) []byte {
	return append([]byte{pageVersion}, bytes.Join(entries, nil)...)
}

// namesIn are the names of a page's entries, in its order.
func namesIn(page []byte) string {
	var names []byte
	e, rest, ok := nextEntry(entriesOf(page))
	for ; ok; e, rest, ok = nextEntry(rest) {
		names = append(names, e[0])
	}
	return string(names)
}

// entryIn is the entry of a fingerprint in a page; nil if it has none.
func entryIn(page []byte, f fingerprint) entry {
	for e, rest, ok := nextEntry(entriesOf(page)); ok; e, rest, ok = nextEntry(rest) {
		if e.is(f) {
			return e
		}
	}
	return nil
}

func TestEntry(t *testing.T) {
	t.Parallel()
	a := entryOf('a', t0, t0+1000, 7, 10)
	b := entryOf('b', t0-5, t0+2000, 255, 300)
	e := entryIn(pageOf(a, b), named('b'))
	testenv.SameList(t, "the entry", e, b)
	testenv.Same(t, "when it was written", e.writtenMicros(), t0-5)
	testenv.Same(t, "when it expires", e.expiresMicros(), t0+2000)
	testenv.Same(t, "what it has consumed", e.consumed(), 255)
	testenv.Same(t, "the length of its records", len(e.records().rest), 300)
	half := named('b')
	half.hi++
	for _, f := range []fingerprint{named('c'), half, {half.hi, named('b').hi}} {
		if entryIn(pageOf(a, b), f) != nil {
			t.Errorf("found %x, which is not there", f)
		}
	}
}

func TestPagesThatMakeNoSenseAreEmpty(t *testing.T) {
	t.Parallel()
	a := entryOf('a', t0, t0+1000, 7, 10)
	other := pageOf(a)
	other[0]++
	tooLong := slices.Clone(a)
	tooLong[len(tooLong)-11] = 11 // the size of its records
	for name, page := range map[string][]byte{
		"nothing":         nil,
		"only a version":  pageOf(),
		"another version": other,
		"cut short":       pageOf(a)[:len(a)],
		"cut in the head": pageOf(a)[:sizeOffset+1],
		"a size beyond":   pageOf(tooLong),
		"endless varint":  pageOf(append(a[:sizeOffset:sizeOffset], bytes.Repeat([]byte{0xff}, 20)...)),
	} {
		if got := namesIn(page); got != "" {
			t.Errorf("%s: holds %q, want nothing", name, got)
		}
	}
}

func TestPack(t *testing.T) {
	t.Parallel()
	const minute = 60_000_000
	fresh := entryOf('n', t0, t0+minute, 1, 10)
	size := len(fresh)
	long := entryOf('n', t0, t0+minute, 1, 500)
	other := entryOf('o', t0, t0+minute, 1, 500)
	entry := func(name byte, age, left int64, consumed byte) []byte {
		return entryOf(name, t0-age, t0+left, consumed, 10)
	}
	cases := []struct {
		name    string
		old     []byte
		fresh   []byte
		limit   int
		want    string
		evicted int
	}{
		{"into a new page", nil, fresh, 1000, "n", 0},
		{"beside another", pageOf(entry('a', 0, minute, 9)), fresh, 1000, "na", 0},
		{"in place of itself", pageOf(entry('a', 0, minute, 9), entry('n', 5, minute, 9)), fresh, 1000, "na", 0},
		{"nothing: removes itself", pageOf(entry('a', 0, minute, 9), entry('n', 5, minute, 9)), nil, 1000, "a", 0},
		{
			"expired ones go though there is room", pageOf(entry('a', minute, -graceMicros, 9), entry('b', 0, 1, 9)),
			fresh, 1000, "nb", 0,
		},
		{"expired ones stay for the grace", pageOf(entry('a', minute, 1-graceMicros, 9)), fresh, 1000, "na", 0},
		{
			"of no weight once expired", pageOf(entry('a', minute, -1, 255), entry('b', 0, minute, 1)), fresh,
			2*size + 1, "nb", 0,
		},
		{"the least consumed goes", pageOf(entry('a', 0, minute, 9), entry('b', 0, minute, 8)), fresh, 2*size + 1, "na", 1},
		{"not the new one", pageOf(entry('a', 0, minute, 9), entry('b', 0, minute, 8)), fresh, size + 1, "n", 2},
		{
			"what has recovered counts less", pageOf(entry('a', 9*minute, minute, 200), entry('b', 0, minute, 21)), fresh,
			2*size + 1, "nb", 1,
		},
		{
			"one from the future weighs what it consumed",
			pageOf(entry('a', -9*minute, 10*minute, 10), entry('b', 0, minute, 11)), fresh, 2*size + 1, "nb", 1,
		},
		{
			"of equals the oldest", pageOf(entry('a', 0, minute, 9), entry('b', minute, minute, 18)), fresh,
			2*size + 1, "na", 1,
		},
		{"one too long counts for half", pageOf(entry('a', 0, minute, 9)), long, 2*size + 2, "na", 0},
		{"also as a neighbour", pageOf(other, entry('b', 0, minute, 9)), fresh, 4*size + 2, "nob", 0},
		{"two too long are too many", pageOf(other), long, 4*size + 2, "n", 1},
		{"a version before", append([]byte{pageVersion + 1}, entry('a', 0, minute, 9)...), fresh, 1000, "n", 0},
	}
	var p packer
	for _, c := range cases {
		page, evicted := p.pack(c.old, named('n'), c.fresh, c.limit, t0)
		if got := namesIn(page); got != c.want || evicted != c.evicted {
			t.Errorf("%s: the page holds %q, %d evicted; want %q, %d", c.name, got, evicted, c.want, c.evicted)
		}
	}
}
