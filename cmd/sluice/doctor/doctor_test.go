package doctor

import (
	"context"
	"testing"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// TestLookEnds tries nothing more once its time is over.
func TestLookEnds(t *testing.T) {
	t.Parallel()
	cfg, err := config.Parse([]byte(`{"redis": {"cluster": "redis"}, "rules": [{"name": "r",
		"limits": [{"algorithm": "gcra", "limit": 10, "window": "1s"}]}]}`))
	testenv.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report := &Report{}
	client, same := redistest.Start(t).Client(), func(err error) error { return err }
	(&Redis{Report: report, Client: client, Config: cfg, Prefix: "rl", Explain: same}).Look(ctx)
	last := report.Checks[len(report.Checks)-1]
	testenv.Same(t, "the last check", last.Found, "it is too slow: the rest was not tried")
	testenv.Same(t, "its status", last.Status, Fail)
	testenv.Same(t, "checks", len(report.Checks), 3)
}
