package envoygateway

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// rendered has the resources that are applied, for a Redis on this machine.
func rendered(t *testing.T, redisPort int, sets ...meshtest.Values) string {
	t.Helper()
	return meshtest.Render(t, "envoy-gateway/gateway.yaml", append(sets, meshtest.Values{
		"image": image, "gateway": meshtest.Values{"name": "shop", "listeners": []any{"web"}},
		"redis": meshtest.Values{"nodes": []any{meshtest.Values{"host": "127.0.0.1", "port": redisPort}}},
	})...)
}

// free is a configuration of the plugin whose limit costs nothing.
func free(t *testing.T, algorithm string, limit int) meshtest.Values {
	t.Helper()
	return meshtest.Plugin(t, fmt.Sprintf(`{"redis": {"timeout": "10s"}, "failure": {"mode": "deny"}, "rules": [
		{"name": "free", "cost": 0, "limits": [{"algorithm": %q, "limit": %d, "window": "1d"}]}]}`, algorithm, limit))
}

// TestGateway applies the files as they are: Envoy Gateway accepts them and
// serves the plugin, and the limit that they come with limits.
func TestGateway(t *testing.T) {
	server := redistest.Start(t)
	g := start(t, rendered(t, server.Port))
	g.AwaitLimit("100")
	g.ExpectStrict() // by what Envoy Gateway does unless told otherwise
	rejection := envoytest.AwaitRejection(t, g.URL)
	testenv.Same(t, "the limit that rejects", rejection.Get("X-RateLimit-Limit"), "100")
	testenv.Same(t, "its Retry-After", rejection.Get("Retry-After"), "1")
	if n := server.Client().DBSize(t.Context()).Val(); n != 1 {
		t.Errorf("Redis has %d counters, want 1", n)
	}
	for policy, types := range map[[2]string][]string{
		{"EnvoyExtensionPolicy", "sluice"}:    {"Accepted"},
		{"EnvoyPatchPolicy", "sluice-redis"}:  {"Accepted", "Programmed"},
		{"EnvoyPatchPolicy", "sluice-reload"}: {"Accepted", "Programmed"},
	} {
		conditions := g.conditions(policy[0], policy[1])
		for _, kind := range types {
			if conditions[kind] != "True" {
				t.Errorf("%s is not %s: %q", policy, kind, conditions)
			}
		}
	}
}

// TestChange: a new configuration takes over, and no request is lost.
func TestChange(t *testing.T) {
	port := redistest.Start(t).Port
	g := start(t, rendered(t, port, free(t, "gcra", 10)))
	g.AwaitLimit("10")
	stop := g.Load()
	for _, limit := range []int{20, 30, 40, 50} {
		g.apply(rendered(t, port, free(t, "gcra", limit)))
		g.AwaitLimit(fmt.Sprint(limit))
	}
	stop()
}

// TestUpgrade: another image takes over, and no request is lost.
func TestUpgrade(t *testing.T) {
	port := redistest.Start(t).Port
	g := start(t, rendered(t, port, free(t, "gcra", 10)))
	g.AwaitLimit("10")
	stop := g.Load()
	g.apply(strings.ReplaceAll(rendered(t, port, free(t, "gcra", 20)), image, nextImage(t)))
	g.AwaitLimit("20")
	stop()
}

// nextImage pushes a plugin that differs in a custom section, and returns the
// image's name.
// https://webassembly.github.io/spec/core/binary/modules.html#custom-section
func nextImage(t *testing.T) string {
	t.Helper()
	const section = "\x00\x05\x04next"
	path := filepath.Join(t.TempDir(), "next.wasm")
	testenv.OK(t, os.WriteFile(path, append(testenv.Wasm(t), section...), 0o600))
	next := strings.TrimSuffix(image, ":v1") + ":v2"
	testenv.OK(t, push(path, next))
	return next
}

// TestMistake: the configuration before goes on, the log says why, and what is
// right again is taken.
func TestMistake(t *testing.T) {
	port := redistest.Start(t).Port
	g := start(t, rendered(t, port, free(t, "gcra", 10)))
	g.AwaitLimit("10")
	stop := g.Load()
	g.apply(rendered(t, port, free(t, "gcrx", 20)))
	g.awaitLog(`rules[0].limits[0].algorithm: "gcrx"`)
	g.awaitLog("Envoy rejected the last update")
	for range 100 {
		if a, err := g.Get(); err != nil || a.Limit != "10" {
			t.Fatalf("limit %q, %v; want that of before, 10", a.Limit, err)
		}
	}
	g.apply(rendered(t, port, free(t, "gcra", 30)))
	g.AwaitLimit("30")
	stop()
}

// TestMistakeAtStart: a proxy that has no configuration to fall back to
// rejects.
func TestMistakeAtStart(t *testing.T) {
	port := redistest.Start(t).Port
	g := start(t, rendered(t, port, free(t, "gcrx", 10)))
	g.awaitLog(`rules[0].limits[0].algorithm: "gcrx"`)
	g.awaitStatus(http.StatusServiceUnavailable)
	g.apply(rendered(t, port, free(t, "gcra", 20)))
	g.AwaitLimit("20")
}

// TestMistakeWithUpgrade: Envoy takes a configuration whose image it has yet to
// fetch, so it does not have the one before when it finds the mistake.
func TestMistakeWithUpgrade(t *testing.T) {
	port := redistest.Start(t).Port
	g := start(t, rendered(t, port, free(t, "gcra", 10)))
	g.AwaitLimit("10")
	g.apply(strings.ReplaceAll(rendered(t, port, free(t, "gcrx", 20)), image, nextImage(t)))
	g.awaitStatus(http.StatusServiceUnavailable)
}

// TestNotFetched: without an image that could not be fetched requests pass.
func TestNotFetched(t *testing.T) {
	resources := rendered(t, redistest.Start(t).Port)
	g := start(t, strings.ReplaceAll(resources, image, image+"-absent"))
	g.awaitLog("Failed to get Wasm module")
	g.awaitStatus(http.StatusOK)
	a, err := g.Get()
	testenv.SameError(t, "the request", err, nil)
	testenv.Same(t, "the status", a.Status, http.StatusOK)
	testenv.Same(t, "the limit", a.Limit, "")
}

// awaitStatus waits for requests to be answered with a status.
func (g *gateway) awaitStatus(status int) {
	g.T.Helper()
	testenv.Wait(g.T, meshtest.Patience, func() error {
		a, err := g.Get()
		if err == nil && a.Status != status {
			err = fmt.Errorf("status %d, want %d", a.Status, status)
		}
		return err
	})
}
