// Package envoy_test runs each configuration of this directory in a real Envoy, with other
// addresses and paths. Redis may take its time, as a loaded machine does; nothing else is changed.
package envoy_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/process"
	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// patience bounds waits; a loaded machine may take long to compile the plugin.
const patience = 60 * time.Second

var ctx = context.Background()

// gateway is an Envoy with one of the configurations.
type gateway struct {
	*testenv.Process

	t          *testing.T
	url, admin string // admin is "host:port"
}

// asShipped is the Redis part of the shipped files, patient the same for a machine under load.
const (
	asShipped = `"redis": {"cluster": "redis"`
	patient   = asShipped + `, "timeout": "10s"`
)

// validated has the files that Envoy has validated on its own, as README.md advises. Each is validated
// once, since that compiles the plugin as a start does.
var validated sync.Map

// start runs Envoy with a configuration and two workers. The environment is added to Envoy's.
func start(t *testing.T, file string, env []string, edit func(*envoyconf.Config)) *gateway {
	t.Helper()
	return startWorkers(t, 2, file, env, edit)
}

func startWorkers(t *testing.T, workers int, file string, env []string, edit func(*envoyconf.Config)) *gateway {
	t.Helper()
	text := testenv.Read(t, file)
	changes := strings.NewReplacer("/etc/envoy/sluice.wasm", testenv.WasmPath(t), asShipped, patient)
	c, err := envoyconf.Parse([]byte(changes.Replace(string(text))))
	testenv.OK(t, err)
	port, admin := testenv.FreePort(t), testenv.FreePort(t)
	c.SetPorts(port, admin)
	c.Set(envoyconf.Listener+"/address/socket_address/address", "127.0.0.1")
	c.SetUpstream(envoytest.NewUpstream(t, nil).Addr)
	edit(c)
	text, err = c.YAML()
	testenv.OK(t, err)
	path := write(t, text)
	if _, done := validated.LoadOrStore(file, true); !done {
		validate := exec.Command(testenv.Tool(t, "envoy"), "--mode", "validate", "--log-level", "warning", "-c", path)
		validate.Env = append(os.Environ(), env...)
		if out, err := validate.CombinedOutput(); err != nil {
			t.Fatalf("envoy --mode validate: %v\n%s", err, out)
		}
	}
	return launch(t, workers, path, env, port, admin)
}

func write(t *testing.T, text []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "envoy.yaml")
	testenv.OK(t, os.WriteFile(path, text, 0o600))
	return path
}

// launch runs Envoy with a configuration as it is, which names the ports.
func launch(t *testing.T, workers int, path string, env []string, port, admin int) *gateway {
	t.Helper()
	g := &gateway{
		Process: testenv.Run(t, env, testenv.Tool(t, "envoy"), "--concurrency", strconv.Itoa(workers),
			"--disable-hot-restart", "--log-level", "warning", "-c", path),
		t: t, url: fmt.Sprintf("http://127.0.0.1:%d", port), admin: fmt.Sprintf("127.0.0.1:%d", admin),
	}
	g.Await(patience, func(ctx context.Context) error { return process.EnvoyReady(ctx, g.admin) })
	return g
}

// get returns the status of a request, and the capacity of the limit nearest to
// exhaustion, "" for none.
func (g *gateway) get(path string) (status int, limit string) {
	g.t.Helper()
	resp, err := http.Get(g.url + path)
	if err != nil {
		g.t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("X-RateLimit-Limit")
}

// limits sends requests until one is rejected, by a limit of the given capacity. Many are sent
// at once: one after the other might be no faster than the limit is restored.
func (g *gateway) limits(path, capacity string) {
	g.t.Helper()
	testenv.Wait(g.t, patience, func() error {
		var requests sync.WaitGroup
		rejected := make(chan string, 32)
		for range cap(rejected) {
			requests.Go(func() {
				if status, limit := g.get(path); status == http.StatusTooManyRequests {
					rejected <- limit
				}
			})
		}
		requests.Wait()
		close(rejected)
		for limit := range rejected {
			testenv.Same(g.t, path+": the limit that rejects", limit, capacity)
			return nil
		}
		return fmt.Errorf("%s: no request is rejected, want status 429 by the limit of %s", path, capacity)
	})
}

// counted wants the servers to have counters, as a rejection may come from the
// embedded store.
func counted(t *testing.T, servers ...redis.Cmdable) {
	t.Helper()
	var keys []string
	for _, server := range servers {
		found, err := server.Keys(ctx, "rl:*").Result()
		testenv.OK(t, err)
		keys = append(keys, found...)
	}
	if len(keys) == 0 {
		t.Error("Redis has no counters")
	}
}

// setEndpoint replaces the address of a cluster's endpoint.
func setEndpoint(c *envoyconf.Config, cluster string, index, port int) {
	address := map[string]any{"socket_address": map[string]any{"address": "127.0.0.1", "port_value": port}}
	c.Set(fmt.Sprintf("static_resources/clusters/%s/load_assignment/endpoints/0/lb_endpoints/%d/endpoint/address",
		cluster, index), address)
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	g, watched := startWatched(t, "embedded.yaml", nil, func(*envoyconf.Config) {})
	g.limits("/", "20")
	watched.data(promtest.OfRedis).ExpectLabels("per-key", "an-hour")
}

func TestRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	g, watched := startWatched(t, "redis.yaml", nil, func(c *envoyconf.Config) { c.SetRedis(server.Addr) })
	g.limits("/", "20")
	counted(t, server.Client())
	if status, limit := g.get("/healthz"); status != http.StatusOK || limit != "" {
		t.Errorf("exempt path: status %d, limit %q; want 200 and none", status, limit)
	}
	watched.data(nil).ExpectLabels("per-key", "an-hour")
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3).Nodes
	g, watched := startWatched(t, "redis-cluster.yaml", nil, func(c *envoyconf.Config) {
		for i, node := range nodes {
			setEndpoint(c, "redis_nodes", i, node.Port)
		}
	})
	g.limits("/", "20")
	counted(t, nodes[0].Client(), nodes[1].Client(), nodes[2].Client())
	watched.data(nil).ExpectLabels("per-key", "an-hour")
}

// TestPerRoute: routes without limits, with a filter of their own, and with a
// tier that their metadata names.
func TestPerRoute(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	g, watched := startWatched(t, "per-route.yaml", nil, func(c *envoyconf.Config) { c.SetRedis(server.Addr) })
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
		if status, limit := g.get(route.path); status != http.StatusOK || limit != route.limit {
			t.Errorf("%s: status %d, limit %q; want 200, %q", route.path, status, limit, route.limit)
		}
	}
	g.limits("/login", "5")
	g.limits("/reports/a", "2")
	g.limits("/a", "20")
	counted(t, server.Client())
	watched.data(nil).ExpectLabels("per-key", "an-hour")
}
