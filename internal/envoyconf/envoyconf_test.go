package envoyconf_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// shipped is the envoy.yaml that users get.
func shipped(t *testing.T) *envoyconf.Config {
	t.Helper()
	c, err := envoyconf.Parse(testenv.File(t, "envoy.yaml"))
	testenv.OK(t, err)
	return c
}

// again is a configuration as it reads after being written.
func again(t *testing.T, c *envoyconf.Config) *envoyconf.Config {
	t.Helper()
	text, err := c.YAML()
	testenv.OK(t, err)
	c, err = envoyconf.Parse(text)
	testenv.OK(t, err)
	return c
}

func TestChanges(t *testing.T) {
	t.Parallel()
	c := shipped(t)
	c.SetPorts(1001, 1002)
	c.SetUpstream("127.0.0.2:1003")
	c.SetRedis("127.0.0.3:1004")
	c.SetWasm("/x.wasm")
	c.SetBridge("/y.wasm")
	c.SetPlugin(`{"rules": []}`)
	c = again(t, c)

	const address = "/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/"
	for path, want := range map[string]any{
		envoyconf.Listener + "/address/socket_address/port_value":     1001,
		"admin/address/socket_address/port_value":                     1002,
		"static_resources/clusters/upstream" + address + "address":    "127.0.0.2",
		"static_resources/clusters/upstream" + address + "port_value": 1003,
		envoyconf.RedisCluster + address + "address":                  "127.0.0.3",
		envoyconf.RedisCluster + address + "port_value":               1004,
		envoyconf.Limiter + "/vm_config/code/local/filename":          "/x.wasm",
		envoyconf.Bridge + "/vm_config/code/local/filename":           "/y.wasm",
		envoyconf.Limiter + "/configuration/value":                    `{"rules": []}`,
	} {
		if got := c.Get(path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

func TestCopyListener(t *testing.T) {
	t.Parallel()
	c := shipped(t)
	c.CopyListener("second", 1001, "{}")
	c.SetPorts(1002, 1003)
	c = again(t, c)
	const chain = "/filter_chains/0/filters/0/typed_config/http_filters/sluice/typed_config/config/configuration/value"
	if port, plugin := c.Get("static_resources/listeners/second/address/socket_address/port_value"),
		c.Get("static_resources/listeners/second"+chain); port != 1001 || plugin != "{}" {
		t.Errorf("port %v, plugin configuration %v; want 1001, {}", port, plugin)
	}
	if port, plugin := c.Get(envoyconf.Listener+"/address/socket_address/port_value"),
		c.Get(envoyconf.Listener+chain); port != 1002 || plugin == "{}" {
		t.Errorf("the first listener has port %v, plugin configuration %v; want its own", port, plugin)
	}
}

func TestRemoveRedis(t *testing.T) {
	t.Parallel()
	c := shipped(t)
	c.RemoveRedis()
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	var plugin map[string]any
	if err := json.Unmarshal([]byte(c.Get(envoyconf.Limiter+"/configuration/value").(string)), &plugin); err != nil {
		t.Fatal(err)
	}
	if _, ok := plugin["redis"]; ok || plugin["rules"] == nil {
		t.Errorf("plugin configuration %v, want the rules and no redis", plugin)
	}
	if strings.Contains(string(text), "sluice-bridge") {
		t.Error("the Redis cluster is still there")
	}
}

// TestRouteByRedisProxy sees that the pieces name each other; that Envoy takes
// them is for e2e.
func TestRouteByRedisProxy(t *testing.T) {
	t.Parallel()
	c := shipped(t)
	c.RouteByRedisProxy(true, "127.0.0.1:1", "127.0.0.1:2")
	c = again(t, c)
	internal := c.Get(envoyconf.RedisCluster +
		"/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/envoy_internal_address/server_listener_name")
	if c.Get("static_resources/listeners/"+internal.(string)) == nil {
		t.Error("the Redis cluster does not lead to a listener")
	}
	last := c.Get("static_resources/clusters/redis_servers/load_assignment/endpoints/0/lb_endpoints/1/" +
		"endpoint/address/socket_address/port_value")
	if last != 2 {
		t.Errorf("the second node's port is %v, want 2", last)
	}
	if _, err := c.YAML(); err != nil {
		t.Error(err)
	}
}

func TestFirstErrorIsKept(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*envoyconf.Config){
		`no static_resources/listeners/none`: func(c *envoyconf.Config) {
			c.Get("static_resources/listeners/none")
		},
		`no node`:             func(c *envoyconf.Config) { c.Set("node/id", 1) },
		`no admin/none`:       func(c *envoyconf.Config) { c.Delete("admin/none") },
		`admin is not a list`: func(c *envoyconf.Config) { c.Append("admin", 1) },
		`static_resources/clusters: no element "9"`: func(c *envoyconf.Config) { c.Remove("static_resources/clusters", "9") },
		`missing port in address`:                   func(c *envoyconf.Config) { c.SetRedis("127.0.0.1") },
		`invalid syntax`:                            func(c *envoyconf.Config) { c.SetRedis("127.0.0.1:x") },
		`fragment: yaml`:                            func(c *envoyconf.Config) { c.Fragment("{") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := shipped(t)
			change(c)
			c.Get("another/error")
			if _, err := c.YAML(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v, want one with %q", err, name)
			}
		})
	}
}

func TestParseRefusesWhatIsNotYAML(t *testing.T) {
	t.Parallel()
	if _, err := envoyconf.Parse([]byte("{")); err == nil {
		t.Error("no error")
	}
}
