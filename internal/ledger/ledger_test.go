package ledger

import (
	"reflect"
	"strings"
	"testing"
)

// sound is a ledger that shows what it should.
func sound() *Ledger {
	run := func(used ...int64) (r Run) {
		held := int64(0)
		for i, n := range used {
			held += n
			r.Requests = append(r.Requests, Request{Sent: int64(i), Admitted: n > 0, Ended: int64(i) + 10, Used: n})
			r.Held = append(r.Held, Sample{At: int64(i) + 10, Tokens: held})
		}
		return r
	}
	l := &Ledger{Limit: 100, Settled: run(40, 50, 0), After: run(40, 50, 60)}
	l.Settled.Reservation, l.After.Reservation = 50, 1
	return l
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		spoil func(l *Ledger)
		want  string // part of the error; "": none
	}{
		{"sound", func(*Ledger) {}, ""},
		{"nothing recorded", func(l *Ledger) { l.Settled = Run{} }, "nothing was recorded"},
		{"too much for a moment", func(l *Ledger) { l.Settled.Held[0].Tokens = 101 }, "held 101 tokens"},
		{"a token lost", func(l *Ledger) { l.Settled.Held[2].Tokens = 89 }, "holds 89 tokens in the end, 90 were used"},
		{"a token lost, counted after", func(l *Ledger) {
			l.After.Held[2].Tokens = 149
		}, "holds 149 tokens in the end, 150 were used"},
		{"a debt at its bound", func(l *Ledger) { l.After.Requests[2].Used, l.After.Held[2].Tokens = 999, 200 }, ""},
		{"a debt beyond it", func(l *Ledger) {
			l.After.Requests[2].Used, l.After.Held[2].Tokens = 999, 1089
		}, "holds 1089 tokens in the end"},
		{"all admitted", func(l *Ledger) {
			l.Settled.Requests = l.Settled.Requests[:2]
			l.After.Requests = l.After.Requests[1:]
			l.After.Held[2].Tokens = 110
		}, "the limit was not tried"},
		{"within the limit anyway", func(l *Ledger) { l.Limit = 150 }, "within the limit of 150"},
		{"other requests", func(l *Ledger) {
			l.After.Requests = append(l.After.Requests, Request{})
		}, "3 requests in one run, 4 in the other"},
		{"more than reserved", func(l *Ledger) { l.Settled.Reservation = 49 }, "used 50 tokens, and had reserved 49"},
		{"rejected, and billed", func(l *Ledger) { l.Settled.Requests[0].Admitted = false }, "Admitted:false"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l := sound()
			tc.spoil(l)
			err := l.Check()
			if got := err != nil; got != (tc.want != "") {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestMarshal(t *testing.T) {
	t.Parallel()
	want := sound()
	text, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Unmarshal(text)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}
