package main

import (
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const quotaPath = "/.well-known/quota"

// TestQuotaBesideOtherRules: what these hold of a request for the quota, slots and a place in a queue,
// they hold until it is over; what its answer is worth settles their charge; and an exempt rule
// changes nothing.
func TestQuotaBesideOtherRules(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"quota": {"path": "/.well-known/quota", "rules": ["per-client"]}, "rules": [
			{"name": "known", "exempt": true, "match": {"path": {"prefix": "/.well-known"}}},
			{"name": "per-client", "match": {"path": {"prefix": "/api"}}, "key": [{"header": "x-client"}], "limits": [
				{"algorithm": "gcra", "limit": 2, "window": "1m", "burst": 5},
				{"algorithm": "fixed_window", "limit": 100, "window": "1h", "anchor": "first_request"}]},
			{"name": "slots", "key": [{"header": "x-client"}], "limits": [{"algorithm": "concurrency", "limit": 1}]},
			{"name": "line", "match": {"headers": {"x-line": {"present": true}}}, "limits": [{"algorithm": "leaky_bucket",
				"limit": 1, "window": "1s", "burst": 5, "overflow": "queue"}]}]}`)
		first := i.get(quotaPath, client("x")...)
		testenv.Same(t, "the first is answered", first.answer().Status, 200)
		testenv.Same(t, "a second, meanwhile", i.get(quotaPath, client("x")...).end(),
			"429 limited:slots limit=1 remaining=0 reset=0 retry-after=1")
		first.End()
		i.wait(time.Second)
		third := i.get(quotaPath, client("x")...)
		testenv.Same(t, "a third, later", third.answer().Status, 200)
		third.End()
		i.get(quotaPath, "x-client", "a", "x-line", "1").End()
		held := i.get(quotaPath, "x-client", "b", "x-line", "1")
		testenv.Same(t, "that one is held", held.waits(), true)
		i.wait(1100 * time.Millisecond)
		testenv.Same(t, "its outcome", held.outcome(), "quota")
		if body := string(held.Downstream.Body); !strings.HasPrefix(body, `{"limits":[{"name":"per-client-1m"`) {
			t.Errorf("held: %s", body)
		}
		held.End()
	})
}
