package algo

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"testing"
)

// A vector is one worked example of testdata/vectors.json. Any implementation
// can replay it.
type vector struct {
	Name   string
	Why    string
	Limits []struct {
		Algorithm    string
		Limit        int64
		WindowMs     int64 `json:"window_ms"`
		Burst        int64
		FirstRequest bool  `json:"first_request"`
		SubWindows   int64 `json:"sub_windows"`
		Queue        bool
		MaxDelayMs   int64 `json:"max_delay_ms"`
	}
	Steps []vectorStep
}

// vectorStep is a decision, or the refund of an earlier one.
type vectorStep struct {
	At   int64 // us after 2040-01-01T00:00:00Z
	Cost int64
	Want []struct {
		Remaining, Reset, Retry, Delay int64 // times in us
	}
	RefundOf  *int    `json:"refund_of"`  // the index of a step
	ExpiresMs []int64 `json:"expires_ms"` // of each key, ms after 2040, 0 for no key; if given
}

func readVectors(t *testing.T) (vectors []vector) {
	t.Helper()
	data, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&vectors); err != nil {
		t.Fatal(err)
	}
	return vectors
}

func (v *vector) policy(t *testing.T) *Plan {
	t.Helper()
	var limits []Limit
	for _, l := range v.Limits {
		algorithm, ok := ParseAlgorithm(l.Algorithm)
		if !ok {
			t.Fatalf("no algorithm %q", l.Algorithm)
		}
		limits = append(limits, Limit{
			Algorithm: algorithm, Units: l.Limit, WindowMicros: l.WindowMs * 1000, Burst: l.Burst,
			FromFirstRequest: l.FirstRequest, SubWindows: l.SubWindows,
			Queue: l.Queue, MaxDelayMicros: l.MaxDelayMs * 1000,
		})
	}
	return mustPolicy(t, limits...)
}

// decisions are what a step wants.
func (s *vectorStep) decisions() (want []Decision, allowed bool) {
	allowed = true
	for _, w := range s.Want {
		want = append(want, Decision{
			Allowed: w.Retry == 0, Remaining: w.Remaining,
			ResetAfterMicros: w.Reset, RetryAfterMicros: w.Retry, DelayMicros: w.Delay,
		})
		allowed = allowed && w.Retry == 0
	}
	return want, allowed
}

// expiry is what PEXPIRETIME should answer for key i.
func (s *vectorStep) expiry(i int) int64 {
	if s.ExpiresMs[i] == 0 {
		return -2
	}
	return epoch/1000 + s.ExpiresMs[i]
}

func TestVectorsInGo(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t) {
		p := v.policy(t)
		states := make([]State, len(v.Limits))
		got := make([]Decision, len(v.Limits))
		for n, s := range v.Steps {
			for i, st := range states { // what Redis would have expired
				if wantExpiry(p.ExpiresAtMicros(i, st)) < (epoch+s.At)/1000 {
					states[i] = nil
				}
			}
			if s.RefundOf != nil {
				charged := v.Steps[*s.RefundOf]
				p.Refund(states, epoch+charged.At, epoch+s.At, charged.Cost)
			} else {
				want, wantAllowed := s.decisions()
				if allowed := p.Decide(states, epoch+s.At, s.Cost, got); allowed != wantAllowed || !slices.Equal(got, want) {
					t.Errorf("%s, step %d: %v\n got %+v\nwant %+v", v.Name, n, allowed, got, want)
				}
			}
			for i := range s.ExpiresMs {
				if got := wantExpiry(p.ExpiresAtMicros(i, states[i])); got != s.expiry(i) {
					t.Errorf("%s, step %d: limit %d expires at %d ms, want %d", v.Name, n, i, got, s.expiry(i))
				}
			}
		}
	}
}

func TestVectorsInLua(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for _, v := range readVectors(t) {
		l := newLuaPolicy(t, client, v.policy(t), v.Name)
		for n, s := range v.Steps {
			for _, key := range l.keys {
				if at := milliseconds(client.PExpireTime(ctx, key)); at > 0 && at < (epoch+s.At)/1000 {
					client.Del(ctx, key)
				}
			}
			if s.RefundOf != nil {
				charged := v.Steps[*s.RefundOf]
				cmd := l.giveBack(client, epoch+s.At, charged.Cost, strconv.Itoa(*s.RefundOf), epoch+charged.At)
				if err := cmd.Err(); err != nil {
					t.Fatal(err)
				}
			} else {
				want, wantAllowed := s.decisions()
				got, allowed, err := l.parse(l.decide(client, epoch+s.At, s.Cost, strconv.Itoa(n)))
				if err != nil || allowed != wantAllowed || !slices.Equal(got, want) {
					t.Errorf("%s, step %d: %v, %v\n got %+v\nwant %+v", v.Name, n, allowed, err, got, want)
				}
			}
			for i := range s.ExpiresMs {
				if got := milliseconds(client.PExpireTime(ctx, l.keys[i])); got != s.expiry(i) {
					t.Errorf("%s, step %d: key %d expires at %d ms, want %d", v.Name, n, i, got, s.expiry(i))
				}
			}
		}
	}
}
