package answer

import (
	"strconv"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
)

func TestStateOfLimit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		limits   []Limit
		identity string
		want     string
	}{
		{
			name:   "one limit",
			limits: []Limit{rejected(hourly, 0, 3500e6, 1739_000_001)}, identity: "k",
			want: `{"limit":"hourly","identity":"k","retry_after":1740}`,
		},
		{
			name:     "the longest wait",
			limits:   []Limit{allowed(perUser, 19, 100_000), rejected(fast, 0, 250_000, 10), rejected(hourly, 0, 3500e6, 2e6)},
			identity: "k",
			want:     `{"limit":"hourly","identity":"k","retry_after":2}`,
		},
		{
			name:   "no wait helps",
			limits: []Limit{rejected(hourly, 0, 3500e6, 2e6), rejected(fast, 0, 250_000, algo.Never)}, identity: "k",
			want: `{"limit":"fast","identity":"k"}`,
		},
		{
			name:   "hostile text",
			limits: []Limit{rejected(hourly, 0, 1e6, 1e6)}, identity: "a\"\u009b\u202e\n",
			want: `{"limit":"hourly","identity":"a\"\u009b\u202e\u000a","retry_after":1}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := Rejection{By: tc.limits, Identity: tc.identity}
			if got := string(r.AppendState(nil)); got != tc.want {
				t.Errorf("rejected is %s, want %s", got, tc.want)
			}
		})
	}
}

// Jitter makes waits longer by up to its share, and never shorter.
func TestRetryJitter(t *testing.T) {
	t.Parallel()
	w := New(&config.Config{RetryJitterPercent: 10}, 1)
	seen := map[int]bool{}
	for range 2000 {
		reply := w.Reject([]Limit{rejected(hourly, 0, 3500e6, 100e6)}, 1, false)
		for _, h := range reply.Headers {
			if h[0] == "retry-after" {
				n, err := strconv.Atoi(h[1])
				if err != nil {
					t.Fatal(err)
				}
				seen[n] = true
			}
		}
	}
	for n := range seen {
		if n < 100 || n > 110 {
			t.Errorf("retry after %d s, want 100 to 110", n)
		}
	}
	if len(seen) != 11 {
		t.Errorf("%d different waits, want all 11", len(seen))
	}
}

// Clients that know Envoy's own filter are told in its way, where that is wanted.
func TestEnvoyRateLimited(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{false, true} {
		reply := New(&config.Config{EnvoyRateLimited: wanted}, 1).Reject([]Limit{rejected(hourly, 0, 1e6, 1e6)}, 1, false)
		told := false
		for _, h := range reply.Headers {
			told = told || h == [2]string{"x-envoy-ratelimited", "true"}
		}
		if told != wanted {
			t.Errorf("told: %v, want %v", told, wanted)
		}
	}
}
