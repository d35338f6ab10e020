package envoytest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// accessLog writes one JSON object a request, an Entry.
const accessLog = `
- name: envoy.access_loggers.file
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
    path: %s
    log_format:
      json_format:
        method: "%%REQ(:METHOD)%%"
        path: "%%REQ(:PATH)%%"
        status: "%%RESPONSE_CODE%%"
        state: "%%FILTER_STATE(wasm.sluice:PLAIN)%%"
        details: "%%RESPONSE_CODE_DETAILS%%"
        flags: "%%RESPONSE_FLAGS%%"
        millis: "%%DURATION%%"
`

// shipped is a file of the repository, or Options.Text.
func (e *Envoy) shipped(name string) *envoyconf.Config {
	e.t.Helper()
	text := e.opts.Text
	if name != "" {
		text = string(testenv.File(e.t, name))
	}
	if plugin := "/etc/envoy/sluice.wasm"; strings.Contains(text, plugin) {
		text = strings.ReplaceAll(text, plugin, testenv.WasmPath(e.t))
	}
	return Parse(e.t, text)
}

// Parse reads YAML: a configuration of Envoy, a part of one, or a resource of Kubernetes that has some.
func Parse(t testing.TB, text string) *envoyconf.Config {
	t.Helper()
	c, err := envoyconf.Parse([]byte(text))
	testenv.OK(t, err)
	return c
}

// another is the configuration of Options.File or Options.Text.
func (e *Envoy) another() *envoyconf.Config {
	e.t.Helper()
	c := e.shipped(e.opts.File)
	const address = "static_resources/listeners/0/address/socket_address"
	c.Set(address, map[string]any{"address": "127.0.0.1", "port_value": e.port})
	c.Set("admin/address/socket_address/port_value", e.admin)
	if e.opts.File == relayFile {
		for _, name := range []string{"stats", "drain"} { // beside those of other relays
			c.Set("static_resources/listeners/"+name+"/address/socket_address",
				map[string]any{"address": "127.0.0.1", "port_value": 0})
		}
		c.Set("static_resources/clusters/admin/load_assignment/endpoints",
			c.Endpoints([]string{fmt.Sprintf("127.0.0.1:%d", e.admin)}))
	}
	if e.opts.Edit != nil {
		e.opts.Edit(c)
	}
	return c
}

// config is the shipped configuration with the test's changes.
func (e *Envoy) config() *envoyconf.Config {
	e.t.Helper()
	if e.opts.File != "" || e.opts.Text != "" {
		return e.another()
	}
	c := e.shipped("envoy.yaml")
	c.SetPorts(e.port, e.admin)
	c.SetWasm(testenv.WasmPath(e.t))
	if e.opts.Upstream != "" {
		c.SetUpstream(e.opts.Upstream)
	}
	if e.opts.Plugin != "" {
		c.SetPlugin(e.opts.Plugin)
	}
	e.routeToRedis(c)
	if e.opts.Quiet {
		c.Delete(envoyconf.ConnectionManager + "/access_log")
	} else {
		c.Set(envoyconf.ConnectionManager+"/access_log", c.Fragment(fmt.Sprintf(accessLog, e.accessLogPath())))
	}
	if e.opts.Edit != nil {
		e.opts.Edit(c)
	}
	if e.opts.Discovered {
		e.discover(c)
	}
	for name, plugin := range e.opts.Beside {
		c.CopyListener(name, e.beside[name], plugin)
	}
	return c
}

func (e *Envoy) routeToRedis(c *envoyconf.Config) {
	switch {
	case len(e.opts.Redis) == 0:
		c.RemoveRedis()
	case e.opts.Route == Direct && ThroughRelay:
		if e.relay == nil {
			e.relay = NewRelay(e.t, e.opts.Redis[0], e.patient)
		}
		Relayed(c, "redis", e.relay.Addr)
	case e.opts.Route == Direct:
		c.SetRedis(e.opts.Redis[0])
	default:
		c.RouteByRedisProxy(e.opts.Route == Cluster, e.opts.Redis...)
	}
}

// writeConfig writes Envoy's configuration file, and the listeners'.
func (e *Envoy) writeConfig() {
	e.t.Helper()
	c := e.config()
	if e.opts.Dynamic {
		e.writeListeners(c)
		for _, name := range e.listeners() {
			c.Remove("static_resources/listeners", name)
		}
		c.Set("dynamic_resources", c.Fragment(fmt.Sprintf("lds_config: {path_config_source: {path: %s}}", e.listenersPath())))
	}
	if e.opts.Dynamic || e.opts.Discovered {
		c.Set("node", map[string]any{"id": "test", "cluster": "test"})
	}
	text, err := c.YAML()
	if err != nil {
		e.t.Fatal(err)
	}
	if err := os.WriteFile(e.configPath(), text, 0o600); err != nil {
		e.t.Fatal(err)
	}
}
