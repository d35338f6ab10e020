package main

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestReadFields(t *testing.T) {
	headers := [][2]string{{"x-a", "1"}, {"cookie", "a=1; b=2"}, {"x-b", ""}, {"x-a", "2"}}
	var got [][2]string
	f := readFields(appendHeaders(nil, headers))
	for name, value, ok := f.next(); ok; name, value, ok = f.next() {
		got = append(got, [2]string{string(name), string(value)})
	}
	testenv.SameList(t, "fields", got, headers)
}

// Whatever the host hands over, reading it does not panic.
func FuzzReadFields(f *testing.F) {
	whole := appendHeaders(nil, [][2]string{{"cookie", "a=1"}, {"x", ""}, {"cookie", "b"}})
	for n := range len(whole) {
		f.Add(whole[:n])
	}
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255})
	f.Fuzz(func(_ *testing.T, headers []byte) {
		all := readFields(headers)
		for _, _, ok := all.next(); ok; _, _, ok = all.next() {
		}
	})
}
