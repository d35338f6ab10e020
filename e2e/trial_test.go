package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// triedIn is a configuration with Redis in a cluster.
func triedIn(cluster string) string {
	return `{"redis": {"cluster": "` + cluster + `", "timeout": "10s"}, ` +
		`"rules": [{"name": "r", "limits": [{"algorithm": "gcra", "limit": 1, "window": "1s"}]}]}`
}

// trials are servers that may be behind a cluster, and each worker's words about them.
var trials = []struct {
	name   string
	plugin string
	redis  func(t *testing.T) []string
	route  envoytest.Route
	edit   func(*envoyconf.Config)
	want   string
}{
	{name: "a primary", want: `redis "redis" answers: (Redis|Valkey) [0-9.]+, primary$`},
	{
		name: "no such cluster", plugin: triedIn("reddis"),
		want: `redis "reddis" cannot be used: unreachable: Envoy has no cluster "reddis", or the cluster has no healthy ` +
			`endpoint: `,
	},
	{
		name:  "nothing listens",
		redis: func(t *testing.T) []string { return []string{absent(t).Addr} },
		want:  `redis "redis" cannot be used: unreachable: no connection`,
	},
	{
		name: "no bridge",
		edit: func(c *envoyconf.Config) {
			c.Delete(envoyconf.RedisCluster +
				"/typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions/http_filters")
		},
		want: `redis "redis" cannot be used: .*bridge`,
	},
	{
		name: "an ordinary cluster",
		edit: func(c *envoyconf.Config) {
			c.Delete(envoyconf.RedisCluster +
				"/typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions/http_filters")
			c.Delete(envoyconf.RedisCluster + "/upstream_config")
		},
		want: `redis "redis" cannot be used: .*bridge`,
	},
	{
		name:  "a password is needed",
		redis: func(t *testing.T) []string { return []string{redistest.Start(t, "--requirepass", "secret").Addr} },
		want:  `redis "redis" cannot be used: error_reply: NOAUTH`,
	},
	{
		name:  "a replica",
		redis: func(t *testing.T) []string { return []string{redistest.Start(t, "--replicaof", "127.0.0.1 1").Addr} },
		want:  `redis "redis" cannot be used: error_reply: (READONLY|MASTERDOWN)`,
	},
	{
		name:  "a Redis Cluster through redis_proxy",
		redis: func(t *testing.T) []string { return redistest.StartCluster(t, 3).Addrs() },
		route: envoytest.Cluster,
		want:  `redis "redis" answers(: (Redis|Valkey) [0-9.]+)?$`,
	},
}

// TestTrialOfRedis: with its first request each worker, and no other thread of Envoy, says what answers,
// or what is wrong and with which cluster.
func TestTrialOfRedis(t *testing.T) {
	t.Parallel()
	for _, tc := range trials {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.plugin == "" {
				tc.plugin = triedIn("redis")
			}
			opts := envoytest.Options{Workers: 2, Route: tc.route, Edit: tc.edit}
			if tc.redis != nil {
				opts.Redis = tc.redis(t)
			}
			s := start(t, tc.plugin, opts)
			testenv.Same(t, "lines before a request", strings.Count(s.Log(), "sluice: redis "), 0)
			want := regexp.MustCompile("(?m)sluice: " + tc.want)
			client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			testenv.Wait(t, patience, func() error {
				for range 4 { // each of a connection, of which Envoy gives each worker some
					if resp, err := client.Get(s.URL); err == nil {
						resp.Body.Close()
					}
				}
				if n := len(want.FindAllString(s.Log(), -1)); n != opts.Workers {
					return fmt.Errorf("%d lines with %q, want one of each worker", n, tc.want)
				}
				return nil
			})
		})
	}
}
