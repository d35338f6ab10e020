package e2e

import (
	"cmp"
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

// earlier stands in for the last release, as nothing has been released yet: the plugin of commit
// 630acda, built as its Makefile does but with -opt=z, which makes it smaller, and packed by
// gzip -9n. It has every feature that upgradeRules use. With a release its sluice.wasm takes this
// file's place.
const earlier = "testdata/630acda.wasm.gz"

// unpack writes the earlier build where Envoy finds it.
func unpack(t *testing.T) (path string) {
	t.Helper()
	packed, err := os.Open(earlier)
	testenv.OK(t, err)
	defer packed.Close()
	code, err := gzip.NewReader(packed)
	testenv.OK(t, err)
	path = filepath.Join(t.TempDir(), "sluice.wasm")
	file, err := os.Create(path)
	testenv.OK(t, err)
	defer file.Close()
	if _, err := io.Copy(file, code); err != nil {
		t.Fatal(err)
	}
	return path
}

// running has an Envoy run other builds than this one: as limiter, as bridge, or both; "" is
// this one, with the bridge.
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
// leases, overrides, penalties and calendar windows, and a rule whose charge another rule's
// rejection gives back.
func upgradeRules() string {
	const first = `"algorithm": "fixed_window", "anchor": "first_request", ` + long
	more := map[string]string{
		"two": `"limits": [{"algorithm": "gcra", "limit": %d, ` + long +
			`}, {"algorithm": "sliding_window_counter", "limit": 1000000, ` + long + `}]`,
		"year":     `"limits": [{"algorithm": "fixed_window", "limit": %d, "window": "year", "timezone": "Europe/Berlin"}]`,
		"override": `"overrides": true, "limits": [{"algorithm": "token_bucket", "limit": %d, ` + long + `}]`,
		"settle":   `"settle": {"status": ["401"]}, "limits": [{` + first + `, "limit": %d}]`,
		"lease":    `"limits": [{` + first + `, "limit": %d, "lease": {"units": 5, "ttl": "2s"}}]`,
		"refund":   `"limits": [{` + first + `, "limit": %d}]`,
		"penalty": `"penalty": {"after": 4, "within": "1h", "for": ["1h"]}, ` +
			`"limits": [{` + first + `, "limit": %d}]`,
		"slots": `"limits": [{"algorithm": "concurrency", "limit": %d, "ttl": "1h"}]`,
	}
	limits := map[string]int{"penalty": 1, "slots": 2 * upgradeSlots}
	rules := strings.TrimSuffix(exactRules(), "]}")
	for name, fields := range more {
		rules += fmt.Sprintf(`, {"name": %q, "match": {"path": "/%s"}, "key": [{"header": "x-user"}], `+fields+`}`,
			name, name, cmp.Or(limits[name], exactLimit))
	}
	return rules + `, {"name": "full", "match": {"headers": {"x-full": {"present": true}}}, "limits": [{` + first +
		`, "limit": 1}]}]}`
}

// exactPaths are those of the rules that admit their limit to the unit, from any client.
func exactPaths() []string {
	paths := []string{"two", "year", "override"}
	for name := range algorithms {
		paths = append(paths, name)
	}
	return paths
}

// TestUpgrade: an earlier build and this one next to each other on one Redis, each with its own
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
		{"each with the other's bridge", running(old, ""), running("", old)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := startUpgrade(t, tc.first, tc.second)
			for _, path := range exactPaths() {
				u.expectLimit(path)
			}
			u.expectBounds()
			u.expectSlots()
			u.expectPenalties()
			u.expectOverrides()
			u.expectRefunds()
			u.expectSettlements()
			u.expectQuiet()
		})
	}
}

// upgrade is two Envoys with different builds on one Redis.
type upgrade struct {
	t     *testing.T
	redis *setting // without an Envoy
	both  [2]*setting
	urls  [2]string
}

func startUpgrade(t *testing.T, edits ...func(*envoyconf.Config)) *upgrade {
	t.Helper()
	server := redistest.Start(t)
	u := &upgrade{t: t, redis: &setting{redis: server, client: server.Client()}}
	upstream := envoytest.NewUpstream(t, http.HandlerFunc(obedient)).Addr
	for i, edit := range edits {
		u.both[i] = start(t, upgradeRules(), envoytest.Options{Redis: []string{server.Addr}, Upstream: upstream, Edit: edit})
		u.urls[i] = u.both[i].URL
	}
	return u
}

// at are the URLs of a path at both Envoys.
func (u *upgrade) at(path string) []string { return []string{u.urls[0] + path, u.urls[1] + path} }

// expectQuiet wants no Envoy to have logged that Redis did not decide, or anything else of a
// plugin that warns.
func (u *upgrade) expectQuiet() {
	u.t.Helper()
	for _, s := range u.both {
		for line := range strings.Lines(s.Log()) {
			if strings.Contains(line, "[wasm]") && !strings.Contains(line, "[info]") {
				u.t.Errorf("logged %s", line)
			}
		}
	}
}

// expectLimit spends a third of a limit in the first Envoy, a third in the second, and
// what is left, and more, in both under load.
func (u *upgrade) expectLimit(path string) {
	u.t.Helper()
	const third = exactLimit / 3
	for _, url := range u.at("/" + path) {
		got := burst(u.t, third, 8, []string{url}, "x-user: u")
		expectTally(u.t, path+" alone at "+url, got, tally{http.StatusOK: third})
	}
	got := burst(u.t, 2*third, 16, u.at("/"+path), "x-user: u")
	expectTally(u.t, path+" together", got, tally{http.StatusOK: third, http.StatusTooManyRequests: third})
}

// expectBounds does so for what may keep a part of a limit back, and so never admits
// more: leases.
func (u *upgrade) expectBounds() {
	u.t.Helper()
	got := burst(u.t, 3*exactLimit, 16, u.at("/lease"), "x-user: u")
	testenv.Same(u.t, "answers that are neither 200 nor 429",
		3*exactLimit-got[http.StatusOK]-got[http.StatusTooManyRequests], 0)
	testenv.Same(u.t, "that leases admit more than the limit", got[http.StatusOK] > exactLimit, false)
	testenv.Same(u.t, "that leases admit most of it", got[http.StatusOK] > exactLimit/2, true)
}
