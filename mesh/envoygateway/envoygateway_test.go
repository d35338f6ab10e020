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
	return meshtest.Render(t, "envoy-gateway/gateway.yaml", append(sets, meshtest.At(image, redisPort),
		meshtest.Values{"gateway": meshtest.Values{"name": "shop", "listeners": []any{"web"}}})...)
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
	if keys := redistest.Counters(t, server.Client(), ""); len(keys) != 1 {
		t.Errorf("Redis has the counters %q, want 1", keys)
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
	g := start(t, rendered(t, port, meshtest.Free(t, "gcra", 10)))
	g.AwaitLimit("10")
	stop := g.Load()
	for _, limit := range []int{20, 30, 40, 50} {
		g.apply(rendered(t, port, meshtest.Free(t, "gcra", limit)))
		g.AwaitLimit(fmt.Sprint(limit))
	}
	stop()
}

// TestUpgrade: another image takes over, and no request is lost.
func TestUpgrade(t *testing.T) {
	port := redistest.Start(t).Port
	g := start(t, rendered(t, port, meshtest.Free(t, "gcra", 10)))
	g.AwaitLimit("10")
	stop := g.Load()
	g.apply(strings.ReplaceAll(rendered(t, port, meshtest.Free(t, "gcra", 20)), image, nextImage(t)))
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
	g := start(t, rendered(t, port, meshtest.Free(t, "gcra", 10)))
	g.AwaitLimit("10")
	stop := g.Load()
	g.apply(rendered(t, port, meshtest.Free(t, "gcrx", 20)))
	g.AwaitLog(meshtest.Patience, `rules[0].limits[0].algorithm: "gcrx"`)
	g.AwaitLog(meshtest.Patience, "Envoy rejected the last update")
	for range 100 {
		if a, err := g.Get(); err != nil || a.Limit != "10" {
			t.Fatalf("limit %q, %v; want that of before, 10", a.Limit, err)
		}
	}
	g.apply(rendered(t, port, meshtest.Free(t, "gcra", 30)))
	g.AwaitLimit("30")
	stop()
}

// TestMistakeWithNothingBefore: a proxy that has no configuration to fall back to rejects, at its start and after an
// upgrade: Envoy takes a configuration whose image it has yet to fetch, so it does not have the one before when it
// finds the mistake.
func TestMistakeWithNothingBefore(t *testing.T) {
	port := redistest.Start(t).Port
	mistaken := rendered(t, port, meshtest.Free(t, "gcrx", 10))
	g := start(t, mistaken)
	g.AwaitLog(meshtest.Patience, `rules[0].limits[0].algorithm: "gcrx"`)
	for _, resources := range []string{mistaken, strings.ReplaceAll(mistaken, image, nextImage(t))} {
		g.apply(resources)
		testenv.Wait(t, meshtest.Patience, func() error {
			a, err := g.Get()
			if err == nil && a.Status != http.StatusServiceUnavailable {
				err = fmt.Errorf("status %d, want 503", a.Status)
			}
			return err
		})
		g.apply(rendered(t, port, meshtest.Free(t, "gcra", 20)))
		g.AwaitLimit("20")
	}
}

// TestNotFetched: without an image that could not be fetched requests pass.
func TestNotFetched(t *testing.T) {
	resources := rendered(t, redistest.Start(t).Port)
	g := start(t, strings.ReplaceAll(resources, image, image+"-absent"))
	g.AwaitLog(meshtest.Patience, "Failed to get Wasm module")
	testenv.Wait(t, meshtest.Patience, func() error {
		a, err := g.Get()
		if err == nil && (a.Status != http.StatusOK || a.Limit != "") {
			err = fmt.Errorf("status %d, limit %q; want 200 and no limit", a.Status, a.Limit)
		}
		return err
	})
}
