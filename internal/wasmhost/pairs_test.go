package wasmhost

import (
	"bytes"
	"slices"
	"testing"
)

func TestPairs(t *testing.T) {
	t.Parallel()
	p := Request("GET", "/p?q", "X-A", "1", "x-b", "2", "x-a", "3")
	if v, ok := p.Get("x-A"); !ok || v != "1" {
		t.Errorf("the first x-a: %q, %v", v, ok)
	}
	p.set("X-a", "4")
	p.add("X-C", "")
	p.remove(":scheme")
	want := Pairs{
		{":method", "GET"},
		{":authority", "example.com"},
		{":path", "/p?q"},
		{"x-b", "2"},
		{"x-a", "4"},
		{"x-c", ""},
	}
	if !slices.Equal(p, want) {
		t.Errorf("got %q, want %q", p, want)
	}
	if v, ok := p.Get("x-d"); ok {
		t.Errorf("x-d is %q", v)
	}
	if got := unmarshal(p.marshal()); !slices.Equal(got, p) {
		t.Errorf("came back as %q", got)
	}
}

// What is not a serialized map is an empty one, and the biggest is bounded.
func TestUnmarshalRefuses(t *testing.T) {
	t.Parallel()
	good := Pairs{{"a", "1"}}.marshal()
	for _, b := range [][]byte{
		nil,
		{1},
		{1, 0, 0, 0},
		{255, 255, 255, 255},
		good[:len(good)-1], append(slices.Clone(good), 0), bytes.Replace(good, []byte("a\x00"), []byte("aa"), 1),
		make(Pairs, maxPairs+1).marshal(),
	} {
		if p := unmarshal(b); len(p) != 0 {
			t.Errorf("%x: %q", b[:min(len(b), 32)], p)
		}
	}
	if n := len(unmarshal(make(Pairs, maxPairs).marshal())); n != maxPairs {
		t.Errorf("%d pairs, want %d", n, maxPairs)
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add(Request("GET", "/", "a", "").marshal())
	f.Add([]byte{1, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		p := unmarshal(b)
		if len(p) > 0 && !bytes.Equal(p.marshal(), b) {
			t.Fatalf("%x came back as %x", b, p.marshal())
		}
	})
}
