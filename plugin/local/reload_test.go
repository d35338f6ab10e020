package local

import (
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
)

// recordsOf counts the records in the entry of a tag, and their bytes.
func recordsOf(t *testing.T, s *Store, m *memory, tag string) (n, size int) {
	t.Helper()
	key := pageOfTag(t, s, tag)
	e := entryIn(m.data[key].value, s.identity.fingerprint)
	r := e.records()
	for size = len(r.rest); ; n++ {
		if _, ok := r.record(e); !ok {
			return n, size
		}
	}
}

func TestALimitThatGrewGoesOnCounting(t *testing.T) {
	t.Parallel()
	grown := limitsOf(10, hour)
	for name, l := range limitsOf(5, hour) {
		s := newStore()
		take(t, s, policy(t, l), "r|a", t0, 4)
		out, _ := take(t, s, policy(t, grown[name]), "r|a", t0, 0)
		if capacity := out[0].Remaining; capacity >= policy(t, grown[name]).Limits()[0].Capacity() {
			t.Errorf("%s: %d remain: the limit started afresh", name, capacity)
		}
	}
}

// A client that changes between two tiers, or two workers before and after a
// reload, find each the counters they left.
func TestLimitsOfOtherTiersStay(t *testing.T) {
	t.Parallel()
	for name, l := range limitsOf(5, hour) {
		free, paid := policy(t, l), policy(t, limitsOf(5, 2*hour)[name])
		m := newMemory()
		s := sized(m, Options{})
		take(t, s, free, "r|a", t0, 3)
		take(t, s, paid, "r|a", t0+1, 2)
		wantFree, _ := take(t, newStore(), free, "r|b", t0, 3)
		got, _ := take(t, s, free, "r|a", t0+1, 0)
		if got[0].Remaining != wantFree[0].Remaining {
			t.Errorf("%s: %d remain in the first tier, want %d", name, got[0].Remaining, wantFree[0].Remaining)
		}
		if n, _ := recordsOf(t, s, m, "r|a"); n != 2 {
			t.Errorf("%s: %d records, want one of each tier", name, n)
		}
		take(t, s, paid, "r|a", t0+4*hour, 1)
		if n, _ := recordsOf(t, s, m, "r|a"); n != 1 {
			t.Errorf("%s: %d records, though the first tier's has expired", name, n)
		}
	}
}

// An entry is kept as long as the longest of its tiers matters.
func TestALongerTierKeepsTheEntry(t *testing.T) {
	t.Parallel()
	long := policy(t, algo.Limit{Algorithm: algo.FixedWindow, Units: 5, WindowMicros: 24 * hour})
	short := policy(t, algo.Limit{Algorithm: algo.FixedWindow, Units: 5, WindowMicros: second})
	s := sized(newMemory(), Options{Pages: 1})
	take(t, s, long, "r|a", t0, 3)
	take(t, s, short, "r|a", t0, 1)
	take(t, s, short, "r|b", t0+minute, 1)
	if out, _ := take(t, s, long, "r|a", t0+minute, 0); out[0].Remaining != 2 {
		t.Errorf("%d remain, want 2", out[0].Remaining)
	}
}

// The two kinds of fixed window do not read each other's state.
func TestTiersWithTwoKindsOfFixedWindow(t *testing.T) {
	t.Parallel()
	both := limitsOf(5, hour)
	clock, first := policy(t, both["fixed_window"]), policy(t, both["fixed_window first"])
	s := newStore()
	now := t0 + minute
	take(t, s, clock, "r|a", now, 3)
	take(t, s, first, "r|a", now, 2)
	for p, want := range map[*algo.Plan]int64{clock: 2, first: 3} {
		if out, _ := take(t, s, p, "r|a", now, 0); out[0].Remaining != want {
			t.Errorf("%+v: %d remain, want %d", p.Limits()[0], out[0].Remaining, want)
		}
	}
}

// Each reload with a new window leaves a record behind until it expires; their
// room is bounded all the same.
func TestRecordsOfManyReloadsAreBounded(t *testing.T) {
	t.Parallel()
	m := newMemory()
	s := sized(m, Options{})
	for i := range int64(500) {
		p := policy(t, algo.Limit{Algorithm: algo.FixedWindow, Units: 9, WindowMicros: 24*hour + i*1000})
		if _, allowed := take(t, s, p, "r|a", t0, 9); !allowed {
			t.Fatalf("reload %d: denied", i)
		}
		if out, allowed := take(t, s, p, "r|a", t0, 1); allowed {
			t.Fatalf("reload %d: admitted: %+v", i, out)
		}
	}
	n, size := recordsOf(t, s, m, "r|a")
	if size > maxOthersBytes+100 || n < 20 {
		t.Errorf("%d records in %d bytes", n, size)
	}
}

func TestAPageOfAnotherVersionIsEmpty(t *testing.T) {
	t.Parallel()
	p := policy(t, algo.Limit{Algorithm: algo.GCRA, Units: 5, WindowMicros: hour})
	m := newMemory()
	s := sized(m, Options{Pages: 1})
	take(t, s, p, "r|a", t0, 5)
	key := pageOfTag(t, s, "r|a")
	m.data[key].value[0]++
	if out, _ := take(t, s, p, "r|a", t0, 1); out[0].Remaining != 4 {
		t.Errorf("%d remain, want 4: a fresh start", out[0].Remaining)
	}
	if m.data[key].value[0] != pageVersion {
		t.Error("the page was not written in this version")
	}
}

// sixteen is the most limits a rule may have, all alike but for the window.
func sixteen(l algo.Limit) []algo.Limit {
	limits := make([]algo.Limit, algo.MaxLimits)
	for i := range limits {
		limits[i] = l
		limits[i].WindowMicros -= int64(i) * 60_000
	}
	return limits
}

// The longest record there can be does not fit a page. It is kept all the same,
// among others, and is decided as the algorithms do.
func TestARecordLongerThanAPage(t *testing.T) {
	t.Parallel()
	counter := algo.Limit{
		Algorithm: algo.SlidingWindowCounter, Units: algo.MaxUnits,
		WindowMicros: algo.MaxWindowMicros, SubWindows: algo.MaxSubWindows,
	}
	p, m, states := policy(t, sixteen(counter)...), newMemory(), make([]algo.State, algo.MaxLimits)
	s := sized(m, Options{Pages: 1})
	small := policy(t, algo.Limit{Algorithm: algo.GCRA, Units: 10, WindowMicros: hour})
	want := make([]algo.Decision, algo.MaxLimits)
	for i := range int64(3 * algo.MaxSubWindows) {
		now, cost := t0+i*(counter.WindowMicros/algo.MaxSubWindows), int64(algo.MaxUnits/algo.MaxSubWindows)
		take(t, s, small, "r|b", now, 1)
		got, allowed := take(t, s, p, "r|a", now, cost)
		if p.Decide(states, now, p.Each(cost), want) != allowed || !slices.Equal(got, want) {
			t.Fatalf("request %d:\ngot  %+v\nwant %+v", i, got, want)
		}
	}
	if _, largest := m.size(); largest <= DefaultPageBytes || largest > 16<<10 {
		t.Errorf("the page has %d bytes, want more than it should have and less than 16 KiB", largest)
	}
}

// Logs are made coarser until the record fits.
func TestManyLogsFitAPage(t *testing.T) {
	t.Parallel()
	log := algo.Limit{Algorithm: algo.SlidingWindowLog, Units: 2000, WindowMicros: minute}
	p, m := policy(t, sixteen(log)...), newMemory()
	s := sized(m, Options{Pages: 1})
	for i := range int64(2000) {
		out, allowed := take(t, s, p, "r|a", t0+i, 1)
		if !allowed || out[15].Remaining != 2000-i-1 {
			t.Fatalf("request %d: allowed %v, %+v", i, allowed, out[15])
		}
	}
	if _, allowed := take(t, s, p, "r|a", t0+2000, 1); allowed {
		t.Error("one more than the limit was admitted")
	}
	if _, largest := m.size(); largest > DefaultPageBytes {
		t.Errorf("the page has %d bytes", largest)
	}
}

// Tiers, or Envoys before and after a rollout, with other sub-windows do not
// destroy each other's counts.
func TestTiersWithOtherSubWindows(t *testing.T) {
	t.Parallel()
	both := limitsOf(5, hour)
	one, five := policy(t, both["sliding_window_counter"]), policy(t, both["sliding_window_counter5"])
	s := newStore()
	admitted := 0
	for i := range int64(40) {
		p := []*algo.Plan{one, five}[i%2]
		if _, allowed := take(t, s, p, "r|a", t0+i, 1); allowed {
			admitted++
		}
	}
	if admitted != 10 {
		t.Errorf("%d admitted, want 5 by each of the two", admitted)
	}
}

// A clock that was a year ahead for a moment locks no client out for longer than the
// limit needs, nor does what was charged then count for nothing.
func TestAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * hour
	for name, l := range limitsOf(5, minute) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p := newStore(), policy(t, l)
			capacity := p.Limits()[0].Capacity()
			take(t, s, p, "r|a", t0+year, capacity)
			out, allowed := take(t, s, p, "r|a", t0, 1)
			if l.Algorithm == algo.FixedWindow && !l.FromFirstRequest {
				return // a window of the year ahead says nothing of this one
			}
			if allowed {
				t.Fatalf("what was charged ahead does not count: %+v", out[0])
			}
			if out[0].RetryAfterMicros > 2*minute {
				t.Errorf("the wait is %d us, want at most two windows", out[0].RetryAfterMicros)
			}
			if out, allowed := take(t, s, p, "r|a", t0+2*minute, capacity); !allowed {
				t.Errorf("two windows later: %+v", out[0])
			}
		})
	}
}
