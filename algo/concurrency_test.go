package algo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const testTTL = 30e6

func slotLimit(units int64) Limit {
	return Limit{Algorithm: Concurrency, Units: units, TTLMicros: testTTL}
}

// TestConcurrencyByDefinition: slots are held that were admitted, not given back, and
// neither older than its ttl nor renewed. Written down anew, with random requests,
// releases (twice, too), and renewals.
func TestConcurrencyByDefinition(t *testing.T) {
	t.Parallel()
	r := newRandom(4711)
	for range 300 {
		l := r.limit(Concurrency)
		type held struct{ nonce, slots, end int64 }
		p, states, out := mustPlan(t, l), make([]State, 1), make([]Decision, 1)
		now, all := epoch+r.Int64N(1e15), []held(nil)
		for nonce := range int64(150) {
			now += r.step(&l, out[0], now)
			all = slices.DeleteFunc(all, func(h held) bool { return h.end <= now })
			p.Rebase(states, now)
			if i := r.IntN(len(all) + 1); i < len(all) && r.oneIn(2) {
				if h := &all[i]; r.oneIn(3) {
					h.end = now + l.TTLMicros
					p.Renew(states, now, h.nonce, h.slots)
				} else {
					p.RefundAs(h.nonce, states, now, now, []int64{h.slots})
					p.RefundAs(h.nonce, states, now, now, []int64{h.slots})
					all = slices.Delete(all, i, i+1)
				}
				continue
			}
			used := int64(0)
			for _, h := range all {
				used += h.slots
			}
			cost := r.cost(l.Units)
			if got, want := p.DecideAs(nonce, states, now, []int64{cost}, out), used+cost <= l.Units || cost == 0; got != want {
				t.Fatalf("%+v with %d in use: cost %d is allowed: %v", l, used, cost, got)
			}
			if out[0].Allowed && cost > 0 {
				all, used = append(all, held{nonce, cost, now + l.TTLMicros}), used+cost
			}
			if want := max(l.Units-used, 0); out[0].Remaining != want || out[0].ResetAfterMicros != 0 {
				t.Fatalf("%+v with %d in use: %+v", l, used, out[0])
			}
		}
		if t.Failed() {
			return
		}
	}
}

// TestConcurrencyCapacity: at one instant a limit of L admits exactly L.
func TestConcurrencyCapacity(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for capacity := int64(1); capacity <= capacities; capacity += 37 {
		l := inBatch(t, client)
		w, admitted := newTwins(t, l, mustPlan(t, slotLimit(capacity)), fmt.Sprint(capacity)), int64(0)
		for range capacity + 3 {
			w.nonce++
			if out, allowed := w.decide(t, epoch, 1); allowed {
				admitted++
			} else {
				testenv.Same(t, fmt.Sprintf("the wait for one of %d", capacity), out[0].RetryAfterMicros, 1e6)
			}
		}
		l.flush(t)
		testenv.Same(t, fmt.Sprintf("what a limit of %d admits", capacity), admitted, capacity)
		testenv.Same(t, "the entries", client.ZCard(ctx, w.keys[0]).Val(), capacity)
	}
}

// TestSlotsOfTheDead: slots that are not renewed are free after their ttl, and a clock
// that was a year ahead for a moment holds them for an hour at most.
func TestSlotsOfTheDead(t *testing.T) {
	t.Parallel()
	const year = 365 * 86400e6
	client := startRedis(t)
	for _, c := range []struct {
		name  string
		ahead int64 // of the clock, when the slots are taken
		free  int64 // us after which they are
	}{
		{name: "a ttl", free: testTTL},
		{name: "a clock set back", ahead: year, free: MaxTTLMicros},
	} {
		for _, cost := range []int64{1, 3} {
			t.Run(fmt.Sprintf("%s, cost %d", c.name, cost), func(t *testing.T) {
				t.Parallel()
				w := newTwins(t, onRedis(client), mustPlan(t, slotLimit(2*cost)), t.Name())
				for i, at := range []int64{epoch + c.ahead, epoch + c.ahead, epoch, epoch + c.free - 1, epoch + c.free} {
					w.nonce = int64(i)
					_, allowed := w.decide(t, at, cost)
					testenv.Same(t, fmt.Sprintf("step %d: that it is allowed", i), allowed, i < 2 || i == 4)
					if i == 3 {
						w.expire(t, func(ms []int64) {
							testenv.Same(t, "the key's expiry in ms", ms[0], (epoch+c.free)/1000)
						})
					}
				}
			})
		}
	}
}

// TestSlotGarbage: another program's data under the key is not an error.
func TestSlotGarbage(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for i, text := range garbage {
		for j, score := range []float64{1, -1, epoch + 1e6} {
			w := newTwins(t, onRedis(client), mustPlan(t, slotLimit(10)), fmt.Sprint(i, ",", j))
			testenv.OK(t, client.ZAdd(ctx, w.keys[0], redis.Z{Score: score, Member: text}).Err())
			for step := range int64(4) {
				w.nonce = step
				now := epoch + step*testTTL
				what := fmt.Sprintf("%q at %g, step %d", text, score, step)
				r, _, _, err := w.ruleInLua(t, now, costing(1+step))
				testenv.SameError(t, what, err, nil)
				testenv.Same(t, what+": that it is allowed", r.Allowed, true)
				_, err = w.settleInLua(t, now, charge{1, step, []int64{1 + step}})
				testenv.SameError(t, what, err, nil)
			}
		}
	}
}

// TestOneSlotIsOneEntry: an operator sees with ZCARD what is in flight.
func TestOneSlotIsOneEntry(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	w := newTwins(t, onRedis(client), mustPlan(t, slotLimit(9)), "entries")
	for range 4 {
		w.nonce++
		w.decide(t, epoch, 1)
	}
	entries := client.ZRangeWithScores(ctx, w.keys[0], 0, -1).Val()
	if len(entries) != 4 {
		t.Fatalf("%d entries, want 4: %v", len(entries), entries)
	}
	member, _, _ := strings.Cut(entries[0].Member.(string), ":")
	testenv.Same(t, "the nonce of the first entry", member, "1")
	testenv.Same(t, "the end of its slot", entries[0].Score, epoch+testTTL)
}
