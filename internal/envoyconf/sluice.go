package envoyconf

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Where the shipped envoy.yaml has what Sluice is about.
const (
	Listener          = "static_resources/listeners/limited"
	ConnectionManager = Listener + manager
	LimiterFilter     = Listener + limiterFilter
	Limiter           = Listener + limiter
	RedisCluster      = "static_resources/clusters/redis"
	Bridge            = RedisCluster + "/typed_extension_protocol_options/" +
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions/http_filters/sluice-bridge/typed_config/config"

	manager       = "/filter_chains/0/filters/0/typed_config"
	limiterFilter = manager + "/http_filters/sluice"
	limiter       = limiterFilter + "/typed_config/config"
	clusters      = "static_resources/clusters"
	upstream      = clusters + "/upstream"
	wasmCode      = "/vm_config/code"
	wasmFile      = wasmCode + "/local/filename"
	pluginText    = "/configuration/value"
	listeners     = "static_resources/listeners"
	firstAddress  = "/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address"
)

// SetPorts sets the ports of the limited listener and of Envoy's admin.
func (c *Config) SetPorts(listener, admin int) {
	c.Set(Listener+"/address/socket_address/port_value", listener)
	c.Set("admin/address/socket_address/port_value", admin)
}

// SetUpstream sets the address, "host:port", of the upstream.
func (c *Config) SetUpstream(addr string) { c.setAddress(upstream, addr) }

// SetRedis sets the address of Redis.
func (c *Config) SetRedis(addr string) { c.setAddress(RedisCluster, addr) }

func (c *Config) setAddress(cluster, addr string) {
	c.Set(cluster+firstAddress, c.socketAddress(addr))
}

func (c *Config) socketAddress(addr string) any {
	host, text, err := net.SplitHostPort(addr)
	c.keep("address", err)
	port, err := strconv.Atoi(text)
	c.keep("address", err)
	return map[string]any{"socket_address": map[string]any{"address": host, "port_value": port}}
}

// SetWasm sets the file of the limiter.
func (c *Config) SetWasm(path string) { c.Set(Limiter+wasmFile, path) }

// SetBridge puts an earlier build of the plugin, which had the role "bridge", in the bridge's place.
func (c *Config) SetBridge(path string) {
	c.Set(Bridge+wasmCode, map[string]any{"local": map[string]any{"filename": path}})
	c.Set(Bridge+"/configuration", map[string]any{
		"@type": "type.googleapis.com/google.protobuf.StringValue", "value": `{"role": "bridge"}`,
	})
}

// SetPlugin sets the plugin's configuration, JSON.
func (c *Config) SetPlugin(text string) { c.Set(Limiter+pluginText, text) }

// CopyListener adds a listener like the limited one, with a port and a plugin
// configuration of its own.
func (c *Config) CopyListener(name string, port int, plugin string) {
	copied, _ := c.Get(Listener).(map[string]any)
	copied["name"] = name
	c.Append(listeners, copied)
	c.Set(listeners+"/"+name+"/address/socket_address/port_value", port)
	c.Set(listeners+"/"+name+limiter+pluginText, plugin)
}

// SetListenerUpstream gives a listener that CopyListener has added an upstream and statistics of its own, both
// of the listener's name.
func (c *Config) SetListenerUpstream(name, addr string) {
	copied, err := json.Marshal(c.Get(listeners + "/" + name))
	c.keep(name, err)
	own := strings.NewReplacer(`"cluster":"upstream"`, fmt.Sprintf(`"cluster":%q`, name),
		`"stat_prefix":"limited"`, fmt.Sprintf(`"stat_prefix":%q`, name))
	c.Set(listeners+"/"+name, c.Fragment(own.Replace(string(copied))))
	c.CopyCluster("upstream", name, addr)
}

// CopyCluster adds a cluster like another one, with an address of its own.
func (c *Config) CopyCluster(from, name, addr string) {
	copied, _ := c.Get(clusters + "/" + from).(map[string]any)
	copied["name"] = name
	c.Append(clusters, copied)
	c.setAddress(clusters+"/"+name, addr)
}

// RemoveRedis makes the plugin count in its embedded store.
func (c *Config) RemoveRedis() {
	text, _ := c.Get(Limiter + pluginText).(string)
	var plugin map[string]json.RawMessage
	c.keep(Limiter+pluginText, json.Unmarshal([]byte(text), &plugin))
	delete(plugin, "redis")
	without, err := json.MarshalIndent(plugin, "", "  ")
	c.keep(Limiter+pluginText, err)
	c.SetPlugin(string(without))
	c.Remove(clusters, "redis")
}

// Endpoints are those of a cluster, by their addresses.
func (c *Config) Endpoints(addrs []string) any {
	var endpoints []any
	for _, addr := range addrs {
		endpoints = append(endpoints, map[string]any{"endpoint": map[string]any{"address": c.socketAddress(addr)}})
	}
	return []any{map[string]any{"lb_endpoints": endpoints}}
}

// HTTP2Cluster is an ordinary HTTP/2 cluster, as control planes make one of a Service.
func (c *Config) HTTP2Cluster(name string, addrs ...string) any {
	cluster := c.Fragment(`
type: STATIC
connect_timeout: 1s
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config: {http2_protocol_options: {}}
`).(map[string]any)
	cluster["name"] = name
	cluster["load_assignment"] = map[string]any{"cluster_name": name, "endpoints": c.Endpoints(addrs)}
	return cluster
}

// proxied names the cluster that redis_proxy sends to.
const proxied = "redis_servers"

// RouteByRedisProxy puts Envoy's redis_proxy, on an internal listener, between
// the plugin and one Redis server or, with cluster, a Redis Cluster of which
// some nodes are known.
func (c *Config) RouteByRedisProxy(cluster bool, addrs ...string) {
	c.Set("bootstrap_extensions", c.Fragment(`
- name: envoy.bootstrap.internal_listener
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.InternalListener
`))
	c.Append(listeners, c.Fragment(fmt.Sprintf(`
name: redis_proxy
internal_listener: {}
filter_chains:
- filters:
  - name: envoy.filters.network.redis_proxy
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProxy
      stat_prefix: redis
      settings: {op_timeout: 1s, enable_redirection: %t}
      prefix_routes: {catch_all_route: {cluster: %s}}
`, cluster, proxied)))
	c.Append(clusters, c.redisServers(cluster, addrs))
	c.Set(RedisCluster+firstAddress, c.Fragment("envoy_internal_address: {server_listener_name: redis_proxy}"))
}

// redisServers is the cluster that redis_proxy sends to.
func (c *Config) redisServers(cluster bool, addrs []string) any {
	discovery := "type: STATIC\nlb_policy: MAGLEV"
	if cluster {
		discovery = `
lb_policy: CLUSTER_PROVIDED
cluster_type:
  name: envoy.clusters.redis
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.clusters.redis.v3.RedisClusterConfig
    cluster_refresh_rate: 1s
    cluster_refresh_timeout: 1s
    redirect_refresh_threshold: 1
`
	}
	servers := c.Fragment("connect_timeout: 1s\n" + discovery).(map[string]any)
	servers["name"] = proxied
	servers["load_assignment"] = map[string]any{"cluster_name": proxied, "endpoints": c.Endpoints(addrs)}
	return servers
}
