// Package render makes complete files of Envoy: the limiter of a plugin's configuration, or a relay. They
// are the shipped files of deploy/, with values in them. On Kubernetes the chart, deploy/chart, is the one source.
package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/deploy"
	"github.com/sluiceproxy/sluice/internal/yamltree"
	"github.com/sluiceproxy/sluice/plugin/config"
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

// Result is a file, and what its user has to know, as -o json prints them.
type Result struct {
	File  string   `json:"file,omitempty"` // written there, else Text has it
	Text  string   `json:"text,omitempty"`
	Notes []string `json:"notes"`
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
	socket := &yamltree.Tree{Root: borrow("envoy/tls-acl.yaml", clusters+"redis/transport_socket")}
	const validation = "typed_config/common_tls_context/validation_context/"
	socket.SetText("typed_config/sni", scalar(name))
	socket.SetText(validation+"trusted_ca/filename", scalar(o.CA))
	socket.SetText(validation+"match_typed_subject_alt_names/0/matcher/exact", scalar(name))
	if net.ParseIP(name) != nil {
		socket.SetText(validation+"match_typed_subject_alt_names/0/san_type", "IP_ADDRESS")
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
	t.SetText("static_resources/listeners/relay/address", listen[0].socketAddress())
	t.SetText("static_resources/listeners/relay/filter_chains/0/filters/0/typed_config/http_filters/"+
		"envoy.filters.http.rbac/typed_config/rules/policies/limiters/principals", "["+strings.Join(identities, ", ")+"]")
	o.PasswordEnv = cmp.Or(o.PasswordEnv, defaultPasswordEnv)
	note := inEnvironment + o.PasswordEnv
	if !o.TLS && slices.ContainsFunc(nodes, func(a address) bool { return !net.ParseIP(a.host).IsLoopback() }) {
		note += ", and goes over the network in clear: set --redis-tls, unless the network encrypts"
	}

	// Among several servers it asks the primary, as deploy/relay/failover.yaml does; a Redis Cluster it follows as
	// deploy/envoy/redis-cluster.yaml does.
	setEndpoints(t, "redis", nodes...)
	servers := t.At(clusters + "redis")
	clearComments(servers, "name")
	const options = "typed_extension_protocol_options"
	yamltree.Drop(servers, options)
	put := func(key string, value *yaml.Node) { yamltree.PutBefore(servers, "load_assignment", key, value) }
	put(options, proxyAuth(t, o))
	if o.TLS {
		put("transport_socket", tlsOf(t, o, nodes[0]))
	}
	switch {
	case o.Cluster:
		const cluster = "envoy/redis-cluster.yaml"
		const proxy = "static_resources/listeners/redis_proxy/filter_chains/0/filters/0/typed_config"
		t.Set(proxy+"/settings", borrow(cluster, proxy+"/settings"))
		clearComments(t.At(proxy), "settings")
		yamltree.Drop(servers, "type")
		for _, key := range []string{"cluster_type", "lb_policy"} {
			put(key, borrow(cluster, clusters+"redis_nodes/"+key))
		}
	case len(nodes) > 1:
		for _, key := range []string{"health_checks", "common_lb_config"} {
			put(key, borrow("relay/failover.yaml", key))
		}
	}
	t.About = "# Written by \"sluice render relay\", from deploy/relay/relay.yaml.\n" + t.About
	out, err := yamltree.Write(t)
	return Result{Text: string(out), Notes: []string{note}}, err
}

// clearComments drops what the shipped file says about a key.
func clearComments(object *yaml.Node, key string) {
	if shipped, _ := yamltree.Field(object, key); shipped != nil {
		shipped.HeadComment = ""
	}
}

// The places in the files of deploy/envoy that are replaced.
const (
	clusters = "static_resources/clusters/"
	listener = "static_resources/listeners/limited/"
	limiter  = listener + "filter_chains/0/filters/0/typed_config/http_filters/sluice/typed_config/config/"
)

// Envoy renders a complete configuration of Envoy. It completes the options by what the plugin's configuration says.
func Envoy(o *Options) (Result, error) {
	cfg, err := input.Load(o.Plugin)
	if err != nil {
		return Result{}, err
	}
	if cfg.Redis != nil && len(o.Redis) == 0 {
		return Result{}, fmt.Errorf("the configuration has \"redis\", so its address is needed: --redis host:port")
	}
	text, notes := strings.TrimPrefix(string(o.Plugin), "\ufeff"), o.takeCredentials(cfg.Redis)
	t := shipped("envoy/" + envoyFile(o))
	nodes := addresses(t, "--redis", o.Redis...)
	if len(nodes) > 1 && !o.Cluster && o.PasswordEnv != "" {
		t.Fail("a failover with a password: Envoy's health check would hold it in the file (see " +
			"deploy/envoy/failover.yaml, or use --redis-cluster)")
	}
	if o.Wasm == "" {
		t.Fail("--wasm: %q is not a path (want one such as /etc/envoy/sluice.wasm)", o.Wasm)
	}
	listen, admin := addresses(t, "--listen", o.Listen), addresses(t, "--admin", o.Admin)
	upstream := addresses(t, "--upstream", o.Upstream)
	if t.Err != nil {
		return Result{}, t.Err
	}
	t.SetText(listener+"address", listen[0].socketAddress())
	t.SetText("admin/address", admin[0].socketAddress())
	setEndpoints(t, "upstream", upstream...)
	t.SetText(limiter+"vm_config/code/local/filename", scalar(o.Wasm))
	if len(nodes) > 0 { // how Redis is reached and entered
		cluster := "redis"
		if o.Cluster {
			cluster = "redis_nodes"
		}
		text = o.connect(text)
		setEndpoints(t, cluster, nodes...)
		servers := t.At(clusters + cluster)
		if o.TLS {
			yamltree.PutBefore(servers, "load_assignment", "transport_socket", tlsOf(t, o, nodes[0]))
		}
		switch {
		case o.PasswordEnv == "":
		case o.Cluster:
			yamltree.PutBefore(servers, "load_assignment", "typed_extension_protocol_options", proxyAuth(t, o))
		default:
			variables := t.Fragment(fmt.Sprintf("{host_env_keys: [%s]}", o.PasswordEnv))
			yamltree.Put(t.At(limiter+"vm_config"), "environment_variables", variables)
		}
	}
	// As a block of text. JSON has no tab or line end inside its strings.
	text = strings.ReplaceAll(strings.Trim(text, "\r\n"), "\t", "  ")
	t.Set(limiter+"configuration/value", &yaml.Node{
		Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.LiteralStyle, Value: lineEnd.ReplaceAllString(text+"\n", "\n"),
	})
	t.Root.HeadComment, t.Root.Content[0].HeadComment = "", ""
	t.About = "# Written by \"sluice render envoy\", from deploy/envoy/" + envoyFile(o) + "."
	out, err := yamltree.Write(t)
	return Result{Text: string(out), Notes: notes}, err
}

var lineEnd = regexp.MustCompile(`[ \r]*\n`)

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

// shipped is a file of deploy/, which has one document.
func shipped(name string) *yamltree.Tree {
	text, err := deploy.Files.ReadFile(name)
	t, wrong := yamltree.Parse(text)
	console.Must(cmp.Or(err, wrong)) // it is built in
	return t
}

// borrow is a part of another shipped file.
func borrow(file, path string) *yaml.Node {
	other := shipped(file)
	part := other.At(path)
	console.Must(other.Err)
	return part
}

// setEndpoints sets the addresses of a cluster.
func setEndpoints(t *yamltree.Tree, cluster string, list ...address) {
	var all strings.Builder
	for _, a := range list {
		fmt.Fprintf(&all, "- endpoint: {address: %s}\n", a.socketAddress())
	}
	t.SetText(clusters+cluster+"/load_assignment/endpoints/0/lb_endpoints", all.String())
}

// proxyAuth has Envoy's redis_proxy enter Redis.
func proxyAuth(t *yamltree.Tree, o *Options) *yaml.Node {
	auth := t.Fragment(`envoy.filters.network.redis_proxy:
  "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProtocolOptions
`)
	options := auth.Content[1]
	if o.User != "" {
		yamltree.Put(options, "auth_username", t.Fragment("{inline_string: "+quote(o.User)+"}"))
	}
	yamltree.Put(options, "auth_password", t.Fragment("{environment_variable: "+o.PasswordEnv+"}"))
	return auth
}

const (
	// defaultPasswordEnv is the environment variable that takes a password's place.
	defaultPasswordEnv = "REDIS_PASSWORD"
	inEnvironment      = "the password of Redis is taken from the environment variable "
)

// takeCredentials takes from the plugin's configuration how Redis is entered, where no flag says it. Without
// a password PasswordEnv stays empty.
func (o *Options) takeCredentials(redis *config.Redis) (notes []string) {
	if redis == nil {
		redis = &config.Redis{}
	}
	o.User, o.PasswordEnv = cmp.Or(o.User, redis.Username), cmp.Or(o.PasswordEnv, redis.PasswordEnv)
	if o.User != "" || redis.Password != "" {
		o.PasswordEnv = cmp.Or(o.PasswordEnv, defaultPasswordEnv)
	}
	switch {
	case redis.Password != "":
		return []string{"redis.password is not written into the file: it is taken from the environment variable " +
			o.PasswordEnv}
	case o.PasswordEnv != "":
		return []string{inEnvironment + o.PasswordEnv}
	}
	return []string{}
}

// connect names the Envoy cluster of Redis in the plugin's configuration, and the credentials, unless redis_proxy
// sends them.
func (o *Options) connect(plugin string) string {
	fields := map[string]string{"cluster": "redis", "username": "", "password": "", "password_env": ""}
	if !o.Cluster {
		fields["username"], fields["password_env"] = o.User, o.PasswordEnv
	}
	old := gjson.Get(plugin, "redis")
	var members []string
	add := func(name, raw string) { members = append(members, quote(name)+": "+raw) }
	old.ForEach(func(key, value gjson.Result) bool {
		replacement, ours := fields[key.Str]
		delete(fields, key.Str)
		switch {
		case !ours:
			add(key.Str, value.Raw)
		case replacement != "":
			add(key.Str, quote(replacement))
		}
		return true
	})
	for _, name := range []string{"cluster", "username", "password_env"} {
		if value := fields[name]; value != "" {
			add(name, quote(value))
		}
	}
	object := "{" + strings.Join(members, ", ") + "}"
	begin, end := old.Index, old.Index+len(old.Raw)
	if !old.Exists() {
		begin = strings.IndexByte(plugin, '{') + 1
		object, end = "\n  \"redis\": "+object+",", begin
	}
	return plugin[:begin] + object + plugin[end:]
}

func quote(s string) string {
	text, _ := json.Marshal(s) // no string of Go fails
	return string(text)
}

var (
	// Names, paths, durations and IPv4 addresses.
	plainWord = regexp.MustCompile(`^(/?[A-Za-z][A-Za-z0-9_./-]*|[0-9]+(ms|[smhd])|[0-9]+(\.[0-9]+){3})$`)
	// Words that some YAML parser takes for something else than text.
	words = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}
)

// scalar is a string as YAML, quoted where it has to be.
func scalar(s string) string {
	if plainWord.MatchString(s) && !slices.Contains(words, strings.ToLower(s)) {
		return s
	}
	return quote(s)
}
