package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// ever is a window in which nothing is restored while a test runs.
const ever = `"algorithm": "fixed_window", "anchor": "first_request", "window": "366d"`

// allowing is the plugin configuration of the main listener. Nothing in it fails
// by being slow.
const allowing = `{"redis": {"cluster": "redis", "timeout": "10s"},
	"failure": {"mode": "allow", "breaker": {"failures": 1000, "max_open": "200ms"}},
	"top_offenders": {"size": 10, "interval": "1s"},
	"rules": [
		{"name": "health", "match": {"path": "/healthz"}, "exempt": true},
		{"name": "orders", "match": {"path": "/api"}, "key": [{"header": "x-user"}], "limits": [
			{` + ever + `, "limit": 5}, {"algorithm": "gcra", "limit": 1000000, "window": "1d", "name": "a day's"}]},
		{"name": "tighter", "mode": "shadow", "match": {"path": "/api"}, "key": [{"header": "x-user"}],
			"limits": [{` + ever + `, "limit": 3}]},
		{"name": "once.v1 \"beta\"", "match": {"path": "/once"}, "key": [{"header": "x-user"}],
			"limits": [{` + ever + `, "limit": 1}]},
		{"name": "per-key", "match": {"path": "/secret"}, "key": [{"header": "x-user", "hash": true}],
			"limits": [{` + ever + `, "limit": 1}]},
		{"name": "wide", "match": {"path": "/both"}, "limits": [{` + ever + `, "limit": 1000000}]},
		{"name": "narrow", "match": {"path": "/both"}, "limits": [{` + ever + `, "limit": 1}]},
		{"name": "hot", "match": {"path": "/hot"},
			"limits": [{` + ever + `, "limit": 1000000, "lease": {"units": 10, "ttl": "1s"}}]},
		{"name": "watched", "match": {"path": "/watched"}, "key": [{"header": "x-user"}], "overrides": true,
			"limits": [{` + ever + `, "limit": 1}],
			"penalty": {"after": 2, "within": "1h", "for": ["1h"]}},
		{"name": "spent", "match": {"path": "/spent"}, "limits": [{` + ever + `, "limit": 2}],
			"over": {"set_headers": {"x-quota": "over"}, "limits": [{"name": "credits", ` + ever + `, "limit": 3}]}},
		{"name": "login", "match": {"path": "/login"}, "limits": [{` + ever + `, "limit": 1}], "settle": {"status": ["401"]}},
		{"name": "chat", "match": {"path": "/chat"}, "limits": [{"algorithm": "concurrency", "limit": 1000}]},
		{"name": "queue", "match": {"path": "/queue"}, "limits": [
			{"algorithm": "leaky_bucket", "limit": 1, "window": "4s", "burst": 3, "overflow": "queue"}]},
		{"name": "search", "match": {"path": "/bucket"}, "key": [{"header": "x-user"}], "limits": [
			{"algorithm": "token_bucket", "limit": 5, "window": "1s"}]}
	]}`

// denying is that of the listener "deny", where no two requests of a worker may
// wait for Redis at once.
const denying = `{"redis": {"cluster": "redis", "timeout": "50ms"},
	"failure": {"mode": "deny", "max_pending": 1, "breaker": {"failures": 1000, "max_open": "200ms"}},
	"rules": [{"name": "strict", "limits": [{` + ever + `, "limit": 1000000}]}]}`

// scene is a Redis, an Envoy and a Prometheus, and what clients have seen.
type scene struct {
	*setting

	prometheus *promtest.Prometheus
	answers    tally
	leave      func()     // ends the request that view.txt has begun
	ended      chan tally // its answer
}

// count adds what clients have seen.
func (s *scene) count(answers tally) {
	for status, n := range answers {
		s.answers[status] += n
	}
}

// until waits for an expression to have a value.
func (s *scene) until(t *testing.T, expr string) {
	t.Helper()
	testenv.Wait(t, promtest.Limit, func() error {
		found, err := s.prometheus.Query(expr)
		return errors.Join(err, atLeast(len(found), 1, "values of "+expr))
	})
}

// await waits until expressions have the values wanted, a line each, after those of its labels.
func (s *scene) await(t *testing.T, want string, exprs ...string) {
	t.Helper()
	testenv.Wait(t, promtest.Limit, func() error {
		var got string
		for _, expr := range exprs {
			found, err := s.prometheus.Query(expr)
			if err != nil {
				return err
			}
			var lines []string
			for _, series := range found {
				line := ""
				for _, label := range slices.Sorted(maps.Keys(series.Metric)) {
					line += series.Metric[label] + " "
				}
				lines = append(lines, fmt.Sprintf("%s%v\n", line, series.Value.Value))
			}
			slices.Sort(lines)
			got += strings.Join(lines, "")
		}
		if got != want {
			return fmt.Errorf("%s is\n%swant\n%s", strings.Join(exprs, ", "), got, want)
		}
		return nil
	})
}
