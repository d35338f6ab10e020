package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/redistest"
)

// counted are rules of every kind that a request may meet.
const counted = `{"redis": {"cluster": "redis"}, "rules": [
  {"name": "health", "match": {"path": "/healthz"}, "exempt": true},
  {"name": "per-key", "match": {"path": {"prefix": "/api/"}}, "key": [{"header": "x-api-key"}],
  	"cost": {"header": "x-cost", "default": 1}, "overrides": true,
   "limits": [{"algorithm": "gcra", "limit": 1, "window": "1h", "burst": 5, "name": "bucket"},
              {"algorithm": "fixed_window", "limit": 100, "window": "1d", "anchor": "first_request", "name": "daily"}]},
  {"name": "watched", "match": {"path": {"prefix": "/api/"}}, "mode": "shadow", "key": [{"metadata": ["jwt", "org"]}],
   "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1d", "anchor": "first_request"}]},
  {"name": "jobs", "match": {"path": {"prefix": "/jobs"}}, "key": [{"header": "x-api-key"}],
  	"limits": [{"algorithm": "concurrency", "limit": 1, "ttl": "1h"}]}
]}`

// charging are the same rules for charge, which knows no overrides.
var charging = strings.Replace(counted, `"overrides": true,`, "", 1)

// figures match the numbers that differ from run to run.
var figures = regexp.MustCompile(`[0-9]+`)

// evenly is a text without its figures, and with columns of no width.
func evenly(s string) string {
	s = regexp.MustCompile(`#h#m#s|#m#s|#h#m|#h|#m\b|#s\b|# ms`).ReplaceAllString(figures.ReplaceAllString(s, "#"), "T")
	return regexp.MustCompile(` +`).ReplaceAllString(s, " ")
}

// TestGetExamples runs the example of docs/cli.md.
func TestGetExamples(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	plugin := write(t, "plugin.json", counted)
	charge(t, server.Client(), charging, request(t, "http://h/api/", "x-api-key: alice"), "per-key", 5)
	e := readExample(t, "## get, reset").with(map[string]string{"plugin.json": plugin, "redis:6379": server.Addr})
	r := execute(t, "", e.args...)
	if got := evenly(r.out); r.code != console.Done || got != evenly(e.out) {
		t.Errorf("%v: exit code %d\n%s%s\nwant\n%s", e.args, r.code, r.out, r.errors, e.out)
	}
}
