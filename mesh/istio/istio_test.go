package istio

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"istio.io/istio/pkg/config"
	"istio.io/istio/pkg/config/crd"
	"istio.io/istio/pkg/config/schema/collections"
	"istio.io/istio/pkg/test/env"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// free is a plugin configuration whose limit costs nothing unless the request
// says so; nothing refills it while a test runs.
func free(limit int) string {
	return fmt.Sprintf(`{"redis": {"cluster": "sluice-redis", "timeout": "10s"}, "failure": {"mode": "deny"}, "rules": [
		{"name": "shared", "cost": {"header": "x-cost", "default": 0, "max": 10},
		"limits": [{"algorithm": "sliding_window_log", "limit": %d, "window": "1d"}]}]}`, limit)
}

// at are the values for a Redis on this machine.
func at(port int) meshtest.Values {
	return meshtest.Values{
		"image": image, "redis": meshtest.Values{"nodes": []any{meshtest.Values{"host": "127.0.0.1", "port": port}}},
	}
}

var (
	// strict are the values that have proxies take no request which could be read in two ways.
	strict = meshtest.Values{"istio": meshtest.Values{"strictHTTP": true}}
	// cluster are those of a Redis Cluster with TLS and a password.
	cluster = meshtest.Values{"redis": meshtest.Values{
		"cluster": true, "username": "", "passwordEnv": "REDIS_PASSWORD",
		"tls": meshtest.Values{"enabled": true, "ca": "/etc/sluice/ca.crt"},
	}}
)

// TestValid holds what is applied against the schemas of Istio's CRDs and
// against the validation of its webhook.
func TestValid(t *testing.T) {
	t.Parallel()
	schemas, err := crd.NewValidatorFromFilesWithOptions(
		[]string{filepath.Join(env.IstioSrc, "manifests/charts/base/files/crd-all.gen.yaml")}, crd.WithoutCRDValidation(),
	)
	testenv.OK(t, err)
	for _, dir := range []string{"gateway", "sidecar"} {
		for _, more := range []meshtest.Values{nil, cluster, strict} {
			text := render(t, dir, at(6380), more)
			testenv.Same(t, dir+": that the text has Redis' port", strings.Contains(text, "6380"), true)
			if err := schemas.ValidateCustomResourceYAML(text, nil); err != nil {
				t.Errorf("%s: %v", dir, err)
			}
			for _, c := range parse(t, text) {
				schema, ok := collections.Pilot.FindByGroupVersionKind(c.GroupVersionKind)
				if !ok {
					t.Fatalf("no schema of %v", c.GroupVersionKind)
				}
				// A field that Envoy does not have is only a warning, next to the
				// one that every EnvoyFilter has.
				const always = "EnvoyFilter exposes internal implementation details"
				warning, err := schema.ValidateConfig(c)
				if err != nil {
					t.Errorf("%s: %s: %v", dir, c.Name, err)
				}
				if warning != nil && !strings.HasPrefix(warning.Error(), always) {
					t.Errorf("%s: %s: warning %v", dir, c.Name, warning)
				}
			}
		}
	}
}

// TestGateway applies the files as they are: the image is fetched, and the
// limit that they come with limits.
func TestGateway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	m := startMesh(t, parse(t, render(t, "gateway", at(server.Port))))
	p := m.gateway("gateway-a")
	p.AwaitLimit("100")
	p.ExpectUntouched()
	p.AwaitRejection()
	if n := server.Client().DBSize(t.Context()).Val(); n != 1 {
		t.Errorf("Redis has %d counters, want 1", n)
	}
}

// TestSidecar is the same for a workload, whose callers are limited.
func TestSidecar(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	m := startMesh(t, parse(t, render(t, "sidecar", at(server.Port))))
	p := m.sidecar()
	p.AwaitLimit("100")
	p.ExpectUntouched()
	p.AwaitRejection()
	if keys := server.Client().Keys(t.Context(), "*").Val(); len(keys) != 1 ||
		!strings.Contains(keys[0], "per-caller|plain-text") {
		t.Errorf("Redis has %q", keys)
	}
}

// TestStrict: with strictHTTP no request is taken that could be read in two
// ways.
func TestStrict(t *testing.T) {
	t.Parallel()
	port := redistest.Start(t).Port
	configs := append(parse(t, render(t, "gateway", at(port), strict)),
		parse(t, render(t, "sidecar", at(port), strict))...)
	m := startMesh(t, configs)
	for _, p := range []*proxy{m.gateway("gateway-a"), m.sidecar()} {
		p.AwaitLimit("100")
		p.ExpectStrict()
	}
}

// TestShadow: what is applied for a rollout rejects and changes nothing.
func TestShadow(t *testing.T) {
	t.Parallel()
	configs := parse(t, render(t, "gateway", at(redistest.Start(t).Port)))
	setPlugin(t, plugin(t, configs), `{"redis": {"cluster": "sluice-redis"}, "rules": [
		{"name": "trial", "mode": "shadow", "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]}]}`)
	p := startMesh(t, configs).gateway("gateway-a")
	testenv.Wait(t, meshtest.Patience, func() error {
		_, _ = p.Get()
		if !strings.Contains(p.Log(), `"shadow:trial"`) {
			return fmt.Errorf("the access log has no rejection in shadow")
		}
		return nil
	})
	p.ExpectUntouched()
}

// TestRedisCluster: through redis_proxy, with TLS and a password.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	const password = "correct-horse"
	cert, port := startCluster(t, password)
	text := render(t, "gateway", at(port), cluster)
	text = strings.Replace(text, "/etc/sluice/ca.crt", cert, 1)
	m := startMesh(t, parse(t, text))
	p := m.gateway("gateway-a", "REDIS_PASSWORD="+password)
	p.AwaitLimit("100")
	p.AwaitRejection()
}

// TestShared: two gateways and a sidecar admit together what one limit admits.
func TestShared(t *testing.T) {
	t.Parallel()
	const limit = 30
	server := redistest.Start(t)
	configs := parse(t, render(t, "gateway", at(server.Port)))
	setPlugin(t, plugin(t, configs), free(limit))
	inbound := parse(t, render(t, "sidecar", at(server.Port)))
	setPlugin(t, plugin(t, inbound), free(limit))
	m := startMesh(t, append(configs, inbound...))

	proxies := []*proxy{m.gateway("gateway-a"), m.gateway("gateway-b"), m.sidecar()}
	admitted := make([]int, len(proxies))
	for i, p := range proxies {
		p.AwaitLimit(fmt.Sprint(limit))
		for range limit / 3 {
			admitted[i] += count(t, p)
		}
	}
	testenv.SameList(t, "the requests admitted by each", admitted, []int{limit / 3, limit / 3, limit / 3})
	for i, p := range proxies {
		if count(t, p) != 0 {
			t.Errorf("proxy %d admits more than the limit", i)
		}
	}
}

// count sends a request of cost 1 and returns 1 if it was admitted.
func count(t *testing.T, p *proxy) int {
	t.Helper()
	a, err := p.Get("x-cost", "1")
	testenv.OK(t, err)
	switch a.Status {
	case http.StatusOK:
		return 1
	case http.StatusTooManyRequests:
		return 0
	default:
		t.Fatalf("status %d", a.Status)
		return 0
	}
}

// limited is a mesh with one gateway that limits by 10, and the WasmPlugin there.
func limited(t *testing.T) (*mesh, *proxy, *config.Config) {
	t.Helper()
	server := redistest.Start(t)
	configs := parse(t, render(t, "gateway", at(server.Port)))
	c := plugin(t, configs)
	setPlugin(t, c, free(10))
	m := startMesh(t, configs)
	p := m.gateway("gateway-a")
	p.AwaitLimit("10")
	copied := c.DeepCopy()
	return m, p, &copied
}

// TestChange: a new configuration takes over, and no request is lost.
func TestChange(t *testing.T) {
	t.Parallel()
	m, p, c := limited(t)
	stop := p.Load()
	for _, limit := range []int{20, 30, 40, 50} {
		setPlugin(t, c, free(limit))
		m.apply(c.DeepCopy())
		p.AwaitLimit(fmt.Sprint(limit))
	}
	stop()
}

// TestMistake: the configuration before goes on, the log says why, and what is
// right again is taken.
func TestMistake(t *testing.T) {
	t.Parallel()
	m, p, c := limited(t)
	stop := p.Load()
	setPlugin(t, c, strings.Replace(free(20), "sliding_window_log", "sliding_window_lag", 1))
	m.apply(c.DeepCopy())
	testenv.Wait(t, meshtest.Patience, func() error {
		if !strings.Contains(p.Log(), `rules[0].limits[0].algorithm: "sliding_window_lag"`) {
			return fmt.Errorf("the log does not name the mistake")
		}
		return nil
	})
	for range 100 {
		if a, err := p.Get(); err != nil || a.Limit != "10" {
			t.Fatalf("limit %q, %v; want that of before, 10", a.Limit, err)
		}
	}
	setPlugin(t, c, free(30))
	m.apply(c.DeepCopy())
	p.AwaitLimit("30")
	stop()
}
