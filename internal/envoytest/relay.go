package envoytest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
)

// ThroughRelay puts a relay into each direct route to Redis, for a run of the tests of its own.
var ThroughRelay = os.Getenv("RELAY") == "1"

// Where relay.yaml has what tests change.
const (
	relayFile     = "deploy/relay/relay.yaml"
	relayListener = "static_resources/listeners/relay"
	relayChain    = relayListener + "/filter_chains/0"
	relayFilters  = relayChain + "/filters/0/typed_config/http_filters"
	relayRedis    = "static_resources/clusters/redis"
	relaySettings = "static_resources/listeners/redis_proxy/filter_chains/0/filters/0/typed_config/settings"
)

// Plain takes out of the configuration of a relay what knows limiters: TLS, and RBAC by
// certificates.
func Plain(c *envoyconf.Config) {
	c.Delete(relayChain + "/transport_socket")
	c.Remove(relayFilters, "envoy.filters.http.rbac")
}

// NewRelay runs deploy/relay/relay.yaml in front of a Redis without a password, for limiters
// that are not known. It waits for Redis for as long as they do.
func NewRelay(t testing.TB, redis string, edit func(*envoyconf.Config)) *Envoy {
	t.Helper()
	return NewRelayAt(t, 0, redis, edit)
}

// NewRelayAt is NewRelay at a port that limiters know already.
func NewRelayAt(t testing.TB, port int, redis string, edit func(*envoyconf.Config)) *Envoy {
	t.Helper()
	return Start(t, Options{File: relayFile, Workers: 1, Port: port, Edit: func(c *envoyconf.Config) {
		Plain(c)
		c.SetRedis(redis)
		c.Delete(relayRedis + "/typed_extension_protocol_options")
		c.Set(relaySettings+"/op_timeout", "10s")
		if edit != nil {
			edit(c)
		}
	}})
}

// redisTimeout is redis.timeout in a configuration of the plugin.
var redisTimeout = regexp.MustCompile(`"timeout": ?"([^"]+)"`)

// patient has a relay wait for Redis for longer than its limiter does, as the shipped ones do: a reply
// that redis_proxy has given up says of no charge that it was made.
func (e *Envoy) patient(relay *envoyconf.Config) {
	plugins := []string{e.opts.Plugin}
	for _, plugin := range e.opts.Beside {
		plugins = append(plugins, plugin)
	}
	longest := 100 * time.Millisecond // as shipped
	for _, found := range redisTimeout.FindAllStringSubmatch(strings.Join(plugins, "\n"), -1) {
		if d, err := time.ParseDuration(found[1]); err == nil {
			longest = max(longest, d)
		}
	}
	relay.Set(relaySettings+"/op_timeout", fmt.Sprintf("%gs", 10*longest.Seconds()))
}

// Relayed makes relays what leads to Redis: an ordinary HTTP/2 cluster. name is that of the
// cluster, which takes the place of one there is. It has no keepalive: on a busy machine a relay that
// waits for a CPU must not be taken for one that hangs.
func Relayed(c *envoyconf.Config, name string, relays ...string) {
	c.Set(fmt.Sprintf("static_resources/clusters/%s", name), c.HTTP2Cluster(name, relays...))
}
