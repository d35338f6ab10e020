package e2e

import (
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// trials are clusters, and each worker's words about them.
var trials = []struct {
	name  string
	redis func(t *testing.T) string
	edit  func(c *envoyconf.Config, cluster string)
	want  string
}{
	{name: "a-primary", want: `answers: (Redis|Valkey) [0-9.]+, primary$`},
	{
		name: "no-such-cluster",
		edit: func(c *envoyconf.Config, cluster string) { c.Remove("static_resources/clusters", path.Base(cluster)) },
		want: `cannot be used: unreachable: Envoy has no cluster "no-such-cluster", or the cluster has no healthy endpoint: `,
	},
	{
		name:  "nothing-listens",
		redis: func(t *testing.T) string { return fmt.Sprint("127.0.0.1:", testenv.FreePort(t)) },
		want:  `cannot be used: unreachable: no connection`,
	},
	{
		name: "no-bridge",
		edit: func(c *envoyconf.Config, cluster string) { c.Delete(cluster + bridges) },
		want: `cannot be used: .*bridge`,
	},
	{
		name: "an-ordinary-cluster",
		edit: func(c *envoyconf.Config, cluster string) {
			c.Delete(cluster + bridges)
			c.Delete(cluster + "/upstream_config")
		},
		want: `cannot be used: .*bridge`,
	},
	{
		name:  "a-password-is-needed",
		redis: func(t *testing.T) string { return redistest.Start(t, "--requirepass", "secret").Addr },
		want:  `cannot be used: error_reply: NOAUTH`,
	},
	{
		name:  "a-replica",
		redis: func(t *testing.T) string { return redistest.Start(t, "--replicaof", "127.0.0.1 1").Addr },
		want:  `cannot be used: error_reply: (READONLY|MASTERDOWN)`,
	},
}

// bridges are the bridge's place in a cluster.
const bridges = "/typed_extension_protocol_options/envoy.extensions.upstreams.http.v3.HttpProtocolOptions/http_filters"

// TestTrialOfRedis: with its first request each worker, and no other thread of Envoy, says what answers,
// or what is wrong and with which cluster.
func TestTrialOfRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	beside, addrs := map[string]string{}, map[string]string{}
	for _, tc := range trials {
		beside[tc.name] = fmt.Sprintf(`{"redis": {"cluster": %q, "timeout": "10s"}, "rules": [{"name": "r", %s}]}`,
			tc.name, hundred)
		if addrs[tc.name] = server.Addr; tc.redis != nil {
			addrs[tc.name] = tc.redis(t)
		}
	}
	const workers = 2
	s := start(t, `{"rules": [{"name": "r", `+hundred+`}]}`, envoytest.Options{
		Redis: []string{server.Addr}, Workers: workers, Beside: beside,
		Edit: func(c *envoyconf.Config) {
			for _, tc := range trials {
				c.CopyCluster("redis", tc.name, addrs[tc.name])
				if tc.edit != nil {
					tc.edit(c, "static_resources/clusters/"+tc.name)
				}
			}
		},
	})
	testenv.Same(t, "lines before a request", strings.Count(s.Log(), "sluice: redis "), 0)
	for _, tc := range trials {
		t.Run(tc.name, func(t *testing.T) { awaitWords(t, s.Envoy, s.Beside[tc.name], tc.name, tc.want, workers) })
	}
}

// awaitWords waits for each worker's line about a cluster.
func awaitWords(t *testing.T, e *envoytest.Envoy, url, cluster, want string, workers int) {
	t.Helper()
	words := regexp.MustCompile(`(?m)sluice: redis "` + cluster + `" ` + want)
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	testenv.Wait(t, patience, func() error {
		for range 4 { // each of a connection, of which Envoy gives each worker some
			if resp, err := client.Get(url); err == nil {
				resp.Body.Close()
			}
		}
		if n := len(words.FindAllString(e.Log(), -1)); n != workers {
			return fmt.Errorf("%d lines with %q, want one of each worker", n, want)
		}
		return nil
	})
}
