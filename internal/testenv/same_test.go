package testenv

import (
	"errors"
	"testing"
)

// reports counts what a helper reports, and stops as a test would.
type reports struct {
	testing.TB
	errors, fatals int
}

func (r *reports) Helper()               {}
func (r *reports) Errorf(string, ...any) { r.errors++ }
func (r *reports) Fatalf(string, ...any) { r.fatals++ }

func TestComparisons(t *testing.T) {
	t.Parallel()
	one, other := errors.New("one"), errors.New("other")
	for _, tc := range []struct {
		name           string
		compare        func(t testing.TB)
		errors, fatals int
	}{
		{"the same", func(t testing.TB) { Same(t, "x", 1, 1) }, 0, 0},
		{"another", func(t testing.TB) { Same(t, "x", 1, 2) }, 1, 0},
		{"the same list", func(t testing.TB) { SameList(t, "x", []int{1, 2}, []int{1, 2}) }, 0, 0},
		{"no list and an empty one", func(t testing.TB) { SameList(t, "x", nil, []int{}) }, 0, 0},
		{"a shorter list", func(t testing.TB) { SameList(t, "x", []int{1}, []int{1, 2}) }, 1, 0},
		{"another order", func(t testing.TB) { SameList(t, "x", []int{2, 1}, []int{1, 2}) }, 1, 0},
		{"the least", func(t testing.TB) { Within(t, "x", 1, 1, 3) }, 0, 0},
		{"the most", func(t testing.TB) { Within(t, "x", 3, 1, 3) }, 0, 0},
		{"too little", func(t testing.TB) { Within(t, "x", 0, 1, 3) }, 1, 0},
		{"too much", func(t testing.TB) { Within(t, "x", 4, 1, 3) }, 1, 0},
		{"no error", func(t testing.TB) { SameError(t, "x", nil, nil) }, 0, 0},
		{"the error", func(t testing.TB) { SameError(t, "x", one, one) }, 0, 0},
		{"a wrapped error", func(t testing.TB) { SameError(t, "x", errors.Join(other, one), one) }, 0, 0},
		{"another error", func(t testing.TB) { SameError(t, "x", other, one) }, 1, 0},
		{"an error missing", func(t testing.TB) { SameError(t, "x", nil, one) }, 1, 0},
		{"an error where none is wanted", func(t testing.TB) { SameError(t, "x", one, nil) }, 0, 1},
	} {
		r := &reports{TB: t}
		tc.compare(r)
		if r.errors != tc.errors || r.fatals != tc.fatals {
			t.Errorf("%s: %d errors, %d fatal; want %d, %d", tc.name, r.errors, r.fatals, tc.errors, tc.fatals)
		}
	}
}
