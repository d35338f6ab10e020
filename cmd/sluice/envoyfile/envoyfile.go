// Package envoyfile says what the file around a configuration of the plugin gets wrong: clusters,
// filters and settings of Envoy that the plugin needs, and that Envoy loads without a word.
package envoyfile

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/internal/yamltree"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// The subjects of findings that others ask for.
const (
	Cluster       = "cluster"
	Bridge        = "bridge"
	Metadata      = "metadata"
	StatsTags     = "stats_tags"
	FailurePolicy = "failure_policy"
)

// Finding is one thing that is wrong around a configuration.
type Finding struct {
	Subject string
	// Error says that some rule cannot work so. Otherwise it is a warning: it may be meant.
	Error bool
	find.Mistake
}

// Limiter is a configuration of the limiter in a file, and what the file says around it.
type Limiter struct {
	found  *find.Found
	cfg    *config.Config
	around *surroundings
	all    []Finding
}

// Findings are the mistakes around a limiter's configuration, in the order of the file.
func Findings(found *find.Found, cfg *config.Config) []Finding {
	if found.Owner == nil {
		return nil
	}
	l := &Limiter{found: found, cfg: cfg, around: look(found)}
	// Of any type but a text Envoy hands the plugin the bytes of protobuf
	// (https://github.com/envoyproxy/envoy/blob/v1.40.0/source/common/protobuf/utility.cc, anyToBytes).
	at := yamltree.Get(found.Owner, "configuration")
	kind, is := typeOf(at), "has no @type, which Envoy needs"
	if kind != "" {
		is = "is a " + kind + ", of which Envoy hands the plugin bytes of protobuf"
	}
	if at != nil && kind != "google.protobuf.StringValue" && kind != "google.protobuf.BytesValue" {
		l.note("configuration", true, at, `the configuration %s (want "@type": `+
			`type.googleapis.com/google.protobuf.StringValue, and the JSON as a text in its value)`, is)
	}
	l.checkCluster()
	if find.IsBridge(found.Owner) {
		l.note("vm_id", true, yamltree.Get(found.Owner, "vm_config"),
			"the code is the bridge, which limits nothing (want code: {local: {filename: /etc/envoy/sluice.wasm}})")
	}
	if cfg.Redis != nil && cfg.Redis.PasswordEnv != "" {
		l.checkGiven("redis.password_env", cfg.Redis.PasswordEnv)
	}
	if cfg.UsesHashSecret() {
		l.checkGiven("hash_secret_env", cfg.HashSecretEnv)
	}
	for _, chain := range l.around.chains {
		if filters, place := among(l.found, chain); place >= 0 {
			l.checkMetadata(filters, place)
			l.checkClientIP(chain)
		}
	}
	l.checkBootstrap()
	for _, o := range odd {
		if n := o.at(l); n != nil {
			l.note(o.subject, false, n, "%s", o.problem)
		}
	}
	if cfg.Redis != nil && cfg.Redis.Password != "" {
		l.all = append(l.all, Finding{"password", false, found.Mistake("redis.password", "whoever reads this file or "+
			"Envoy's /config_dump has the password (want password_env)")})
	}
	for _, d := range l.around.documents { // keys that stand twice in one object
		for _, n := range yamltree.Objects(d) {
			seen := map[string]int{}
			for key := range yamltree.Fields(n) {
				if first := seen[key.Value]; first > 0 && key.Value != "<<" {
					l.note("keys", true, key, "%q stands here for the second time, after line %d: Envoy takes the last alone "+
						"(want them merged into one)", key.Value, first)
				}
				seen[key.Value] = key.Line
			}
		}
	}
	slices.SortStableFunc(l.all, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
	return slices.Compact(l.all)
}

// Chain are the names of the HTTP filters among which a limiter stands, its own too; nil if it
// stands in no list of filters of the file.
func Chain(found *find.Found) (names []string) {
	for _, chain := range look(found).chains {
		if filters, place := among(found, chain); place >= 0 {
			for _, n := range filters {
				names = append(names, yamltree.Text(n, "name"))
			}
			return names
		}
	}
	return nil
}

// among are the HTTP filters of a connection manager, and the limiter's place there; -1: it has none.
func among(found *find.Found, chain *yaml.Node) (filters []*yaml.Node, place int) {
	filters = yamltree.List(chain, "http_filters")
	return filters, slices.IndexFunc(filters, func(n *yaml.Node) bool {
		return find.WasmFilter(yamltree.Get(n, "typed_config")) == found.Owner
	})
}

// wrong reports an error at a value of the plugin's configuration.
func (l *Limiter) wrong(subject, path, problem string, args ...any) {
	l.all = append(l.all, Finding{subject, true, l.found.Mistake(path, fmt.Sprintf(problem, args...))})
}

// note reports an error or a warning about a value of the file.
func (l *Limiter) note(subject string, isError bool, at *yaml.Node, problem string, args ...any) {
	l.all = append(l.all, Finding{subject, isError, find.Mistake{Line: at.Line, Problem: fmt.Sprintf(problem, args...)}})
}

// surroundings are the parts of a file that the plugin needs.
type surroundings struct {
	documents []*yaml.Node
	// bootstrap is a whole configuration of Envoy, a document or in an answer of /config_dump; nil
	// if there is none.
	bootstrap *yaml.Node
	dump      bool // the documents are an answer of /config_dump
	clusters  map[string]*yaml.Node
	chains    []*yaml.Node // objects with http_filters, apart from those of clusters
}

// look reads the documents that a configuration stands in.
func look(found *find.Found) *surroundings {
	s := &surroundings{documents: *found.Documents, clusters: map[string]*yaml.Node{}}
	for _, d := range s.documents {
		s.dump = s.dump || yamltree.Get(d, "configs") != nil
		upstream, partial := map[*yaml.Node]bool{}, map[*yaml.Node]bool{}
		for _, n := range yamltree.Objects(d) {
			if s.bootstrap == nil && yamltree.Get(n, "static_resources") != nil {
				s.bootstrap = n
			}
			if yamltree.Text(n, "operation") == "MERGE" { // Istio's: the rest of the cluster is elsewhere
				partial[yamltree.Get(n, "value")] = true
			}
			name, has := yamltree.Text(n, "name"), func(field string) bool { return yamltree.Get(n, field) != nil }
			if name != "" && !partial[n] && !has("http_filters") && slices.ContainsFunc(clusterFields, has) {
				if s.clusters[name] == nil {
					s.clusters[name] = n
				}
				for _, o := range extensions(n) { // a dump has the cluster twice
					upstream[o] = true
				}
			}
			if has("http_filters") && !upstream[n] {
				s.chains = append(s.chains, n)
			}
		}
	}
	return s
}

// clusterFields are those that only clusters of Envoy have.
var clusterFields = []string{
	"load_assignment", "connect_timeout", "typed_extension_protocol_options", "upstream_config", "eds_cluster_config",
}

// typeOf is the name of a typed_config's type, without what stands before it.
func typeOf(n *yaml.Node) string {
	name := yamltree.Text(n, "@type")
	if strings.HasSuffix(name, "TypedStruct") {
		name = yamltree.Text(n, "type_url")
	}
	return name[strings.LastIndexByte(name, '/')+1:]
}

const seeCluster = "see docs/envoy.md, section 2"

// checkCluster looks at the cluster that leads to Redis.
func (l *Limiter) checkCluster() {
	if l.cfg.Redis == nil {
		return
	}
	name := l.cfg.Redis.Cluster
	cluster, b := l.around.clusters[name], l.around.bootstrap
	complete := l.around.dump || b != nil && yamltree.Get(b, "dynamic_resources", "cds_config") == nil &&
		yamltree.Get(b, "dynamic_resources", "ads_config") == nil // all clusters are in the file
	switch {
	case cluster != nil:
		// The bridge is a Wasm filter that is not the limiter, or a filter that a control plane sends.
		pool, bridge := pools(cluster), slices.ContainsFunc(extensions(cluster), func(n *yaml.Node) bool {
			filter := find.WasmFilter(n)
			return filter != nil && filter != l.found.Owner || yamltree.Get(n, "config_discovery") != nil
		})
		http2 := slices.ContainsFunc(append(extensions(cluster), cluster), func(n *yaml.Node) bool {
			keys := yamltree.Keys(n) // auto_config: chosen by ALPN
			return slices.Contains(keys, "http2_protocol_options") || n != cluster && slices.Contains(keys, "auto_config")
		})
		switch {
		case pool && bridge:
		case pool:
			l.wrong(Bridge, "redis.cluster", "the cluster %q has no bridge among its http_filters: Redis would get gRPC "+
				"frames (want bridge/bridge.wasm before the upstream_codec, %s)", name, seeCluster)
		case bridge:
			l.wrong(Cluster, "redis.cluster", "the cluster %q has the bridge, but no TCP connection pool: Redis would get "+
				"HTTP (want upstream_config with TcpConnectionPoolProto, %s)", name, seeCluster)
		case !http2:
			l.wrong(Cluster, "redis.cluster", "the cluster %q has neither the bridge and a TCP connection pool, for Redis, "+
				"nor http2_protocol_options, for a relay (%s)", name, seeCluster)
		}
		// All limiters behind a redis_proxy share its connections, so that SELECT would move each of them.
		if way := WayTo(l.found, name); l.cfg.Redis.Database != 0 && (way.Relay || way.Cluster != name) {
			l.wrong(Cluster, "redis.database", "%d, but redis_proxy has 0 for all its limiters (want 0)", l.cfg.Redis.Database)
		}
	case complete:
		want, names := "one of that name, or one of ", slices.Sorted(maps.Keys(l.around.clusters))
		switch len(names) {
		case 0:
			want = "one in static_resources.clusters, " + seeCluster
		case 1:
			want = "one of that name, or "
		}
		l.wrong(Cluster, "redis.cluster", "Envoy has no cluster %q (want %s)", name, want+shown.Quoted(names))
	}
}

// extensions are all objects in a cluster's typed_extension_protocol_options.
func extensions(cluster *yaml.Node) []*yaml.Node {
	return yamltree.Objects(yamltree.Get(cluster, "typed_extension_protocol_options"))
}

// checkGiven holds that the VM is given a variable, which a field names.
func (l *Limiter) checkGiven(field, name string) {
	owner := l.found.Owner
	env := yamltree.Get(owner, "vm_config", "environment_variables")
	given := yamltree.Keys(yamltree.Get(env, "key_values"))
	for _, n := range slices.Concat(yamltree.List(env, "host_env_keys"), yamltree.List(owner, "env", "hostKeys")) {
		given = append(given, n.Value)
	}
	want := "environment_variables: {host_env_keys: [" + name + "]} in vm_config"
	if yamltree.Get(owner, "vm_config") == nil { // Envoy Gateway
		want = "env: {hostKeys: [" + name + "]}"
	}
	for _, spec := range []string{"spec", "spec.wasm"} { // Istio's WasmPlugin and TrafficExtension
		if plugin := yamltree.Get(owner, strings.Split(spec, ".")...); plugin != nil {
			want = "{name: " + name + ", valueFrom: HOST} in " + spec + ".vmConfig.env"
			for _, n := range yamltree.List(plugin, "vmConfig", "env") {
				given = append(given, yamltree.Text(n, "name"))
			}
		}
	}
	if !slices.Contains(given, name) {
		l.wrong("password_env", field, "the plugin is not given the environment variable %q (want %s)", name, want)
	}
}

// Way is how a limiter reaches Redis.
type Way struct {
	Cluster      string // whose endpoints are Redis, or relays
	Relay        bool
	RedisCluster bool
	TLS          bool
	Addresses    []string // host:port, as the file has them
}

// WayTo follows a limiter's cluster to Redis, through a redis_proxy of the same Envoy too.
func WayTo(found *find.Found, name string) Way {
	s := look(found)
	cluster := s.clusters[name]
	way := Way{Cluster: name, Relay: cluster != nil && !pools(cluster)}
	for _, endpoint := range yamltree.Objects(yamltree.Get(cluster, "load_assignment")) {
		listener := yamltree.Text(endpoint, "envoy_internal_address", "server_listener_name")
		for _, proxy := range yamltree.Objects(s.named(listener, "filter_chains")) {
			if next := yamltree.Text(proxy, "prefix_routes", "catch_all_route", "cluster"); next != "" {
				way.Cluster, cluster = next, s.clusters[next]
				break
			}
		}
	}
	for _, address := range yamltree.Objects(yamltree.Get(cluster, "load_assignment")) {
		if host, port := yamltree.Text(address, "address"), yamltree.Text(address, "port_value"); host != "" && port != "" {
			way.Addresses = append(way.Addresses, net.JoinHostPort(host, port))
		}
	}
	way.RedisCluster = yamltree.Text(cluster, "cluster_type", "name") == "envoy.clusters.redis"
	way.TLS = strings.HasSuffix(typeOf(yamltree.Get(cluster, "transport_socket", "typed_config")), "UpstreamTlsContext")
	return way
}

// pools reports whether a cluster's bytes go out on plain TCP connections.
func pools(cluster *yaml.Node) bool {
	return strings.HasSuffix(typeOf(yamltree.Get(cluster, "upstream_config", "typed_config")), "TcpConnectionPoolProto")
}

// named is the first object of a name that has a field; nil if there is none.
func (s *surroundings) named(name, field string) *yaml.Node {
	for _, d := range s.documents {
		for _, n := range yamltree.Objects(d) {
			if name != "" && yamltree.Text(n, "name") == name && yamltree.Get(n, field) != nil {
				return n
			}
		}
	}
	return nil
}
