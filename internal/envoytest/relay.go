package envoytest

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
)

// Where relay.yaml has what tests change.
const (
	relayListener = "static_resources/listeners/relay"
	relayChain    = relayListener + "/filter_chains/0"
	relayFilters  = relayChain + "/filters/0/typed_config/http_filters"
	relayRedis    = "static_resources/clusters/redis"
)

// Plain takes out of the configuration of a relay what knows limiters: TLS, and RBAC by
// certificates.
func Plain(c *envoyconf.Config) {
	c.Delete(relayChain + "/transport_socket")
	c.Remove(relayFilters, "envoy.filters.http.rbac")
}

// NewRelay runs deploy/relay/relay.yaml in front of a Redis without a password, for limiters
// that are not known.
func NewRelay(t testing.TB, redis string, edit func(*envoyconf.Config)) *Envoy {
	t.Helper()
	return Start(t, Options{File: "deploy/relay/relay.yaml", Workers: 1, Edit: func(c *envoyconf.Config) {
		Plain(c)
		c.SetRedis(redis)
		c.Delete(relayRedis + "/typed_extension_protocol_options")
		if edit != nil {
			edit(c)
		}
	}})
}

// Relayed makes relays what leads to Redis: an ordinary HTTP/2 cluster. name is that of the
// cluster, which takes the place of one there is.
func Relayed(c *envoyconf.Config, name string, relays ...string) {
	cluster := c.Fragment(`
type: STATIC
connect_timeout: 1s
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config:
      http2_protocol_options: {connection_keepalive: {interval: 1s, timeout: 1s, connection_idle_interval: 1s}}
`).(map[string]any)
	cluster["name"] = name
	cluster["load_assignment"] = map[string]any{"cluster_name": name, "endpoints": c.Endpoints(relays)}
	c.Set(fmt.Sprintf("static_resources/clusters/%s", name), cluster)
}
