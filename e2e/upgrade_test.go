package e2e

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// earlier is the plugin of commit 630acda, built as its Makefile does but with -opt=z, which
// makes it smaller, and packed by gzip -9n.
const earlier = "testdata/630acda.wasm.gz"

// unpack writes the earlier build where Envoy finds it.
func unpack(t *testing.T) (path string) {
	t.Helper()
	packed, err := os.Open(earlier)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	code, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "sluice.wasm")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := io.Copy(file, code); err != nil {
		t.Fatal(err)
	}
	return path
}

// running has an Envoy run other builds than this one: as limiter, as bridge, or both; "" is
// this one, with the small bridge.
func running(limiter, bridge string) func(*envoyconf.Config) {
	return func(c *envoyconf.Config) {
		if limiter != "" {
			c.SetWasm(limiter)
		}
		if bridge != "" {
			c.SetBridge(bridge)
		}
	}
}

// upgradeRules are exactRules with what else has a state in Redis: slots, settlements,
// leases, overrides and calendar windows.
func upgradeRules() string {
	more := map[string]string{
		"two": `"limits": [{"algorithm": "gcra", "limit": %d, ` + long +
			`}, {"algorithm": "sliding_window_counter", "limit": 1000000, ` + long + `}]`,
		"year":     `"limits": [{"algorithm": "fixed_window", "limit": %d, "window": "year", "timezone": "Europe/Berlin"}]`,
		"override": `"overrides": true, "limits": [{"algorithm": "token_bucket", "limit": %d, ` + long + `}]`,
		"settle": `"settle": {"status": ["401"]}, ` +
			`"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": %d, ` + long + `}]`,
		"lease": `"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": %d, ` + long +
			`, "lease": {"units": 5, "ttl": "2s"}}]`,
	}
	rules := strings.TrimSuffix(exactRules(), "]}")
	for name, fields := range more {
		rules += fmt.Sprintf(`, {"name": %q, "match": {"path": "/%s"}, "key": [{"header": "x-user"}], `+fields+`}`,
			name, name, exactLimit)
	}
	return rules + "]}"
}

// exactPaths are those of the rules that admit their limit to the unit, from any client.
func exactPaths() []string {
	paths := []string{"two", "year", "override"}
	for name := range algorithms {
		paths = append(paths, name)
	}
	return paths
}

// TestUpgrade: an earlier build and this one beside each other on one Redis, each with its own
// bridge or the other's, keep each limit together. It begins with one of them alone, so that
// a key that the other does not find would give the client a second limit.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	old := unpack(t)
	for _, tc := range []struct {
		name          string
		first, second func(*envoyconf.Config)
	}{
		{"forwards", running(old, old), running("", "")},
		{"back", running("", ""), running(old, old)},
		{"an earlier bridge", running("", old), running("", "")},
		{"an earlier limiter", running(old, ""), running("", "")},
		{"one file for both roles", running("", testenv.WasmPath(t)), running("", "")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			redis := redistest.Start(t)
			opts := envoytest.Options{Redis: []string{redis.Addr}}
			opts.Edit = tc.first
			first := start(t, upgradeRules(), opts)
			opts.Edit = tc.second
			second := start(t, upgradeRules(), opts)
			for _, path := range exactPaths() {
				expectSharedLimit(t, path, first.URL, second.URL)
			}
			expectSharedBounds(t, first.URL, second.URL)
			for _, s := range []*setting{first, second} {
				if strings.Contains(s.Log(), "did not decide") {
					t.Errorf("logged %s", s.Log())
				}
			}
		})
	}
}

// expectSharedLimit spends a third of a limit in the first Envoy, a third in the second, and
// what is left, and more, in both under load.
func expectSharedLimit(t *testing.T, path, first, second string) {
	t.Helper()
	const third = exactLimit / 3
	for _, url := range []string{first, second} {
		got := burst(t, third, 8, []string{url + "/" + path}, "x-user: u")
		expectTally(t, path+" alone at "+url, got, tally{http.StatusOK: third})
	}
	got := burst(t, 2*third, 16, []string{first + "/" + path, second + "/" + path}, "x-user: u")
	expectTally(t, path+" together", got, tally{http.StatusOK: third, http.StatusTooManyRequests: third})
}

// expectSharedBounds does so for what may keep a part of a limit back, and so never admits
// more: leases, and settlements that are under way.
func expectSharedBounds(t *testing.T, first, second string) {
	t.Helper()
	for _, path := range []string{"lease", "settle"} {
		got := burst(t, 3*exactLimit, 16, []string{first + "/" + path, second + "/" + path}, "x-user: u")
		testenv.Same(t, path+": answers that are neither 200 nor 429",
			3*exactLimit-got[http.StatusOK]-got[http.StatusTooManyRequests], 0)
		if path == "lease" {
			testenv.Same(t, "that leases admit more than the limit", got[http.StatusOK] > exactLimit, false)
			testenv.Same(t, "that leases admit most of it", got[http.StatusOK] > exactLimit/2, true)
		}
	}
}
