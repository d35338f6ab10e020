package envoy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/render"
	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// servers start what Redis each file expects, and return how Envoy finds it.
var servers = map[string]func(*testing.T) func(*envoyconf.Config){
	"ai.yaml":        oneRedis,
	"embedded.yaml":  func(*testing.T) func(*envoyconf.Config) { return func(*envoyconf.Config) {} },
	"per-route.yaml": oneRedis,
	"redis.yaml":     oneRedis,
	"tls-acl.yaml": func(t *testing.T) func(*envoyconf.Config) {
		_, edit := startTLS(t)
		return edit
	},
	"redis-cluster.yaml": func(t *testing.T) func(*envoyconf.Config) {
		return clusterOf(redistest.StartCluster(t, 3).Nodes)
	},
	"failover.yaml": func(t *testing.T) func(*envoyconf.Config) {
		primary := redistest.Start(t)
		return func(c *envoyconf.Config) {
			setEndpoint(c, "redis", 0, primary.Port)
			setEndpoint(c, "redis", 1, primary.Port)
		}
	},
}

func oneRedis(t *testing.T) func(*envoyconf.Config) {
	server := redistest.Start(t)
	return func(c *envoyconf.Config) { c.SetRedis(server.Addr) }
}

// TestMonitoring: dashboard, alerts and recording rules have data from each file, and
// without the labels of its stats_config by the relabelling of prometheus.yaml.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	for _, file := range slices.Sorted(maps.Keys(servers)) {
		t.Run(file, func(t *testing.T) { t.Parallel(); monitor(t, file, true) })
	}
	for _, file := range []string{"redis.yaml", "embedded.yaml"} {
		t.Run(file+" without labels", func(t *testing.T) { t.Parallel(); monitor(t, file, false) })
	}
}

func monitor(t *testing.T, file string, labels bool) {
	t.Helper()
	edit := servers[file](t)
	g := start(t, file, []string{"REDIS_PASSWORD=" + password}, func(c *envoyconf.Config) {
		edit(c)
		c.SetPlugin(everything(t, c.Get(envoyconf.Limiter+"/configuration/value").(string)))
		if !labels {
			c.Delete("stats_config")
		}
	})
	without := promtest.OfRedis
	if file != "embedded.yaml" {
		without = nil
	}
	p := g.data(without)
	if labels {
		p.ExpectLabels("per-key", "an-hour")
	} else {
		p.ExpectLabels("per_key", "an_hour") // the name of a metric has no "-"
	}
}

// data expects dashboard, alerts and access log to have data, but for the metrics of
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
			launch(t, 2, write(t, rendered.YAML), nil, port, admin).data(c.without).ExpectLabels("per-key", "an-hour")
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
