package main

import (
	"slices"
	"testing"
)

func TestWalk(t *testing.T) {
	stays, err := Walk("testdata", "town", "House.Arrive", "g")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"town/a.go House.Arrive",
		"town/b.go House.greet, carry, Bag.lift",
		"town/a.go (again) House.seat",
		"town/b.go (again) Guest.first, carry",
	}
	var got []string
	for _, s := range stays {
		got = append(got, s.File+" "+s.text())
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := Returns(stays); n != 2 {
		t.Errorf("%d returns, want 2", n)
	}
}

func TestNothingToFollow(t *testing.T) {
	_, err := Walk("testdata", "town", "House.Arrive", "h")
	if err == nil || err.Error() != "town has no House.Arrive with a parameter h" {
		t.Errorf("got %v", err)
	}
}

func TestOnce(t *testing.T) {
	all, once, err := Once("testdata", "./town")
	if err != nil {
		t.Fatal(err)
	}
	// carry is called twice, greet by itself, too.
	want := []string{
		"town/a.go:26 House.seat", "town/b.go:10 Bag.lift", "town/b.go:12 Guest.first", "town/b.go:14 House.nobody",
		"town/b.go:16 spell",
	}
	if all != 7 || !slices.Equal(once, want) {
		t.Errorf("%d functions, once %q; want 7, %q", all, once, want)
	}
}
