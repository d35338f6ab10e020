package testenv

import (
	"errors"
	"testing"
)

func TestComparisons(t *testing.T) {
	t.Parallel()
	one, other := errors.New("one"), errors.New("other")
	for _, tc := range []struct {
		name         string
		compare      func(t testing.TB)
		fails, stops bool
	}{
		{"the same", func(t testing.TB) { Same(t, "x", 1, 1) }, false, false},
		{"another", func(t testing.TB) { Same(t, "x", 1, 2) }, true, false},
		{"the same list", func(t testing.TB) { SameList(t, "x", []int{1, 2}, []int{1, 2}) }, false, false},
		{"no list and an empty one", func(t testing.TB) { SameList(t, "x", nil, []int{}) }, false, false},
		{"a shorter list", func(t testing.TB) { SameList(t, "x", []int{1}, []int{1, 2}) }, true, false},
		{"another order", func(t testing.TB) { SameList(t, "x", []int{2, 1}, []int{1, 2}) }, true, false},
		{"the least", func(t testing.TB) { Within(t, "x", 1, 1, 3) }, false, false},
		{"the most", func(t testing.TB) { Within(t, "x", 3, 1, 3) }, false, false},
		{"too little", func(t testing.TB) { Within(t, "x", 0, 1, 3) }, true, false},
		{"too much", func(t testing.TB) { Within(t, "x", 4, 1, 3) }, true, false},
		{"no error", func(t testing.TB) { SameError(t, "x", nil, nil) }, false, false},
		{"the error", func(t testing.TB) { SameError(t, "x", one, one) }, false, false},
		{"a wrapped error", func(t testing.TB) { SameError(t, "x", errors.Join(other, one), one) }, false, false},
		{"another error", func(t testing.TB) { SameError(t, "x", other, one) }, true, false},
		{"an error missing", func(t testing.TB) { SameError(t, "x", nil, one) }, true, false},
		{"an error where none is wanted", func(t testing.TB) { SameError(t, "x", one, nil) }, true, true},
	} {
		stops := true
		message := fatal(t, func(tb testing.TB) {
			tc.compare(tb)
			stops = false
		})
		Same(t, tc.name+": that it fails", message != "", tc.fails)
		Same(t, tc.name+": that it stops the test", stops, tc.stops)
	}
}
