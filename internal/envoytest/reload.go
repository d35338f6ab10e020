package envoytest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

func (e *Envoy) listenersPath() string { return filepath.Join(e.dir, "listeners.yaml") }

// listeners are the names of the listeners that Reload replaces.
func (e *Envoy) listeners() []string {
	return append(slices.Sorted(maps.Keys(e.beside)), "limited")
}

// writeListeners puts the listeners into a file of their own, as the answer of a
// listener discovery service.
func (e *Envoy) writeListeners(c *envoyconf.Config) {
	e.t.Helper()
	var resources []any
	for _, name := range e.listeners() {
		listener := map[string]any{"@type": "type.googleapis.com/envoy.config.listener.v3.Listener"}
		from, _ := c.Get("static_resources/listeners/" + name).(map[string]any)
		maps.Copy(listener, from)
		resources = append(resources, listener)
	}
	e.version++
	e.moveIntoPlace(e.listenersPath(), map[string]any{"version_info": fmt.Sprint(e.version), "resources": resources})
}

// Reload replaces the listeners by ones with other plugin configurations, and
// reports whether Envoy took them. The Envoy was started with Dynamic.
func (e *Envoy) Reload(plugin string, beside map[string]string) bool {
	e.t.Helper()
	const taken, refused = "listener_manager.lds.update_success", "listener_manager.lds.update_rejected"
	before := e.Stats("listener_manager.lds")
	e.opts.Plugin, e.opts.Beside = plugin, beside
	c := e.config()
	if _, err := c.YAML(); err != nil {
		e.t.Fatal(err)
	}
	e.writeListeners(c)

	var after map[string]int64
	testenv.Wait(e.t, startLimit, func() error {
		if after = e.Stats("listener_manager.lds"); after[taken]+after[refused] == before[taken]+before[refused] {
			return fmt.Errorf("the new listeners were neither taken nor refused: %v", after)
		}
		return nil
	})
	return after[taken] > before[taken]
}

// RefusedAtStart returns what Envoy logs when it refuses its configuration,
// and fails the test if it does not.
func RefusedAtStart(t testing.TB, opts Options) string {
	t.Helper()
	e := Launch(t, opts)
	testenv.Wait(t, startLimit, func() error {
		if !e.Ended() {
			return fmt.Errorf("envoy runs with a configuration that it should refuse")
		}
		return nil
	})
	e.stopped = true
	return strings.TrimSpace(e.Log())
}

const wasmType = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm"

func (e *Envoy) filterPath() string { return filepath.Join(e.dir, "filter.yaml") }

// discover makes the limiter one that Envoy discovers, as an answer of an extension
// configuration discovery service in a file.
// https://www.envoyproxy.io/docs/envoy/latest/configuration/overview/extension
func (e *Envoy) discover(c *envoyconf.Config) {
	e.t.Helper()
	e.writeFilter(c)
	c.Set(envoyconf.LimiterFilter, map[string]any{
		"name": "sluice",
		"config_discovery": map[string]any{
			"config_source": map[string]any{"path_config_source": map[string]any{"path": e.filterPath()}},
			"type_urls":     []any{wasmType},
		},
	})
}

func (e *Envoy) writeFilter(c *envoyconf.Config) {
	e.t.Helper()
	filter, _ := c.Get(envoyconf.LimiterFilter).(map[string]any)
	filter = maps.Clone(filter)
	filter["@type"] = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
	e.version++
	e.moveIntoPlace(e.filterPath(), map[string]any{"version_info": fmt.Sprint(e.version), "resources": []any{filter}})
}

// moveIntoPlace writes a file that Envoy watches. It appears at once and whole.
// https://www.envoyproxy.io/docs/envoy/latest/configuration/overview/xds_api#filesystem-subscriptions
func (e *Envoy) moveIntoPlace(path string, content any) {
	e.t.Helper()
	text, err := yaml.Marshal(content)
	if err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		e.t.Fatal(err)
	}
}

// Discover replaces the limiter's configuration, and waits until Envoy has taken it.
// The Envoy was started with Discovered.
func (e *Envoy) Discover(plugin string) {
	e.t.Helper()
	const stats = "extension_config_discovery.*sluice.config_"
	sum := func(suffix string) (sum int64) {
		for _, n := range e.Stats(stats + suffix) {
			sum += n
		}
		return sum
	}
	before := sum("reload")
	e.opts.Plugin = plugin
	e.opts.Discovered = false // the configuration as it is before discover
	c := e.config()
	e.opts.Discovered = true
	e.writeFilter(c)
	testenv.Wait(e.t, startLimit, func() error {
		if sum("fail") > 0 {
			e.t.Fatal("Envoy refused the filter's configuration")
		}
		if sum("reload") == before {
			return fmt.Errorf("the new configuration was not taken")
		}
		return nil
	})
}
