package algo

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// slotsOfTwo is a limit on what is in flight.
var slotsOfTwo = Limit{Algorithm: Concurrency, Units: 2, TTLMicros: 30e6}

// everyList are all lists of up to most limits: each algorithm and variant at each place.
// Slots are in a list once.
func everyList(most int) (lists [][]Limit) {
	every := append(everyLimit, hours, slotsOfTwo)
	shorter := [][]Limit{nil}
	for range most {
		var longer [][]Limit
		for _, list := range shorter {
			for _, l := range every {
				if slices.Contains(list, l) {
					continue
				}
				if l.Algorithm != Concurrency {
					l.PerID = fmt.Sprint("user|", len(list)) // so that each has a key of its own
				}
				longer = append(longer, append(slices.Clone(list), l))
			}
		}
		lists, shorter = append(lists, longer...), longer
	}
	return lists
}

// TestReplyForms holds that no reply of limits can be taken for a short one, for every
// list of up to three limits and all terms: it parses as what the limits decided,
// whatever remains and however long the wait is.
func TestReplyForms(t *testing.T) {
	t.Parallel()
	all := maps.Clone(everyTerms)
	all["none"] = Terms{}
	for _, limits := range everyList(3) {
		for name, terms := range all {
			p := mustPlanWithTerms(t, terms, limits...)
			for remaining := range int64(7) {
				for _, retry := range []int64{0, 1, 2, 3, slotRetryMicros, Never} {
					first := &p.limits[0]
					remaining = min(remaining, first.Capacity())
					values := make([]int64, p.ReplyLen(), p.ReplyLen()+2)
					values[0], values[1] = epoch, remaining
					if first.Algorithm == Concurrency {
						values[2] = retry
					} else {
						values[3] = retry
					}
					at := 1
					for i := range p.limits {
						if p.limits[i].CalendarID != "" {
							values[at+4] = epoch
						}
						at += len(p.limiters[i].reply)
					}
					if p.terms.Penalty != nil {
						values = append(values, 0)
					}
					out := make([]Decision, len(p.limits))
					r, err := p.ParseRuling(values, out)
					want := Ruling{AtMicros: epoch, Allowed: retry == 0}
					switch {
					case err != nil:
						t.Fatalf("%s of %+v: %v: %v", name, p.limits, values, err)
					case r != want:
						t.Fatalf("%s of %+v: %v is %+v, want %+v", name, p.limits, values, r, want)
					case out[0].Remaining != remaining:
						t.Fatalf("%s of %+v: %v leaves %d, want %d", name, p.limits, values, out[0].Remaining, remaining)
					case out[0].RetryAfterMicros != retry:
						t.Fatalf("%s of %+v: %v waits %d, want %d", name, p.limits, values, out[0].RetryAfterMicros, retry)
					}
				}
			}
		}
	}
}

// TestRepliesOfScripts runs the script of every list of up to two limits, with all terms,
// on a real Redis, and those of three limits that have slots. Admitted or rejected, each
// answers what the Go twin decides.
func TestRepliesOfScripts(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for n, limits := range everyList(3) {
		slots := slices.ContainsFunc(limits, func(l Limit) bool { return l.Algorithm == Concurrency })
		if len(limits) == 3 && !slots {
			continue
		}
		for name, terms := range everyTerms {
			l := inBatch(t, client)
			w := newTwins(t, l, mustPlanWithTerms(t, terms, limits...), fmt.Sprintf("%s-%d", name, n))
			for _, cost := range []int64{1, 1, 1, 11} {
				w.nonce++
				w.decide(t, epoch, cost)
			}
			l.flush(t)
		}
	}
}
