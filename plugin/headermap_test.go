package main

import "testing"

func TestAppendCookies(t *testing.T) {
	for _, tt := range []struct {
		name    string
		headers [][2]string
		want    string
		found   bool
	}{
		{name: "no header"},
		{name: "none", headers: [][2]string{{"x-a", "1"}, {"set-cookie", "2"}}},
		{name: "one", headers: [][2]string{{"x-a", "1"}, {"cookie", "a=1; b=2"}, {"x-b", ""}}, want: "a=1; b=2", found: true},
		{
			name: "two", headers: [][2]string{{"cookie", "a=1"}, {"x-a", "1"}, {"cookie", "b=2"}},
			want: "a=1; b=2", found: true,
		},
		{
			name: "three, of which one is empty", headers: [][2]string{{"cookie", "a=1"}, {"cookie", ""}, {"cookie", "b=2"}},
			want: "a=1; ; b=2", found: true,
		},
		{name: "an empty one", headers: [][2]string{{"cookie", ""}}, found: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, found := appendCookies([]byte("x"), appendHeaders(nil, tt.headers))
			if string(got) != "x"+tt.want {
				t.Errorf("cookies are %q, want %q", got[1:], tt.want)
			}
			if found != tt.found {
				t.Errorf("there is one: %v, want %v", found, tt.found)
			}
		})
	}
}

// Whatever the host hands over, reading it does not panic.
func FuzzAppendCookies(f *testing.F) {
	whole := appendHeaders(nil, [][2]string{{"cookie", "a=1"}, {"x", ""}, {"cookie", "b"}})
	for n := range len(whole) {
		f.Add(whole[:n])
	}
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255})
	f.Fuzz(func(_ *testing.T, headers []byte) { appendCookies(nil, headers) })
}
