package envoytest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

func (e *Envoy) listenerPath() string { return filepath.Join(e.dir, "listener.yaml") }

// writeListener puts the listener into a file of its own, as the answer of a
// listener discovery service. The file appears at once and whole, as Envoy
// watches for it to be moved into place.
// https://www.envoyproxy.io/docs/envoy/latest/configuration/overview/xds_api#filesystem-subscriptions
func (e *Envoy) writeListener(c *envoyconf.Config) {
	e.t.Helper()
	listener := map[string]any{"@type": "type.googleapis.com/envoy.config.listener.v3.Listener"}
	from, _ := c.Get(envoyconf.Listener).(map[string]any)
	for key, value := range from {
		listener[key] = value
	}
	e.version++
	text, err := yaml.Marshal(map[string]any{"version_info": fmt.Sprint(e.version), "resources": []any{listener}})
	if err != nil {
		e.t.Fatal(err)
	}
	fresh := e.listenerPath() + ".new"
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Rename(fresh, e.listenerPath()); err != nil {
		e.t.Fatal(err)
	}
}

// Reload replaces the listener by one with another plugin configuration, and
// reports whether Envoy took it. The Envoy was started with Dynamic.
func (e *Envoy) Reload(plugin string) bool {
	e.t.Helper()
	const taken, refused = "listener_manager.lds.update_success", "listener_manager.lds.update_rejected"
	before := e.Stats("listener_manager.lds")
	e.opts.Plugin = plugin
	c := e.config()
	if _, err := c.YAML(); err != nil {
		e.t.Fatal(err)
	}
	e.writeListener(c)

	var after map[string]int64
	testenv.Wait(e.t, startLimit, func() error {
		if after = e.Stats("listener_manager.lds"); after[taken]+after[refused] == before[taken]+before[refused] {
			return fmt.Errorf("the new listener was neither taken nor refused: %v", after)
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
		select {
		case <-e.Exited():
			return nil
		default:
			return fmt.Errorf("envoy runs with a configuration that it should refuse")
		}
	})
	e.stopped = true
	return strings.TrimSpace(e.Log())
}
