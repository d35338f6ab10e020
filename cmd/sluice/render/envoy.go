package render

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/deploy"
)

// Where the files of deploy/envoy have what is replaced.
var (
	clusters = []string{"static_resources", "clusters"}
	listener = []string{"static_resources", "listeners", "limited"}
	limiter  = append(listener[:len(listener):len(listener)], "filter_chains", "0", "filters", "0", "typed_config",
		"http_filters", "sluice", "typed_config", "config")
	wasmFile = []string{"vm_config", "code", "local", "filename"}
)

// below is a path continued.
func below(path []string, steps ...string) []string {
	return append(path[:len(path):len(path)], steps...)
}

// Envoy renders a complete configuration of Envoy.
func Envoy(o *Options) (Result, error) {
	p, err := newPlugin(o)
	if err != nil {
		return Result{}, err
	}
	nodes, err := parseAddresses("--redis", o.Redis)
	if err != nil {
		return Result{}, err
	}
	if len(nodes) > 1 && !o.Cluster && p.passwordEnv != "" {
		return Result{}, fmt.Errorf("a failover with a password: Envoy's health check would hold it in the file (see deploy/envoy/failover.yaml, or use --redis-cluster)")
	}
	t, err := shipped("envoy/" + envoyFile(o))
	if err != nil {
		return Result{}, err
	}
	if err := t.envoyAddresses(o); err != nil {
		return Result{}, err
	}
	t.set(text(o.Wasm), below(limiter, wasmFile...)...)
	if len(nodes) > 0 {
		t.envoyRedis(o, p, nodes)
	}
	t.set(p.literal(), below(limiter, "configuration", "value")...)
	t.root.HeadComment, t.root.Content[0].HeadComment = "", ""
	t.about = "# Written by \"sluice render envoy\", from deploy/envoy/" + envoyFile(o) + "."
	out, err := write(t)
	return Result{YAML: out, Notes: p.notes()}, err
}

// envoyFile is the shipped file that comes nearest.
func envoyFile(o *Options) string {
	switch {
	case len(o.Redis) == 0:
		return "embedded.yaml"
	case o.Cluster:
		return "redis-cluster.yaml"
	case len(o.Redis) > 1:
		return "failover.yaml"
	}
	return "redis.yaml"
}

func shipped(name string) (*tree, error) {
	source, err := deploy.Files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parse(source)
}

// envoyAddresses sets what is listened at, and the upstream.
func (t *tree) envoyAddresses(o *Options) error {
	if err := checkFile("--wasm", o.Wasm); err != nil {
		return err
	}
	listen, err := parseAddress("--listen", o.Listen)
	if err != nil {
		return err
	}
	admin, err := parseAddress("--admin", o.Admin)
	if err != nil {
		return err
	}
	upstream, err := parseAddress("--upstream", o.Upstream)
	if err != nil {
		return err
	}
	t.set(listen.socketAddress(), below(listener, "address")...)
	t.set(admin.socketAddress(), "admin", "address")
	t.set(endpoints([]address{upstream}), below(clusters, "upstream", "load_assignment", "endpoints", "0", "lb_endpoints")...)
	return nil
}

// envoyRedis sets how Redis is reached and entered.
func (t *tree) envoyRedis(o *Options, p *plugin, nodes []address) {
	cluster, sendsAuth := "redis", true
	if o.Cluster { // then redis_proxy does
		cluster, sendsAuth = "redis_nodes", false
	}
	p.connect("redis", sendsAuth)
	servers := t.at(below(clusters, cluster)...)
	t.set(endpoints(nodes), below(clusters, cluster, "load_assignment", "endpoints", "0", "lb_endpoints")...)
	if o.TLS {
		putBefore(servers, "load_assignment", "transport_socket", tlsOf(t, o, nodes[0]))
	}
	switch {
	case p.passwordEnv == "":
	case sendsAuth:
		variables := t.fragment(fmt.Sprintf("{host_env_keys: [%s]}", p.passwordEnv))
		put(t.at(below(limiter, "vm_config")...), "environment_variables", variables)
	default:
		putBefore(servers, "load_assignment", "typed_extension_protocol_options", t.proxyAuth(p))
	}
}

// proxyAuth has Envoy's redis_proxy enter Redis.
func (t *tree) proxyAuth(p *plugin) *yaml.Node {
	auth := t.fragment(`envoy.filters.network.redis_proxy:
  "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProtocolOptions
`)
	options := auth.Content[1]
	if p.user != "" {
		put(options, "auth_username", t.fragment("{inline_string: "+quote(p.user)+"}"))
	}
	put(options, "auth_password", t.fragment("{environment_variable: "+p.passwordEnv+"}"))
	return auth
}
