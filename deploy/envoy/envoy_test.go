// Package envoy_test runs each configuration of this directory in a real Envoy, with other
// addresses and paths. Redis may take its time, as a loaded machine does; nothing else is changed.
package envoy_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/cmd/sluice/render"
	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// patience bounds waits; a loaded machine may take long to compile the plugin.
const patience = 60 * time.Second

var ctx = context.Background()

// asShipped is the Redis part of the shipped files, patient the same for a machine under load.
const (
	asShipped = `"redis": {"cluster": "redis"`
	patient   = asShipped + `, "timeout": "10s"`
)

// start runs Envoy with a file of this directory. The environment is added to Envoy's.
func start(t *testing.T, file string, edit func(*envoyconf.Config), env ...string) *envoytest.Envoy {
	t.Helper()
	return envoytest.Start(t, envoytest.Options{
		Text: strings.ReplaceAll(string(testenv.Read(t, file)), asShipped, patient), Env: env,
		Edit: func(c *envoyconf.Config) {
			c.SetUpstream(envoytest.NewUpstream(t, nil).Addr)
			edit(c)
		},
	})
}

// decided wants requests to be rejected by a limit of the given capacity, and Redis to have counters: a rejection
// may come from the embedded store.
func decided(t *testing.T, e *envoytest.Envoy, capacity string, server redis.Cmdable) {
	t.Helper()
	e.AwaitRejection("/", capacity)
	if n, err := server.DBSize(ctx).Result(); err != nil || n == 0 {
		t.Errorf("Redis has %d counters, %v", n, err)
	}
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	start(t, "embedded.yaml", func(*envoyconf.Config) {}).AwaitRejection("/", "20")
}

func TestRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e := start(t, "redis.yaml", func(c *envoyconf.Config) { c.SetRedis(server.Addr) })
	decided(t, e, "20", server.Client())
	resp, _, err := testenv.Send(http.MethodGet, e.URL+"/healthz", "")
	testenv.OK(t, err)
	testenv.Same(t, "status of the exempt path", resp.StatusCode, http.StatusOK)
	testenv.Same(t, "its limit", resp.Header.Get("X-RateLimit-Limit"), "")
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	e := start(t, "redis-cluster.yaml", func(c *envoyconf.Config) {
		c.Set("static_resources/clusters/redis_nodes/load_assignment/endpoints", c.Endpoints(cluster.Addrs()))
	})
	decided(t, e, "20", cluster.Client())
}

// TestPerRoute: routes without limits, with a filter of their own, and with a
// tier that their metadata names.
func TestPerRoute(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e := start(t, "per-route.yaml", func(c *envoyconf.Config) { c.SetRedis(server.Addr) })
	for _, route := range []struct{ path, limit string }{
		{"/static/a", ""},
		{"/login", "5"},
		{"/reports/a", "2"},
		{"/a", "20"},
		// A route is chosen by the path that it leads to.
		{"/static/../a", "20"},
		{"/static/%2e%2e/login", "5"},
		{"//reports/a", "2"},
	} {
		resp, _, err := testenv.Send(http.MethodGet, e.URL+route.path, "")
		testenv.OK(t, err)
		testenv.Same(t, route.path+": status", resp.StatusCode, http.StatusOK)
		testenv.Same(t, route.path+": limit", resp.Header.Get("X-RateLimit-Limit"), route.limit)
	}
	e.AwaitRejection("/login", "5")
	e.AwaitRejection("/reports/a", "2")
	decided(t, e, "20", server.Client())
}

// TestFailover: only the primary is asked, and who becomes it is found.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(primary.Port))
	e := start(t, "failover.yaml", func(c *envoyconf.Config) {
		c.Set(envoyconf.RedisCluster+"/load_assignment/endpoints", c.Endpoints([]string{replica.Addr, primary.Addr}))
	})
	await := func(asked *redistest.Server) {
		testenv.Wait(t, patience, func() error {
			_, _, _ = testenv.Send(http.MethodGet, e.URL, "")
			return asked.Scripted()
		})
	}
	await(primary)
	decided(t, e, "20", primary.Client())
	if replica.Scripted() == nil {
		t.Error("the replica was asked")
	}
	primary.Kill()
	testenv.OK(t, replica.Client().ReplicaOf(ctx, "NO", "ONE").Err())
	await(replica)
	decided(t, e, "20", replica.Client())
}

// TestTLSAndACL: Envoy checks Redis' certificate, and Sluice is the user that
// the file's first lines describe.
func TestTLSAndACL(t *testing.T) {
	t.Parallel()
	const password = "correct-horse"
	cert, key := testenv.Certificate(t)
	port := testenv.FreePort(t)
	_, admin := redistest.StartWithUser(t, "tls-acl.yaml", password,
		"--tls-port", fmt.Sprint(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
	e := start(t, "tls-acl.yaml", func(c *envoyconf.Config) {
		c.SetRedis(fmt.Sprintf("127.0.0.1:%d", port))
		const tls = envoyconf.RedisCluster + "/transport_socket/typed_config"
		const validation = tls + "/common_tls_context/validation_context"
		c.Set(tls+"/sni", testenv.CertificateName)
		c.Set(validation+"/trusted_ca/filename", cert)
		c.Set(validation+"/match_typed_subject_alt_names/0/matcher/exact", testenv.CertificateName)
	}, "REDIS_PASSWORD="+password)
	decided(t, e, "20", admin)
}

// TestRendered: what "sluice render envoy" writes limits as it is.
func TestRendered(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]func(*testing.T) (render.Options, redis.Cmdable){
		"one Redis": func(t *testing.T) (render.Options, redis.Cmdable) {
			server := redistest.Start(t)
			return render.Options{Redis: []string{server.Addr}}, server.Client()
		},
		"a primary with replicas": func(t *testing.T) (render.Options, redis.Cmdable) {
			primary := redistest.Start(t)
			replica := redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(primary.Port))
			return render.Options{Redis: []string{replica.Addr, primary.Addr}}, primary.Client()
		},
		"a Redis Cluster": func(t *testing.T) (render.Options, redis.Cmdable) {
			cluster := redistest.StartCluster(t, 3)
			return render.Options{Cluster: true, Redis: cluster.Addrs()[:2]}, cluster.Client()
		},
		"TLS": func(t *testing.T) (render.Options, redis.Cmdable) {
			cert, key := testenv.Certificate(t)
			port := testenv.FreePort(t)
			server := redistest.Start(t, "--tls-port", fmt.Sprint(port), "--tls-cert-file", cert, "--tls-key-file", key,
				"--tls-auth-clients", "no")
			return render.Options{
				Redis: []string{fmt.Sprintf("127.0.0.1:%d", port)}, TLS: true, CA: cert, ServerName: testenv.CertificateName,
			}, server.Client()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, client := options(t)
			o.Plugin, o.Wasm = []byte(promtest.Everything), testenv.WasmPath(t)
			o.Upstream = envoytest.NewUpstream(t, nil).Addr
			o.Listen, o.Admin = "127.0.0.1:10000", "127.0.0.1:9901"
			rendered, err := render.Envoy(&o)
			testenv.OK(t, err)
			decided(t, envoytest.Start(t, envoytest.Options{Text: rendered.Text}), "3", client)
		})
	}
}

// TestMonitoringWithoutLabels: without the labels of stats_config, the relabelling of prometheus.yaml makes them,
// and dashboard, alerts, recording rules and access log have data. e2e's TestOperatorsView has those of envoy.yaml,
// and all files have its stats_config (deploy/deploy_test.go).
func TestMonitoringWithoutLabels(t *testing.T) {
	t.Parallel()
	for file, without := range map[string]*regexp.Regexp{"redis.yaml": nil, "embedded.yaml": promtest.OfRedis} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			e := start(t, file, func(c *envoyconf.Config) {
				c.SetPlugin(promtest.Alone)
				if without == nil {
					c.SetPlugin(promtest.Everything)
					c.SetRedis(server.Addr)
				}
				c.Delete("stats_config")
			})
			p := promtest.Start(t, strings.TrimPrefix(e.Admin, "http://"))
			p.ExpectData(func() { _, _, _ = testenv.Send(http.MethodGet, e.URL+"/api", "") }, without)
			promtest.ExpectLog(t, e.Log)
			p.ExpectLabels("per_key", "an_hour") // the name of a metric has no "-"
		})
	}
}
