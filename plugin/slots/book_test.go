package slots

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

const (
	ms  = 1000
	ttl = 30_000 * ms
)

// renewals notes when each slot was renewed, by its nonce, and how many calls that took.
type renewals struct {
	now   int64
	at    map[int64][]int64
	calls map[string]int // by tag
	step  int            // slots that this step has renewed
	most  int            // that any has
}

func (r *renewals) RenewSlots(id *Identity, due []*Slot) {
	r.calls[string(id.Tag)]++
	r.step += len(due)
	r.most = max(r.most, r.step)
	for _, s := range due {
		r.at[s.Nonce] = append(r.at[s.Nonce], r.now)
	}
}

// run lets time pass, with ticks when they are asked for, each late by up to a few ms.
func (r *renewals) run(b *Book, until int64, late func() int64) {
	for next := b.NextMicros(r.now); next > 0 && r.now+next <= until; next = b.NextMicros(r.now) {
		r.now += next + late()
		r.step = 0
		b.Renew(r.now, r)
	}
	r.now = until
}

// TestEverySlotIsRenewedInTime: slots of many identities, taken at any time, are each
// renewed at least every third of the ttl, those of one identity together, and spread
// over the time.
func TestEverySlotIsRenewedInTime(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	b, r := New([]int64{0, ttl}, 1), &renewals{at: map[int64][]int64{}, calls: map[string]int{}}
	var all []*Slot
	taken := map[int64]int64{}
	for nonce := range int64(3000) {
		r.run(b, r.now+random.Int64N(5*ms), func() int64 { return random.Int64N(8 * ms) })
		s := &Slot{Nonce: nonce, Slots: 1}
		b.Occupy(s, 1, fmt.Appendf(nil, "r|%d", nonce%300), nonce%7 == 0, r.now)
		all, taken[nonce] = append(all, s), r.now
	}
	perStep := map[int64]int{}
	end := r.now + 3*ttl
	r.run(b, end, func() int64 { return random.Int64N(8 * ms) })
	for nonce, times := range r.at {
		last := taken[nonce]
		for _, at := range append(times, end) {
			if at-last > ttl/3 {
				t.Fatalf("slot %d was renewed %d ms after the last time", nonce, (at-last)/ms)
			}
			if last = at; at != end {
				perStep[at/(ttl/5/places)]++
			}
		}
	}
	if len(r.at) != len(all) {
		t.Errorf("%d of %d slots were renewed", len(r.at), len(all))
	}
	if n := r.calls["r|1"]; n > 50 {
		t.Errorf("%d calls renewed the 10 slots of an identity", n)
	}
	for step, n := range perStep {
		if n > 3000/places*3 {
			t.Errorf("%d slots were renewed in step %d", n, step)
		}
	}
	if got := b.InFlight(1); got != 3000 {
		t.Errorf("%d requests are in flight", got)
	}
	for _, i := range random.Perm(len(all)) {
		b.Vacate(all[i])
	}
	testenv.Same(t, "requests in flight after the last", b.InFlight(1), 0)
	testenv.Same(t, "identities after the last", b.size, 0)
	testenv.Same(t, "the next tick after the last", b.NextMicros(r.now), 0)
	testenv.Same(t, "that a renewal is due after the last", b.Due(r.now+ttl), false)
}

// TestShortRequestsAreNotRenewed: they cost nothing but their place in the book.
func TestShortRequestsAreNotRenewed(t *testing.T) {
	t.Parallel()
	b, r := New([]int64{ttl}, 1), &renewals{at: map[int64][]int64{}, calls: map[string]int{}}
	held := []*Slot{}
	for nonce := range int64(20_000) {
		r.run(b, r.now+5*ms, func() int64 { return 0 })
		s := &Slot{Nonce: nonce, Slots: 1}
		b.Occupy(s, 0, fmt.Appendf(nil, "r|%d", nonce%50), false, r.now)
		if held = append(held, s); len(held) > 400 { // for two seconds
			b.Vacate(held[0])
			held = held[1:]
		}
	}
	if len(r.at) > 0 {
		t.Errorf("%d slots were renewed", len(r.at))
	}
}

// TestHurry: when Redis may have lost them, all slots are renewed at once.
func TestHurry(t *testing.T) {
	t.Parallel()
	b, r := New([]int64{ttl, 5_000 * ms}, 1), &renewals{at: map[int64][]int64{}, calls: map[string]int{}}
	b.Hurry() // of what is held, not of what comes
	if b.Due(r.now) {
		t.Error("a hurry about nothing")
	}
	for nonce := range int64(200) {
		b.Occupy(&Slot{Nonce: nonce, Slots: 1}, rule.LimitSetID(nonce%2), fmt.Appendf(nil, "r|%d", nonce), false, r.now)
	}
	b.Hurry()
	r.run(b, r.now+200*ms, func() int64 { return 0 })
	if len(r.at) != 200 {
		t.Errorf("%d of 200 slots were renewed in 200 ms", len(r.at))
	}
	r.run(b, r.now+150*ms, func() int64 { return 0 })
	for nonce, times := range r.at {
		if len(times) > 1 {
			t.Errorf("slot %d was renewed at %d", nonce, times)
		}
	}
}

// TestHeld: what is held is summed up for an identity in one of the stores.
func TestHeld(t *testing.T) {
	t.Parallel()
	b, random := New([]int64{ttl, ttl}, 1), rand.New(rand.NewPCG(3, 4))
	type whose struct {
		set      rule.LimitSetID
		tag      string
		embedded bool
	}
	want, all := map[whose]int64{}, map[*Slot]whose{}
	for range 5000 {
		w := whose{rule.LimitSetID(random.IntN(2)), fmt.Sprint("r|", random.IntN(40)), random.IntN(2) == 0}
		var s *Slot // any that is held
		for s = range all {
			break
		}
		if s != nil && random.IntN(2) == 0 {
			w = all[s]
			want[w] -= s.Slots
			delete(all, s)
			if left := b.Vacate(s).Slots; left != want[w] || s.Held() {
				t.Fatalf("%+v: %d left, want %d", w, left, want[w])
			}
			continue
		}
		s = &Slot{Slots: 1 + random.Int64N(3)}
		b.Occupy(s, w.set, []byte(w.tag), w.embedded, 0)
		all[s] = w
		if want[w] += s.Slots; b.Held(w.set, []byte(w.tag), w.embedded) != want[w] {
			t.Fatalf("%+v: %d held, want %d", w, b.Held(w.set, []byte(w.tag), w.embedded), want[w])
		}
	}
}
