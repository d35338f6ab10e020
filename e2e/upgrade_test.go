package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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

// upgradeRules are one for each algorithm, at the path of its name, with what else has a state in Redis: slots,
// settlements, leases, overrides, penalties and calendar windows, and a rule whose charge another rule's
// rejection gives back.
const upgradeRules = "testdata/upgrade.json"

// upgrade is two listeners of one Envoy, with different builds, on one Redis.
type upgrade struct {
	*setting

	t    *testing.T
	urls [2]string
}

// at are the URLs of a path at both.
func (u *upgrade) at(path string) []string { return []string{u.urls[0] + path, u.urls[1] + path} }

// TestUpgrade: an earlier build and this one next to each other on one Redis, each with its own
// bridge or the other's, keep each limit together. It begins with one of them alone, so that
// a key that the other does not find would give the client a second limit.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	unpacked, err := gzip.NewReader(bytes.NewReader(testenv.Read(t, earlier)))
	testenv.OK(t, err)
	code, err := io.ReadAll(unpacked)
	testenv.OK(t, err)
	old := filepath.Join(t.TempDir(), "sluice.wasm")
	testenv.OK(t, os.WriteFile(old, code, 0o600))
	rules, server, pairs := string(testenv.Read(t, upgradeRules)), redistest.Start(t), map[string]*upgrade{}
	edit := func(c *envoyconf.Config) {
		shipped := c.Get(envoyconf.RedisCluster)
		c.SetBridge(old)
		c.CopyCluster("redis", "old", server.Addr)
		c.Set(envoyconf.RedisCluster, shipped)
		for name, builds := range map[string][2]struct{ limiter, bridge string }{
			"forwards": {{old, "old"}, {testenv.WasmPath(t), "redis"}},
			"back":     {{testenv.WasmPath(t), "redis"}, {old, "old"}},
			"bridges":  {{old, "redis"}, {testenv.WasmPath(t), "old"}}, // each with the other's
		} {
			pairs[name] = new(upgrade)
			for i, build := range builds {
				c.SetWasm(build.limiter)
				c.Set(envoyconf.Limiter+"/vm_config/vm_id", build.limiter) // builds share no memory
				redis := fmt.Sprintf(`{"key_prefix": %q, "cluster": %q`, name, build.bridge)
				plugin := strings.Replace(rules, `{"cluster": "redis"`, redis, 1)
				port := testenv.FreePort(t)
				c.CopyListener(fmt.Sprint(name, i), port, plugin)
				pairs[name].urls[i] = fmt.Sprintf("http://127.0.0.1:%d", port)
			}
		}
	}
	s := start(t, `{"rules": [{"name": "r", `+hundred+`}]}`, envoytest.Options{
		Redis: []string{server.Addr}, Edit: edit, Upstream: envoytest.NewUpstream(t, http.HandlerFunc(obedient)).Addr,
	})
	for name, u := range pairs {
		u.setting = &setting{Envoy: s.Envoy, client: server.Client(), prefix: name + ":"}
		t.Run(name, func(t *testing.T) {
			u.t = t
			for _, path := range append(slices.Collect(maps.Keys(algorithms)), "two", "year", "override") {
				// These rules admit their limit to the unit, from any client: a third is spent in the first build, a third
				// in the second, and what is left, and more, in both under load.
				const third = exactLimit / 3
				for _, url := range u.at("/" + path) {
					got := burst(t, third, 8, []string{url}, "x-user: u")
					expectTally(t, path+" alone at "+url, got, tally{http.StatusOK: third})
				}
				got := burst(t, 2*third, 16, u.at("/"+path), "x-user: u")
				expectTally(t, path+" together", got, tally{http.StatusOK: third, http.StatusTooManyRequests: third})
			}
			// Leases may keep a part of a limit back, and so never admit more.
			got := burst(t, 3*exactLimit, 16, u.at("/lease"), "x-user: u")
			testenv.Same(t, "answers of the lease", got[http.StatusOK]+got[http.StatusTooManyRequests], 3*exactLimit)
			testenv.Within(t, "requests that leases admit", got[http.StatusOK], exactLimit/2+1, exactLimit)
			u.expectSlots()
			// A block that was earned at one build holds at the other, for its first request of that client already.
			for i, url := range u.at("/penalty") {
				user := fmt.Sprint("x-user: ", i)
				testenv.Wait(t, patience, func() error {
					if r := get(t, url, user); !strings.Contains(r.body, "abnormal-usage-detected") {
						return fmt.Errorf("status %d: %s; want a block", r.status, r.body)
					}
					return nil
				})
				r := get(t, u.at("/penalty")[1-i], user)
				testenv.Same(t, "that the other build blocks", strings.Contains(r.body, "abnormal-usage-detected"), true)
			}
			// Both obey what an operator has set: a block, and a limit that is twice as high, which they keep together.
			for user, value := range map[string]string{"blocked": "block", "twice": "x2"} {
				testenv.OK(t, u.client.Set(ctx, u.prefix+"{override|"+user+"}:override", value, 0).Err())
			}
			const more = 50
			expectTally(t, "who is blocked", burst(t, more, 8, u.at("/override"), "x-user: blocked"),
				tally{http.StatusTooManyRequests: more})
			expectTally(t, "who has twice the limit", burst(t, 2*exactLimit+more, 16, u.at("/override"), "x-user: twice"),
				tally{http.StatusOK: 2 * exactLimit, http.StatusTooManyRequests: more})
			u.expectRefunds()
			u.expectSettlements()
			for line := range strings.Lines(u.Log()) { // nothing says that Redis did not decide, or anything else that warns
				if strings.Contains(line, "[wasm]") && !strings.Contains(line, "[info]") {
					t.Errorf("logged %s", line)
				}
			}
		})
	}
}
