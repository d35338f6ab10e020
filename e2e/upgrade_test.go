package e2e

import (
	"cmp"
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

// TestUpgrade: an earlier build and this one next to each other on one Redis, each with its own
// bridge or the other's, keep each limit together. It begins with one of them alone, so that
// a key that the other does not find would give the client a second limit.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	packed, err := os.Open(earlier)
	testenv.OK(t, err)
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	testenv.OK(t, err)
	code, err := io.ReadAll(unpacked)
	testenv.OK(t, err)
	old := filepath.Join(t.TempDir(), "sluice.wasm")
	testenv.OK(t, os.WriteFile(old, code, 0o600))
	one, other := startUpgrade(t, running(old, old), running("", "")), startUpgrade(t, running(old, ""), running("", old))
	for name, u := range map[string]*upgrade{
		"forwards": one, "back": one.back(), "each with the other's bridge": other,
	} {
		t.Run(name, func(t *testing.T) {
			u.t = t
			for _, path := range append(slices.Collect(maps.Keys(algorithms)), "two", "year", "override") {
				// These rules admit their limit to the unit, from any client: a third is spent in the first Envoy, a third
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
			// A block that was earned at one Envoy holds at the other, for its first request of that client already.
			for i, url := range u.at("/penalty") {
				user := fmt.Sprint("x-user: ", i)
				testenv.Wait(t, patience, func() error {
					if r := get(t, url, user); !strings.Contains(r.body, "abnormal-usage-detected") {
						return fmt.Errorf("status %d: %s; want a block", r.status, r.body)
					}
					return nil
				})
				r := get(t, u.at("/penalty")[1-i], user)
				testenv.Same(t, "that the other Envoy blocks", strings.Contains(r.body, "abnormal-usage-detected"), true)
			}
			// Both obey what an operator has set: a block, and a limit that is twice as high, which they keep together.
			for user, value := range map[string]string{"blocked": "block", "twice": "x2"} {
				testenv.OK(t, u.redis.client.Set(ctx, u.redis.prefix+"{override|"+user+"}:override", value, 0).Err())
			}
			const more = 50
			expectTally(t, "who is blocked", burst(t, more, 8, u.at("/override"), "x-user: blocked"),
				tally{http.StatusTooManyRequests: more})
			expectTally(t, "who has twice the limit", burst(t, 2*exactLimit+more, 16, u.at("/override"), "x-user: twice"),
				tally{http.StatusOK: 2 * exactLimit, http.StatusTooManyRequests: more})
			u.expectRefunds()
			u.expectSettlements()
			for _, s := range u.both { // no Envoy says that Redis did not decide, or anything else that warns
				for line := range strings.Lines(s.Log()) {
					if strings.Contains(line, "[wasm]") && !strings.Contains(line, "[info]") {
						t.Errorf("logged %s", line)
					}
				}
			}
		})
	}
}

// back are the two in the other order, with another prefix in Redis.
func (u *upgrade) back() *upgrade {
	redis := &setting{redis: u.redis.redis, client: u.redis.client, prefix: "back:"}
	both := [2]*setting{u.both[1], u.both[0]}
	return &upgrade{redis: redis, both: both, urls: [2]string{both[0].Beside["back"], both[1].Beside["back"]}}
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
	u := &upgrade{redis: &setting{redis: server, client: server.Client(), prefix: "rl:"}}
	upstream := envoytest.NewUpstream(t, http.HandlerFunc(obedient)).Addr
	for i, edit := range edits {
		rules := upgradeRules()
		back := strings.Replace(rules, `{"cluster"`, `{"key_prefix": "back", "cluster"`, 1)
		u.both[i] = start(t, rules, envoytest.Options{
			Redis: []string{server.Addr}, Upstream: upstream, Edit: edit,
			Beside: map[string]string{"back": back},
		})
		u.urls[i] = u.both[i].URL
	}
	return u
}

// at are the URLs of a path at both Envoys.
func (u *upgrade) at(path string) []string { return []string{u.urls[0] + path, u.urls[1] + path} }
