package envoy_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/render"
	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// startWatched is start, with another listener that has every metric: the tests of the files expect
// dashboard, alerts and recording rules to have data of it.
func startWatched(
	t *testing.T, file string, env []string, edit func(*envoyconf.Config),
) (g, watched *gateway) {
	t.Helper()
	port := testenv.FreePort(t)
	g = start(t, file, env, func(c *envoyconf.Config) {
		edit(c)
		c.CopyListener("watched", port, everything(t, c.Get(envoyconf.Limiter+"/configuration/value").(string)))
	})
	return g, &gateway{g.Process, t, fmt.Sprintf("http://127.0.0.1:%d", port), g.admin}
}

// TestMonitoringAI is that for ai.yaml.
func TestMonitoringAI(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, watched := startWatched(t, "ai.yaml", nil, func(c *envoyconf.Config) { c.SetRedis(server.Addr) })
	watched.data(nil).ExpectLabels("per-key", "an-hour")
}

// TestMonitoringWithoutLabels: without the labels of stats_config, the relabelling of prometheus.yaml makes them.
func TestMonitoringWithoutLabels(t *testing.T) {
	t.Parallel()
	for file, without := range map[string]*regexp.Regexp{"redis.yaml": nil, "embedded.yaml": promtest.OfRedis} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			_, watched := startWatched(t, file, nil, func(c *envoyconf.Config) {
				if without == nil {
					c.SetRedis(server.Addr)
				}
				c.Delete("stats_config")
			})
			watched.data(without).ExpectLabels("per_key", "an_hour") // the name of a metric has no "-"
		})
	}
}

// data expects dashboard, alerts, recording rules and access log to have data, but for the metrics of
// without.
func (g *gateway) data(without *regexp.Regexp) *promtest.Prometheus {
	g.t.Helper()
	p := promtest.Start(g.t, g.admin)
	p.ExpectData(func() { g.get("/api") }, without)
	promtest.ExpectLog(g.t, g.Log)
	return p
}

// TestMonitoringRendered is the same for what "sluice render envoy" writes, run as it is.
func TestMonitoringRendered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, plugin string
		options      func(*testing.T) render.Options
		without      *regexp.Regexp
	}{
		{"no Redis", promtest.Alone, func(*testing.T) render.Options { return render.Options{} }, promtest.OfRedis},
		{"one Redis", promtest.Everything, func(t *testing.T) render.Options {
			return render.Options{Redis: []string{redistest.Start(t).Addr}}
		}, nil},
		{"a primary with replicas", promtest.Everything, func(t *testing.T) render.Options {
			primary := redistest.Start(t)
			replica := redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(primary.Port))
			return render.Options{Redis: []string{replica.Addr, primary.Addr}}
		}, nil},
		{"a Redis Cluster", promtest.Everything, func(t *testing.T) render.Options {
			nodes := redistest.StartCluster(t, 3).Nodes
			return render.Options{Cluster: true, Redis: []string{nodes[0].Addr, nodes[1].Addr}}
		}, nil},
		{"TLS", promtest.Everything, func(t *testing.T) render.Options {
			cert, key := testenv.Certificate(t)
			port := testenv.FreePort(t)
			redistest.Start(t, "--tls-port", fmt.Sprint(port), "--tls-cert-file", cert, "--tls-key-file", key,
				"--tls-auth-clients", "no")
			return render.Options{
				Redis: []string{fmt.Sprintf("127.0.0.1:%d", port)}, TLS: true, CA: cert, ServerName: testenv.CertificateName,
			}
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := c.options(t)
			port, admin := testenv.FreePort(t), testenv.FreePort(t)
			o.Plugin, o.Wasm, o.Upstream = []byte(c.plugin), testenv.WasmPath(t), envoytest.NewUpstream(t, nil).Addr
			o.Listen, o.Admin = fmt.Sprintf("127.0.0.1:%d", port), fmt.Sprintf("127.0.0.1:%d", admin)
			rendered, err := render.Envoy(&o)
			testenv.OK(t, err)
			launch(t, 2, write(t, []byte(rendered.Text)), nil, port, admin).data(c.without).ExpectLabels("per-key", "an-hour")
		})
	}
}

// everything is a configuration with all metrics that reaches Redis as another does.
func everything(t *testing.T, shipped string) string {
	t.Helper()
	var own, all map[string]json.RawMessage
	testenv.OK(t, json.Unmarshal([]byte(shipped), &own))
	if own["redis"] == nil {
		return promtest.Alone
	}
	testenv.OK(t, json.Unmarshal([]byte(promtest.Everything), &all))
	all["redis"] = own["redis"]
	text, err := json.Marshal(all)
	testenv.OK(t, err)
	return string(text)
}
