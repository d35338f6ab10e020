package render

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// Surroundings of a relay: what is around it says how it knows who asks.
const (
	RelayPlain        = "envoy"         // TLS and RBAC of its own
	RelayKubernetes   = "kubernetes"    // a NetworkPolicy
	RelayIstio        = "istio"         // an AuthorizationPolicy besides
	RelayEnvoyGateway = "envoy-gateway" // a ReferenceGrant besides
)

// Relay renders the relay itself.
func Relay(o *Options) (Result, error) {
	nodes, err := parseAddresses("--redis", o.Redis)
	if err != nil {
		return Result{}, err
	}
	if len(nodes) == 0 {
		return Result{}, errors.New("--redis host:port is needed: where the relay finds Redis")
	}
	p := &plugin{user: o.User, passwordEnv: cmp.Or(o.PasswordEnv, defaultPasswordEnv)}
	switch o.For {
	case RelayKubernetes, RelayIstio, RelayEnvoyGateway:
		return relayInKubernetes(o, p, nodes)
	case RelayPlain:
		return relayAlone(o, p, nodes)
	}
	return Result{}, fmt.Errorf("--for: %q is none of envoy, kubernetes, istio, envoy-gateway", o.For)
}

// relayAlone renders deploy/relay/relay.yaml.
func relayAlone(o *Options, p *plugin, nodes []address) (Result, error) {
	t := shipped("relay/relay.yaml")
	if o.Namespace != "" || len(o.Allow) == 0 {
		return Result{}, errors.New(
			"--for envoy needs --allow with the SPIFFE identities of limiters, and takes no --namespace",
		)
	}
	listen, err := parseAddress("--listen", o.Listen)
	if err != nil {
		return Result{}, err
	}
	t.Set(t.Fragment(listen.socketAddress()), "static_resources", "listeners", "relay", "address")
	var identities []string
	for _, identity := range o.Allow {
		if !strings.HasPrefix(identity, "spiffe://") {
			return Result{}, fmt.Errorf("--allow: %q is not a SPIFFE identity (want spiffe://DOMAIN/PATH)", identity)
		}
		identities = append(identities, fmt.Sprintf("{authenticated: {principal_name: {exact: %q}}}", identity))
	}
	rbac := []string{
		"static_resources", "listeners", "relay", "filter_chains", "0", "filters", "0", "typed_config",
		"http_filters", "envoy.filters.http.rbac", "typed_config", "rules", "policies", "limiters", "principals",
	}
	t.Set(t.Fragment("["+strings.Join(identities, ", ")+"]"), rbac...)
	relayRedis(t, o, p, nodes)
	t.About = "# Written by \"sluice render relay\", from deploy/relay/relay.yaml.\n" + t.About
	out, err := yamltree.Write(t)
	return Result{YAML: out, Notes: p.notes()}, err
}

// relayRedis sets how a relay reaches Redis, and enters it.
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
		relayCluster(t, servers)
	case len(nodes) > 1:
		relayFailover(t, servers)
	}
}

// relayFailover has the relay ask the primary among several servers, as deploy/relay/failover.yaml
// does.
func relayFailover(t *yamltree.Tree, servers *yaml.Node) {
	for _, key := range []string{"health_checks", "common_lb_config"} {
		yamltree.PutBefore(servers, "load_assignment", key, borrow(t, "relay/failover.yaml", key))
	}
}

// relayCluster has the relay follow a Redis Cluster, as deploy/envoy/redis-cluster.yaml does.
func relayCluster(t *yamltree.Tree, servers *yaml.Node) {
	const shipped = "envoy/redis-cluster.yaml"
	settings := []string{
		"static_resources", "listeners", "redis_proxy", "filter_chains", "0", "filters", "0", "typed_config", "settings",
	}
	t.Set(borrow(t, shipped, settings...), settings...)
	clearComments(t.At(settings[:len(settings)-1]...), "settings")
	yamltree.Drop(servers, "type")
	for _, key := range []string{"cluster_type", "lb_policy"} {
		yamltree.PutBefore(servers, "load_assignment", key, borrow(t, shipped, below(clusters, "redis_nodes", key)...))
	}
}

// relayInKubernetes renders a relay's Deployment with what is around it.
func relayInKubernetes(o *Options, p *plugin, nodes []address) (Result, error) {
	if err := o.checkAllowed(); err != nil {
		return Result{}, err
	}
	switch {
	case o.Image == "":
		return Result{}, fmt.Errorf("--for %s needs --image: Envoy 1.40 or later, in your registry and by digest", o.For)
	case o.PasswordEnv != "":
		return Result{}, errors.New(
			"--redis-password-env is for --for envoy: in Kubernetes the relay reads the Secret sluice-redis, a file to Envoy",
		)
	}
	p.passwordEnv = ""
	allow := make([]any, len(o.Allow))
	for i, who := range o.Allow {
		allow[i] = strings.TrimPrefix(who, "spiffe://")
	}
	relay := values{"allow": allow, "image": o.Image}
	set := values{"component": "relay", "platform": o.For, "redis": o.redis(p, nodes...), "relay": relay}
	if o.TLS {
		name, kind := cmp.Or(o.ServerName, nodes[0].host), "DNS"
		if net.ParseIP(name) != nil {
			kind = "IP_ADDRESS"
		}
		set["redis"].(values)["tls"] = values{"enabled": true, "ca": o.CA, "serverName": name, "sanType": kind}
	}
	r, err := chart(cmp.Or(o.Namespace, "redis"), set)
	if err != nil {
		return Result{}, err
	}
	p.more = append(p.more,
		"the password of Redis is read from the Secret sluice-redis, key password, for each connection")
	return r.finish("relay", p)
}

// checkAllowed holds that who may ask is said where the surroundings know that.
func (o *Options) checkAllowed() error {
	switch {
	case len(o.Allow) == 0 && o.For != RelayKubernetes:
		return fmt.Errorf("--for %s needs --allow: %s", o.For, allowed[o.For])
	case len(o.Allow) > 0 && o.For == RelayKubernetes:
		return errors.New("--for kubernetes takes no --allow: label the namespaces of limiters sluice-limits=true")
	case o.For != RelayEnvoyGateway:
		return nil
	}
	if i := slices.IndexFunc(o.Allow, func(s string) bool { return !dnsLabel.MatchString(s) }); i >= 0 {
		return fmt.Errorf("--allow: %q is not a namespace (want %s)", o.Allow[i], allowed[o.For])
	}
	return nil
}

// allowed is the list of --allow.
var allowed = map[string]string{
	RelayIstio:        "the identities of limiters, such as cluster.local/ns/istio-system/sa/istio-ingressgateway",
	RelayEnvoyGateway: "the namespaces of Gateways, such as default",
}
