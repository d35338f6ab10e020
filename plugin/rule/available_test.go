package rule

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// What this version does not enforce is refused, with its place.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	const limit = `{"algorithm": "fixed_window", "limit": 5, "window": "1h"}`
	for _, tc := range []struct{ name, rule, want string }{
		{
			"slots", `"limits": [{"algorithm": "concurrency", "limit": 5}]`,
			"rules[0]: limits[0]: a concurrency limit is not available in this version (remove it)",
		},
		{
			"in a tier", `"limits_by": {"source": {"header": "x-plan"}, "values": {"free": [{"algorithm": "concurrency", "limit": 5}]}, "default": "free"}`,
			`rules[0]: limits_by.values["free"]: limits[0]: a concurrency limit is not available in this version (remove it)`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := config.Parse([]byte(`{"redis": {"cluster": "redis"}, "rules": [{"name": "r", ` + tc.rule + `}]}`))
			if err != nil {
				t.Fatal(err)
			}
			_, err = Compile(cfg, nil)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.HasSuffix(err.Error(), tc.want) {
				t.Errorf("refused with %q, want %q", err, tc.want)
			}
		})
	}
}
