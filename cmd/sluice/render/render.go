// Package render makes complete files of Envoy: the limiter of a plugin's configuration, or a relay. They
// are the shipped files of deploy/, with values in them. On Kubernetes the chart, deploy/chart, is the one source.
package render

import (
	"cmp"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// Options say what goes into the files.
type Options struct {
	Plugin []byte // its configuration, JSON

	Redis       []string // addresses, "host:port"; none: the embedded store
	Cluster     bool     // they are nodes of a Redis Cluster
	TLS         bool
	CA          string // file with the authority of Redis' certificate
	ServerName  string // in Redis' certificate; empty: the first address' host
	User        string
	PasswordEnv string // environment variable with Redis' password

	Listen string // of a limiter and of a relay
	// Of a limiter.
	Admin, Upstream, Wasm string
	Allow                 []string // of a relay: who may ask
}

// Result is a file, and what its user has to know.
type Result struct {
	YAML  []byte
	Notes []string
}

// notes says what rendering has changed, or needs.
func (p *plugin) notes() (notes []string) {
	if p.secret {
		notes = append(notes, fmt.Sprintf("redis.password is not written into the file: it is taken from the environment "+
			"variable %s", p.passwordEnv))
	} else if p.passwordEnv != "" {
		note := "the password of Redis is taken from the environment variable " + p.passwordEnv
		if p.inClear {
			note += ", and goes over the network in clear: set --redis-tls, unless the network encrypts"
		}
		notes = append(notes, note)
	}
	return notes
}

// address is a "host:port" of the options, apart.
type address struct {
	host string
	port int
}

// hostName matches names of DNS and of containers.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_.])?$`)

// addresses reads the values of a flag.
func addresses(t *yamltree.Tree, flag string, values ...string) (list []address) {
	for _, value := range values {
		host, portText, err := net.SplitHostPort(value)
		port, wrong := strconv.ParseUint(portText, 10, 16)
		if err != nil || wrong != nil || port == 0 || !hostName.MatchString(host) && net.ParseIP(host) == nil {
			t.Fail("%s: %q is not an address (want host:port, such as redis:6379)", flag, value)
		}
		list = append(list, address{host, int(port)})
	}
	return list
}

// socketAddress is an address as Envoy has it.
func (a address) socketAddress() string {
	return fmt.Sprintf("{socket_address: {address: %s, port_value: %d}}", scalar(a.host), a.port)
}

// tlsOf is the shipped transport socket for TLS to Redis.
func tlsOf(t *yamltree.Tree, o *Options, first address) *yaml.Node {
	name := cmp.Or(o.ServerName, first.host)
	socket := &yamltree.Tree{Root: borrow(t, "envoy/tls-acl.yaml", below(clusters, "redis", "transport_socket")...)}
	set := func(value string, path ...string) { socket.Set(socket.Fragment(scalar(value)), path...) }
	set(name, "typed_config", "sni")
	validation := []string{"typed_config", "common_tls_context", "validation_context"}
	set(o.CA, below(validation, "trusted_ca", "filename")...)
	set(name, below(validation, "match_typed_subject_alt_names", "0", "matcher", "exact")...)
	if net.ParseIP(name) != nil {
		set("IP_ADDRESS", below(validation, "match_typed_subject_alt_names", "0", "san_type")...)
		yamltree.Drop(socket.At("typed_config"), "sni") // a server name is a DNS name
	}
	if socket.Err != nil {
		t.Fail("the shipped TLS settings: %w", socket.Err)
	}
	return socket.Root
}

// Relay renders deploy/relay/relay.yaml, a relay with TLS and RBAC of its own.
func Relay(o *Options) (Result, error) {
	t := shipped("relay/relay.yaml")
	nodes := addresses(t, "--redis", o.Redis...)
	if len(nodes) == 0 {
		t.Fail("--redis host:port is needed: where the relay finds Redis")
	}
	if len(o.Allow) == 0 {
		t.Fail("--allow is needed: the SPIFFE identities of limiters, spiffe://DOMAIN/PATH")
	}
	listen := addresses(t, "--listen", o.Listen)
	var identities []string
	for _, identity := range o.Allow {
		if !strings.HasPrefix(identity, "spiffe://") {
			t.Fail("--allow: %q is not a SPIFFE identity (want spiffe://DOMAIN/PATH)", identity)
		}
		identities = append(identities, fmt.Sprintf("{authenticated: {principal_name: {exact: %q}}}", identity))
	}
	if t.Err != nil {
		return Result{}, t.Err
	}
	t.Set(t.Fragment(listen[0].socketAddress()), "static_resources", "listeners", "relay", "address")
	t.Set(t.Fragment("["+strings.Join(identities, ", ")+"]"),
		"static_resources", "listeners", "relay", "filter_chains", "0", "filters", "0", "typed_config",
		"http_filters", "envoy.filters.http.rbac", "typed_config", "rules", "policies", "limiters", "principals")
	p := &plugin{user: o.User, passwordEnv: cmp.Or(o.PasswordEnv, defaultPasswordEnv)}
	p.inClear = !o.TLS && slices.ContainsFunc(nodes, func(a address) bool { return !net.ParseIP(a.host).IsLoopback() })

	// Among several servers it asks the primary, as deploy/relay/failover.yaml does; a Redis Cluster it follows as
	// deploy/envoy/redis-cluster.yaml does.
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
	t.About = "# Written by \"sluice render relay\", from deploy/relay/relay.yaml.\n" + t.About
	out, err := yamltree.Write(t)
	return Result{YAML: out, Notes: p.notes()}, err
}

// clearComments drops what the shipped file says about a key.
func clearComments(object *yaml.Node, key string) {
	if shipped, _ := yamltree.Field(object, key); shipped != nil {
		shipped.HeadComment = ""
	}
}
