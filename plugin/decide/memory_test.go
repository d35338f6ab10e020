package decide

import (
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/deny"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

func TestHolds(t *testing.T) {
	t.Parallel()
	const gcra = `{"algorithm": "gcra", "limit": 1, "window": "1s"}`
	for _, tc := range []struct {
		name, rules string
		want        int64
	}{
		{"one rule", `{"name": "a", "limits": [` + gcra + `]}`, deny.RejectionTTLMicros},
		{"a shadow rule beside it", `{"name": "a", "limits": [` + gcra + `]}, {"name": "b", "mode": "shadow", "limits": [` +
			gcra + `]}`, deny.RejectionTTLMicros},
		{
			"two enforced rules", `{"name": "a", "limits": [` + gcra + `]}, {"name": "b", "limits": [` + gcra + `]}`,
			deny.SharedTTLMicros,
		},
		{"a lease", `{"name": "a", "limits": [{"algorithm": "gcra", "limit": 100, "window": "1s", "lease": {"units": 2, ` +
			`"ttl": "1s"}}]}`, deny.SharedTTLMicros},
		{
			"limits that pay", `{"name": "a", "limits": [` + gcra + `], "over": {"limits": [` + gcra + `]}}`,
			deny.RejectionTTLMicros,
		},
		{"a queue", `{"name": "a", "limits": [` + gcra + `, {"algorithm": "leaky_bucket", "limit": 2, "window": "1s", ` +
			`"overflow": "queue"}]}`, deny.SharedTTLMicros},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := config.Parse([]byte(`{"redis": {"cluster": "redis"}, "rules": [` + tc.rules + `]}`))
			if err != nil {
				t.Fatal(err)
			}
			rules, err := rule.Compile(cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range newMemory(cfg, rules, rand.NewPCG(1, 2)).ttls {
				if got != tc.want {
					t.Errorf("a rejection is remembered for %d us, want %d", got, tc.want)
				}
			}
		})
	}
}

// TestReconnectForgetsRejections: the Redis that answers after a lost connection may lack the charges
// behind them.
func TestReconnectForgetsRejections(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, `{"redis": {"cluster": "redis"}, "rules": [{"name": "r", "key": [{"header": "x-user"}],
		"limits": [{"algorithm": "fixed_window", "limit": 1, "window": "366d"}]}]}`)
	for range 2 {
		w.asks(headers{"x-user": "a"})
		w.answer()
	}
	again := w.arrive(headers{"x-user": "a"})
	testenv.Same(t, "who decides the third", again.Checks[0].Source, FromMemory)
	w.lose()
	w.asks(headers{"x-user": "b"})
	w.answer()
	w.asks(headers{"x-user": "a"})
	w.answer()
}
