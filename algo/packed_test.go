package algo

import (
	"encoding/binary"
	"math"
	"strconv"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestPackedNumbers: a packed number is the one that the text of the same argument is.
func TestPackedNumbers(t *testing.T) {
	t.Parallel()
	r := newRandom(30)
	for range 5000 {
		a, b := r.limit(Algorithms()[r.IntN(len(Algorithms()))], r.class), tenInASecond
		b.PerID = "user|"
		p := mustPlan(t, a, b)
		packed, texts := p.AppendNumbers(nil), append(p.Args(0), p.Args(1)...)
		testenv.Same(t, "the length of what is packed", len(packed), 8*len(texts))
		for n, text := range texts {
			got := math.Float64frombits(binary.LittleEndian.Uint64(packed[8*n:]))
			want, err := strconv.ParseFloat(text, 64)
			if err != nil || got != want {
				t.Fatalf("argument %d of %+v is %v, as text %q, %v", n, p.Limits(), got, text, err)
			}
		}
	}
}

// TestCheckArgs: costs that are the same are one number, and those of slots are followed by the nonce.
func TestCheckArgs(t *testing.T) {
	t.Parallel()
	slots := Limit{Algorithm: Concurrency, Units: 4, TTLMicros: 5e6}
	window := Limit{Algorithm: FixedWindow, Units: 3, WindowMicros: 1e6}
	for _, tc := range []struct {
		name   string
		limits []Limit
		costs  []int64
		want   []string
	}{
		{"one limit", []Limit{window}, []int64{7}, []string{"7", "3", "1000000"}},
		{"one cost", []Limit{window, tenInASecond}, []int64{7, 7}, []string{"7", testenv.Doubles(3, 1e6, 1e5, 1e6)}},
		{"two costs", []Limit{window, tenInASecond}, []int64{7, 0}, []string{"7 0", testenv.Doubles(3, 1e6, 1e5, 1e6)}},
		{"with slots", []Limit{window, slots}, []int64{7, 1}, []string{"7 1", "99", testenv.Doubles(3, 1e6, 4, 5e6)}},
	} {
		p := mustPlan(t, tc.limits...)
		args := p.CheckArgs(99, Over{}, tc.costs)
		testenv.SameList(t, tc.name, args, tc.want)
		testenv.Same(t, tc.name+": how many", p.NumCheckArgs(), len(args))
	}
}
