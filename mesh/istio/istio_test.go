package istio

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"istio.io/istio/pkg/config"
	"istio.io/istio/pkg/config/crd"
	"istio.io/istio/pkg/config/schema/collections"
	"istio.io/istio/pkg/test/env"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// applied is what is applied of a file, for a Redis on this machine.
func applied(t *testing.T, name string, redisPort int, sets ...meshtest.Values) []config.Config {
	t.Helper()
	return parse(t, meshtest.Render(t, "istio/"+name+".yaml", append(sets, meshtest.At(image, redisPort))...))
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
			text := meshtest.Render(t, "istio/"+dir+".yaml", meshtest.At(image, 6380), more)
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
	m := startMesh(t, applied(t, "gateway", server.Port))
	p := m.start("gateway-a")
	p.AwaitLimit("100")
	p.ExpectUntouched()
	envoytest.AwaitRejection(t, p.URL)
	if keys := redistest.Counters(t, server.Client(), ""); len(keys) != 1 {
		t.Errorf("Redis has the counters %q, want 1", keys)
	}
}

// TestSidecar is the same for a workload, whose callers are limited.
func TestSidecar(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	m := startMesh(t, applied(t, "sidecar", server.Port))
	p := m.start("reviews")
	p.AwaitLimit("100")
	p.ExpectUntouched()
	envoytest.AwaitRejection(t, p.URL)
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
	configs := append(applied(t, "gateway", port, strict),
		applied(t, "sidecar", port, strict)...)
	m := startMesh(t, configs)
	for _, p := range []*proxy{m.start("gateway-a"), m.start("reviews")} {
		p.AwaitLimit("100")
		p.ExpectStrict()
	}
}

// TestShadow: what is applied for a rollout rejects and changes nothing.
func TestShadow(t *testing.T) {
	t.Parallel()
	configs := applied(t, "gateway", redistest.Start(t).Port, meshtest.Plugin(t, `{"rules": [
		{"name": "trial", "mode": "shadow", "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]}]}`))
	p := startMesh(t, configs).start("gateway-a")
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
	// One node that has all slots.
	// https://redis.io/docs/latest/operate/oss_and_stack/management/security/encryption/
	const password = "correct-horse"
	certFile, keyFile := testenv.Certificate(t)
	port := testenv.FreePort(t)
	node := redistest.Start(t,
		"--requirepass", password, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1",
		"--cluster-port", fmt.Sprint(testenv.FreePort(t)),
		"--tls-port", fmt.Sprint(port), "--tls-cluster", "yes", "--tls-auth-clients", "no",
		"--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-ca-cert-file", certFile)
	client := redis.NewClient(&redis.Options{Addr: node.Addr, Password: password, Protocol: 2})
	t.Cleanup(func() { client.Close() })
	testenv.OK(t, client.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	text := meshtest.Render(t, "istio/gateway.yaml", meshtest.At(image, port), cluster)
	m := startMesh(t, parse(t, strings.Replace(text, "/etc/sluice/ca.crt", certFile, 1)))
	p := m.start("gateway-a", "REDIS_PASSWORD="+password)
	p.AwaitLimit("100")
	envoytest.AwaitRejection(t, p.URL)
}

// TestShared: two gateways and a sidecar admit together what one limit admits.
func TestShared(t *testing.T) {
	t.Parallel()
	const limit = 30
	port, shared := redistest.Start(t).Port, meshtest.Free(t, "sliding_window_log", limit)
	m := startMesh(t, append(applied(t, "gateway", port, shared), applied(t, "sidecar", port, shared)...))
	proxies := []*proxy{m.start("gateway-a"), m.start("gateway-b"), m.start("reviews")}
	expect := func(what string, p *proxy, status int) {
		t.Helper()
		a, err := p.Get("x-cost", "1")
		testenv.OK(t, err)
		testenv.Same(t, what, a.Status, status)
	}
	for i, p := range proxies {
		p.AwaitLimit(fmt.Sprint(limit))
		for n := range limit / 3 {
			expect(fmt.Sprintf("proxy %d: request %d", i, n), p, http.StatusOK)
		}
	}
	for i, p := range proxies {
		expect(fmt.Sprintf("proxy %d: one more than the limit", i), p, http.StatusTooManyRequests)
	}
}

// TestChange: a new configuration takes over. Beside one with a mistake, which the log names, the one before goes on.
// No request is lost.
func TestChange(t *testing.T) {
	t.Parallel()
	const algorithm, mistaken = "sliding_window_log", "sliding_window_lag"
	port := redistest.Start(t).Port
	m := startMesh(t, applied(t, "gateway", port, meshtest.Free(t, algorithm, 10)))
	p := m.start("gateway-a")
	p.AwaitLimit("10")
	stop := p.Load()
	for _, limit := range []int{20, 30, 40, 50} {
		m.apply(applied(t, "gateway", port, meshtest.Free(t, algorithm, limit)))
		p.AwaitLimit(fmt.Sprint(limit))
	}
	m.apply(applied(t, "gateway", port, meshtest.Free(t, mistaken, 60)))
	p.AwaitLog(meshtest.Patience, `rules[0].limits[0].algorithm: "`+mistaken+`"`)
	for range 100 {
		if a, err := p.Get(); err != nil || a.Limit != "50" {
			t.Fatalf("limit %q, %v; want that of before, 50", a.Limit, err)
		}
	}
	m.apply(applied(t, "gateway", port, meshtest.Free(t, algorithm, 70)))
	p.AwaitLimit("70")
	stop()
}
