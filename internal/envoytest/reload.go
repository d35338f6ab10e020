package envoytest

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
