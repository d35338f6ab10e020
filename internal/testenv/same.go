package testenv

import (
	"cmp"
	"errors"
	"slices"
	"testing"
)

// These call t.Helper only when something is wrong: it takes a microsecond, and some tests compare
// millions of times.

// Same fails the test if a value differs from the one wanted.
func Same[T comparable](t testing.TB, what string, got, want T) {
	if got != want {
		t.Helper()
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// SameList fails the test if a list differs from the one wanted.
func SameList[T comparable](t testing.TB, what string, got, want []T) {
	if !slices.Equal(got, want) {
		t.Helper()
		t.Errorf("%s is %+v, want %+v", what, got, want)
	}
}

// Within fails the test if a value is below least or above most.
func Within[T cmp.Ordered](t testing.TB, what string, got, least, most T) {
	if got < least || got > most {
		t.Helper()
		t.Errorf("%s is %v, want %v to %v", what, got, least, most)
	}
}

// OK stops the test if there is an error: what comes with it means nothing.
func OK(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// SameError fails the test if an error is not the one wanted. Where none is wanted, it
// stops the test: what comes with the error means nothing.
func SameError(t testing.TB, what string, got, want error) {
	switch {
	case errors.Is(got, want):
	case want == nil:
		t.Helper()
		t.Fatalf("%s: %v", what, got)
	default:
		t.Helper()
		t.Errorf("%s: error %v, want %v", what, got, want)
	}
}
