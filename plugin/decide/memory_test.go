package decide

import (
	"math/rand/v2"
	"testing"

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
