package envoyfile

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/internal/yamltree"
)

const seeCluster = "see docs/envoy.md, section 2"

// checkCluster looks at the cluster that leads to Redis.
func (l *Limiter) checkCluster() {
	if l.cfg.Redis == nil {
		return
	}
	name := l.cfg.Redis.Cluster
	cluster := l.around.clusters[name]
	switch {
	case cluster != nil:
		l.checkTransport(name, cluster)
	case l.around.complete():
		l.wrong(Cluster, "redis.cluster", "Envoy has no cluster %q (want %s)", name, l.around.clusterNames())
	}
}

// clusterNames says which clusters there are.
func (s *surroundings) clusterNames() string {
	names := slices.Sorted(maps.Keys(s.clusters))
	switch len(names) {
	case 0:
		return "one in static_resources.clusters, " + seeCluster
	case 1:
		return "one of that name, or " + shown.Quoted(names)
	}
	return "one of that name, or one of " + shown.Quoted(names)
}

// checkTransport looks at how the cluster speaks: RESP, by the bridge and a TCP pool, or HTTP/2 to
// a relay.
func (l *Limiter) checkTransport(name string, cluster *yaml.Node) {
	pool, bridge := pools(cluster), l.bridgeOf(cluster)
	switch {
	case pool && bridge:
	case pool:
		l.wrong(Bridge, "redis.cluster", "the cluster %q has no bridge among its http_filters: Redis would get gRPC frames "+
			`(want bridge/bridge.wasm before the upstream_codec, %s)`, name, seeCluster)
	case bridge:
		l.wrong(Cluster, "redis.cluster", "the cluster %q has the bridge, but no TCP connection pool: Redis would get HTTP "+
			"(want upstream_config with TcpConnectionPoolProto, %s)", name, seeCluster)
	case !speaksHTTP2(cluster):
		l.wrong(Cluster, "redis.cluster", "the cluster %q has neither the bridge and a TCP connection pool, for Redis, "+
			"nor http2_protocol_options, for a relay (%s)", name, seeCluster)
	}
}

// bridgeOf reports whether the cluster has the bridge: a Wasm filter that is not the limiter, or a
// filter that a control plane sends.
func (l *Limiter) bridgeOf(cluster *yaml.Node) bool {
	return slices.ContainsFunc(extensions(cluster), func(n *yaml.Node) bool {
		filter := find.WasmFilter(n)
		return filter != nil && filter != l.found.Owner || yamltree.Get(n, "config_discovery") != nil
	})
}

// speaksHTTP2 reports whether a cluster's protocol is HTTP/2, or chosen by ALPN.
func speaksHTTP2(cluster *yaml.Node) bool {
	return slices.ContainsFunc(append(extensions(cluster), cluster), func(n *yaml.Node) bool {
		return slices.Contains(yamltree.Keys(n), "http2_protocol_options") || n != cluster &&
			slices.Contains(yamltree.Keys(n), "auto_config")
	})
}

// extensions are all objects in a cluster's typed_extension_protocol_options.
func extensions(cluster *yaml.Node) []*yaml.Node {
	return yamltree.Objects(yamltree.Get(cluster, "typed_extension_protocol_options"))
}

// checkConfiguration holds that Envoy hands the plugin a text: of any other type it hands over the
// bytes of protobuf
// (https://github.com/envoyproxy/envoy/blob/v1.40.0/source/common/protobuf/utility.cc, anyToBytes).
func (l *Limiter) checkConfiguration() {
	at := yamltree.Get(l.found.Owner, "configuration")
	kind := typeOf(at)
	if at == nil || kind == "google.protobuf.StringValue" || kind == "google.protobuf.BytesValue" {
		return
	}
	is := "has no @type, which Envoy needs"
	if kind != "" {
		is = "is a " + kind + ", of which Envoy hands the plugin bytes of protobuf"
	}
	l.note(Configuration, true, at, `the configuration %s (want "@type": `+
		`type.googleapis.com/google.protobuf.StringValue, and the JSON as a text in its value)`, is)
}

// checkVM holds that the limiter's code is not the bridge.
func (l *Limiter) checkVM() {
	if find.IsBridge(l.found.Owner) {
		l.note(VM, true, yamltree.Get(l.found.Owner, "vm_config"),
			"the code is the bridge, which limits nothing (want code: {local: {filename: /etc/envoy/sluice.wasm}})")
	}
}

// checkPassword holds that the VM is given the variables that have Redis' password, and the secret
// of keyed hashes.
func (l *Limiter) checkPassword() {
	if l.cfg.Redis != nil && l.cfg.Redis.PasswordEnv != "" {
		l.checkGiven("redis.password_env", l.cfg.Redis.PasswordEnv)
	}
	if l.cfg.UsesHashSecret() {
		l.checkGiven("hash_secret_env", l.cfg.HashSecretEnv)
	}
}

// checkGiven holds that the VM is given a variable, which a field names.
func (l *Limiter) checkGiven(field, name string) {
	owner := l.found.Owner
	var given []string
	env := yamltree.Get(owner, "vm_config", "environment_variables")
	for _, n := range yamltree.List(env, "host_env_keys") {
		given = append(given, n.Value)
	}
	given = append(given, yamltree.Keys(yamltree.Get(env, "key_values"))...)
	want := "environment_variables: {host_env_keys: [" + name + "]} in vm_config"
	switch {
	case yamltree.Get(owner, "spec") != nil: // Istio
		at := "spec.vmConfig.env"
		if yamltree.Get(owner, "spec", "wasm") != nil { // a TrafficExtension
			at = "spec.wasm.vmConfig.env"
		}
		want = "{name: " + name + ", valueFrom: HOST} in " + at
		for _, n := range yamltree.List(owner, strings.Split(at, ".")...) {
			given = append(given, yamltree.Text(n, "name"))
		}
	case yamltree.Get(owner, "vm_config") == nil: // Envoy Gateway
		want = "env: {hostKeys: [" + name + "]}"
		for _, n := range yamltree.List(owner, "env", "hostKeys") {
			given = append(given, n.Value)
		}
	}
	if !slices.Contains(given, name) {
		l.wrong(Password, field, "the plugin is not given the environment variable %q (want %s)", name, want)
	}
}
