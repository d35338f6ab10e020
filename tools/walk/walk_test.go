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

func TestSpreads(t *testing.T) {
	also := map[string][]string{"points": {"shop.Points"}}
	got, err := Spreads("testdata", "shop", "index.go", []string{"sale"}, also)
	if err != nil {
		t.Fatal(err)
	}
	want := []Spread{
		{"gift", []string{"sale.go:13", "sale.go:6", "till.go:3"}, 2},
		{"points", []string{"sale.go:16"}, 1}, // without a file of its own
		{"till", nil, 0},
	}
	same := func(a, b Spread) bool {
		return a.Feature == b.Feature && slices.Equal(a.Lines, b.Lines) && a.Files == b.Files
	}
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
