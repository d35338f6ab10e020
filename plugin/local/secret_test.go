package local

import (
	"bytes"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
)

// Filters with other key prefixes or databases count apart.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	p, m := policy(t, algo.Limit{Algorithm: algo.GCRA, Units: 5, WindowMicros: hour}), newMemory()
	one, other := sized(m, Options{Namespace: "0:a"}), sized(m, Options{Namespace: "1:a"})
	take(t, one, p, "r|a", t0, 3)
	if out, _ := take(t, other, p, "r|a", t0, 0); out[0].Remaining != 5 {
		t.Errorf("%d remain in the other namespace, want 5", out[0].Remaining)
	}
	if out, _ := take(t, sized(m, Options{Namespace: "0:a"}), p, "r|a", t0, 0); out[0].Remaining != 2 {
		t.Errorf("%d remain in the same namespace, want 2", out[0].Remaining)
	}
}

// Which identities share a page is another thing in each process, so that it
// cannot be found out in advance.
func TestPagesDependOnASecret(t *testing.T) {
	t.Parallel()
	const tags = 100
	first, second := newStore(), newStore()
	same := 0
	for i := range tags {
		tag := string(rune('a' + i))
		if pageOfTag(t, first, tag) == pageOfTag(t, second, tag) {
			same++
		}
	}
	if same > 5 {
		t.Errorf("%d of %d tags have the same page in two processes", same, tags)
	}
}

// Workers that need the seed at once agree on one.
func TestWorkersShareTheSecret(t *testing.T) {
	t.Parallel()
	m := newMemory()
	first, second := sized(m, Options{}), sized(m, Options{})
	m.beside = func() {
		m.beside = nil
		pageOfTag(t, second, "r|a")
	}
	pageOfTag(t, first, "r|a")
	if !bytes.Equal(first.secret, second.secret) {
		t.Error("two workers have two secrets")
	}
	if m.data[seedKey] = (versioned{[]byte("garbage"), 9}); pageOfTag(t, sized(m, Options{}), "r|a") == "" {
		t.Error("no page")
	}
	if n := len(m.data[seedKey].value); n != seedSize {
		t.Errorf("the seed has %d bytes, want %d", n, seedSize)
	}
}
