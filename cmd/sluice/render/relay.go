package render

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// Relay renders deploy/relay/relay.yaml, a relay with TLS and RBAC of its own.
func Relay(o *Options) (Result, error) {
	nodes, err := parseAddresses("--redis", o.Redis)
	if err != nil {
		return Result{}, err
	}
	if len(nodes) == 0 {
		return Result{}, errors.New("--redis host:port is needed: where the relay finds Redis")
	}
	if len(o.Allow) == 0 {
		return Result{}, errors.New("--allow is needed: the SPIFFE identities of limiters, spiffe://DOMAIN/PATH")
	}
	listen, err := parseAddress("--listen", o.Listen)
	if err != nil {
		return Result{}, err
	}
	t := shipped("relay/relay.yaml")
	t.Set(t.Fragment(listen.socketAddress()), "static_resources", "listeners", "relay", "address")
	var identities []string
	for _, identity := range o.Allow {
		if !strings.HasPrefix(identity, "spiffe://") {
			return Result{}, fmt.Errorf("--allow: %q is not a SPIFFE identity (want spiffe://DOMAIN/PATH)", identity)
		}
		identities = append(identities, fmt.Sprintf("{authenticated: {principal_name: {exact: %q}}}", identity))
	}
	t.Set(t.Fragment("["+strings.Join(identities, ", ")+"]"),
		"static_resources", "listeners", "relay", "filter_chains", "0", "filters", "0", "typed_config",
		"http_filters", "envoy.filters.http.rbac", "typed_config", "rules", "policies", "limiters", "principals")
	p := &plugin{user: o.User, passwordEnv: cmp.Or(o.PasswordEnv, defaultPasswordEnv)}
	relayRedis(t, o, p, nodes)
	t.About = "# Written by \"sluice render relay\", from deploy/relay/relay.yaml.\n" + t.About
	out, err := yamltree.Write(t)
	return Result{YAML: out, Notes: p.notes()}, err
}

// relayRedis sets how a relay reaches Redis, and enters it. Among several servers it asks the primary, as
// deploy/relay/failover.yaml does; a Redis Cluster it follows as deploy/envoy/redis-cluster.yaml does.
func relayRedis(t *yamltree.Tree, o *Options, p *plugin, nodes []address) {
	servers := t.At(below(clusters, "redis")...)
	setEndpoints(t, "redis", nodes...)
	clearComments(servers, "name")
	const options = "typed_extension_protocol_options"
	yamltree.Drop(servers, options)
	yamltree.PutBefore(servers, "load_assignment", options, proxyAuth(t, p))
	if o.TLS {
		yamltree.PutBefore(servers, "load_assignment", "transport_socket", tlsOf(t, o, nodes[0]))
	}
	switch {
	case o.Cluster:
		const cluster = "envoy/redis-cluster.yaml"
		settings := []string{
			"static_resources", "listeners", "redis_proxy", "filter_chains", "0", "filters", "0", "typed_config", "settings",
		}
		t.Set(borrow(t, cluster, settings...), settings...)
		clearComments(t.At(settings[:len(settings)-1]...), "settings")
		yamltree.Drop(servers, "type")
		for _, key := range []string{"cluster_type", "lb_policy"} {
			yamltree.PutBefore(servers, "load_assignment", key, borrow(t, cluster, below(clusters, "redis_nodes", key)...))
		}
	case len(nodes) > 1:
		for _, key := range []string{"health_checks", "common_lb_config"} {
			yamltree.PutBefore(servers, "load_assignment", key, borrow(t, "relay/failover.yaml", key))
		}
	}
}

// clearComments drops what the shipped file says about a key.
func clearComments(object *yaml.Node, key string) {
	if shipped, _ := yamltree.Field(object, key); shipped != nil {
		shipped.HeadComment = ""
	}
}
