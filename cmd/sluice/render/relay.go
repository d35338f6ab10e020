package render

import (
	"cmp"
	"errors"
	"fmt"
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

// relayDirs are the directories with a relay in Kubernetes.
var relayDirs = map[string]string{
	RelayKubernetes: "relay/kubernetes", RelayIstio: "istio/relay", RelayEnvoyGateway: "envoy-gateway/relay",
}

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
	switch dir, ok := relayDirs[o.For]; {
	case ok:
		return relayInKubernetes(o, p, nodes, dir)
	case o.For == RelayPlain:
		return relayAlone(o, p, nodes)
	}
	return Result{}, fmt.Errorf("--for: %q is none of envoy, kubernetes, istio, envoy-gateway", o.For)
}

// relayAlone renders deploy/relay/relay.yaml.
func relayAlone(o *Options, p *plugin, nodes []address) (Result, error) {
	t, err := shipped("relay/relay.yaml")
	if err != nil {
		return Result{}, err
	}
	if o.Namespace != "" || len(o.Allow) == 0 {
		return Result{}, errors.New(
			"--for envoy needs --allow with the SPIFFE identities of limiters, and takes no --namespace",
		)
	}
	listen, err := parseAddress("--listen", o.Listen)
	if err != nil {
		return Result{}, err
	}
	t.Set(listen.socketAddress(), "static_resources", "listeners", "relay", "address")
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
	t.Set(endpoints(nodes), below(clusters, "redis", "load_assignment", "endpoints", "0", "lb_endpoints")...)
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
	reference, err := shipped("relay/failover.yaml")
	if err != nil {
		t.Fail("%w", err)
		return
	}
	for _, key := range []string{"health_checks", "common_lb_config"} {
		yamltree.PutBefore(servers, "load_assignment", key, yamltree.Copy(reference.At(key)))
	}
}

// relayCluster has the relay follow a Redis Cluster, as deploy/envoy/redis-cluster.yaml does.
func relayCluster(t *yamltree.Tree, servers *yaml.Node) {
	reference, err := shipped("envoy/redis-cluster.yaml")
	if err != nil {
		t.Fail("%w", err)
		return
	}
	settings := []string{
		"static_resources", "listeners", "redis_proxy", "filter_chains", "0", "filters", "0", "typed_config", "settings",
	}
	t.Set(yamltree.Copy(reference.At(settings...)), settings...)
	clearComments(t.At(settings[:len(settings)-1]...), "settings")
	yamltree.Drop(servers, "type")
	nodes := reference.At(below(clusters, "redis_nodes")...)
	for _, key := range []string{"cluster_type", "lb_policy"} {
		if value := yamltree.Child(nodes, key); value != nil {
			yamltree.PutBefore(servers, "load_assignment", key, yamltree.Copy(value))
		}
	}
}

// relayInKubernetes renders a relay's Deployment with what is around it.
func relayInKubernetes(o *Options, p *plugin, nodes []address, dir string) (Result, error) {
	b, err := mesh(o, dir, nil, func(*kustomization) {})
	if err != nil {
		return Result{}, err
	}
	if err := b.relayConfig(o, p, nodes); err != nil {
		return Result{}, err
	}
	if p.passwordEnv != defaultPasswordEnv {
		d := b.one("Deployment", "sluice-relay")
		d.Set(text(p.passwordEnv), "spec", "template", "spec", "containers", "envoy", "env", "0", "name")
	}
	if err := b.allow(o); err != nil {
		return Result{}, err
	}
	return b.finish("relay", dir, p)
}

// relayConfig puts Redis into the Envoy configuration inside of the ConfigMap.
func (b *builder) relayConfig(o *Options, p *plugin, nodes []address) error {
	configMap := b.one("ConfigMap", "sluice-relay")
	file := configMap.At("data", "envoy.yaml")
	t, err := yamltree.Parse([]byte(file.Value))
	if err != nil {
		return err
	}
	relayRedis(t, o, p, nodes)
	t.About = ""
	out, err := yamltree.Write(t)
	file.Value = string(out)
	return err
}

// allow says who may ask, where the surroundings know that.
func (b *builder) allow(o *Options) error {
	if len(o.Allow) == 0 {
		if o.For == RelayKubernetes {
			return nil
		}
		return fmt.Errorf("--for %s needs --allow: %s", o.For, allowed[o.For])
	}
	var list []*yaml.Node
	switch o.For {
	case RelayIstio:
		policy := b.one("AuthorizationPolicy", "sluice-relay")
		for _, identity := range o.Allow {
			list = append(list, text(strings.TrimPrefix(identity, "spiffe://")))
		}
		principals := []string{"spec", "rules", "0", "from", "0", "source", "principals"}
		policy.Set(&yaml.Node{Kind: yaml.SequenceNode, Content: list}, principals...)
		return policy.Err
	case RelayEnvoyGateway:
		grant := b.one("ReferenceGrant", "sluice-relay")
		if i := slices.IndexFunc(o.Allow, func(s string) bool { return !dnsLabel.MatchString(s) }); i >= 0 {
			return fmt.Errorf("--allow: %q is not a namespace (want %s)", o.Allow[i], allowed[o.For])
		}
		for _, namespace := range o.Allow {
			from := "{group: gateway.networking.k8s.io, kind: GRPCRoute, namespace: " + namespace + "}"
			list = append(list, grant.Fragment(from))
		}
		grant.Set(&yaml.Node{Kind: yaml.SequenceNode, Content: list}, "spec", "from")
		return grant.Err
	}
	return errors.New("--for kubernetes takes no --allow: label the namespaces of limiters sluice-limits=true")
}

// allowed is the list of --allow.
var allowed = map[string]string{
	RelayIstio:        "the identities of limiters, such as cluster.local/ns/istio-system/sa/istio-ingressgateway",
	RelayEnvoyGateway: "the namespaces of Gateways, such as default",
}
