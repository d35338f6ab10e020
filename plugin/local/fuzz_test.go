package local

import (
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
)

// Whatever a page holds, a Take and a Refund succeed, leave a well-formed page,
// and the identity's charge is found again. data is the whole page, or else the
// records in the entry of the identity that asks.
func FuzzPage(f *testing.F) {
	limits := []algo.Limit{
		limitsOf(5, second)["fixed_window"],
		limitsOf(5, minute)["fixed_window first"],
		limitsOf(5, second)["sliding_window_log"],
		limitsOf(5, second)["sliding_window_counter5"],
		limitsOf(5, second)["token_bucket"],
		limitsOf(5, second)["leaky_bucket queue"],
		limitsOf(5, second)["gcra"],
	}
	p := policy(f, limits...)
	m := newMemory()
	s := sized(m, Options{Pages: 1})
	key, seed := pageOfTag(f, s, "r|a"), m.data[seedKey]
	fingerprint := s.identity.fingerprint
	f.Add([]byte(nil), true, t0)
	f.Add([]byte{pageVersion}, true, t0)
	f.Add([]byte{1, 1, 0, 0, 100}, false, t0) // a record of 100 bytes that are not there
	for i := range int64(3) {
		take(f, s, p, "r|a", t0+i*1000, 1)
		take(f, s, p, "r|b", t0+i*1000, 2)
		page := m.data[key].value
		e := entryIn(page, fingerprint)
		f.Add(slices.Clone(page), true, t0+i*1000)
		f.Add(slices.Clone(e.records().rest), false, t0+i*1000)
	}
	f.Fuzz(func(t *testing.T, data []byte, whole bool, now int64) {
		if !whole {
			data = append([]byte{pageVersion}, appendEntry(nil, fingerprint, now, now+second, 9, data)...)
		}
		m := newMemory()
		m.data[seedKey], m.data[key] = seed, versioned{data, 1}
		s := sized(m, Options{Pages: 1})
		out := make([]algo.Decision, len(limits))
		r, err := s.Decide(p, []byte("r|a"), now, p.Each(1), out, Charge)
		if err != nil {
			t.Fatal(err)
		}
		if r.Allowed {
			// The page is well formed, and starts with the entry of the identity.
			page := m.data[key].value
			e, rest, ok := nextEntry(entriesOf(page))
			if !ok || !e.is(fingerprint) {
				t.Fatalf("no entry of the identity in front of % x", page)
			}
			for ok {
				all := e.records()
				for _, whole := all.record(e); whole; {
					_, whole = all.record(e)
				}
				e, rest, ok = nextEntry(rest)
			}
			if len(rest) > 0 {
				t.Fatalf("%d bytes of % x are no entry", len(rest), page)
			}
		}
		if err := s.RefundEach(p, []byte("r|a"), r.AtMicros, now, p.Each(1)); err != nil {
			t.Fatal(err)
		}
	})
}
