package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/deploy"
	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// The places in the files of deploy/envoy that are replaced.
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
	t := shipped("envoy/" + envoyFile(o))
	nodes := addresses(t, "--redis", o.Redis...)
	if len(nodes) > 1 && !o.Cluster && p.passwordEnv != "" {
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
	t.Set(t.Fragment(listen[0].socketAddress()), below(listener, "address")...)
	t.Set(t.Fragment(admin[0].socketAddress()), "admin", "address")
	setEndpoints(t, "upstream", upstream...)
	t.Set(t.Fragment(scalar(o.Wasm)), below(limiter, wasmFile...)...)
	if len(nodes) > 0 { // how Redis is reached and entered
		cluster, sendsAuth := "redis", true
		if o.Cluster { // then redis_proxy does
			cluster, sendsAuth = "redis_nodes", false
		}
		p.connect("redis", sendsAuth)
		servers := t.At(below(clusters, cluster)...)
		setEndpoints(t, cluster, nodes...)
		if o.TLS {
			yamltree.PutBefore(servers, "load_assignment", "transport_socket", tlsOf(t, o, nodes[0]))
		}
		switch {
		case p.passwordEnv == "":
		case sendsAuth:
			variables := t.Fragment(fmt.Sprintf("{host_env_keys: [%s]}", p.passwordEnv))
			yamltree.Put(t.At(below(limiter, "vm_config")...), "environment_variables", variables)
		default:
			yamltree.PutBefore(servers, "load_assignment", "typed_extension_protocol_options", proxyAuth(t, p))
		}
	}
	// As a block of text. JSON has no tab or line end inside its strings.
	text := strings.ReplaceAll(strings.Trim(string(p.text), "\r\n"), "\t", "  ")
	t.Set(&yaml.Node{
		Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.LiteralStyle, Value: lineEnd.ReplaceAllString(text+"\n", "\n"),
	}, below(limiter, "configuration", "value")...)
	t.Root.HeadComment, t.Root.Content[0].HeadComment = "", ""
	t.About = "# Written by \"sluice render envoy\", from deploy/envoy/" + envoyFile(o) + "."
	out, err := yamltree.Write(t)
	return Result{YAML: out, Notes: p.notes()}, err
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

// borrow is a copy of a part of another shipped file.
func borrow(t *yamltree.Tree, file string, path ...string) *yaml.Node {
	other := shipped(file)
	part := yamltree.Copy(other.At(path...))
	if other.Err != nil {
		t.Fail("%s: %w", file, other.Err)
	}
	return part
}

// setEndpoints sets the addresses of a cluster.
func setEndpoints(t *yamltree.Tree, cluster string, list ...address) {
	var all strings.Builder
	for _, a := range list {
		fmt.Fprintf(&all, "- endpoint: {address: %s}\n", a.socketAddress())
	}
	t.Set(t.Fragment(all.String()), below(clusters, cluster, "load_assignment", "endpoints", "0", "lb_endpoints")...)
}

// proxyAuth has Envoy's redis_proxy enter Redis.
func proxyAuth(t *yamltree.Tree, p *plugin) *yaml.Node {
	auth := t.Fragment(`envoy.filters.network.redis_proxy:
  "@type": type.googleapis.com/envoy.extensions.filters.network.redis_proxy.v3.RedisProtocolOptions
`)
	options := auth.Content[1]
	if p.user != "" {
		yamltree.Put(options, "auth_username", t.Fragment("{inline_string: "+quote(p.user)+"}"))
	}
	yamltree.Put(options, "auth_password", t.Fragment("{environment_variable: "+p.passwordEnv+"}"))
	return auth
}

// defaultPasswordEnv is the environment variable that takes a password's place.
const defaultPasswordEnv = "REDIS_PASSWORD"

// plugin is a plugin's configuration on its way into a file.
type plugin struct {
	text []byte // JSON
	// User and PasswordEnv are how Redis is entered; PasswordEnv is empty if it
	// has no password.
	user, passwordEnv string
	// secret is set if the configuration had the password itself.
	secret bool
	// inClear is set if a relay sends the password over the network without TLS.
	inClear bool
}

// newPlugin reads a configuration, which must be valid, and takes its
// credentials out of it.
func newPlugin(o *Options) (*plugin, error) {
	cfg, err := input.Load(o.Plugin)
	if err != nil {
		return nil, err
	}
	if cfg.Redis != nil && len(o.Redis) == 0 {
		return nil, fmt.Errorf("the configuration has \"redis\", so its address is needed: --redis host:port")
	}
	p := &plugin{text: bytes.TrimPrefix(o.Plugin, []byte("\ufeff")), user: o.User, passwordEnv: o.PasswordEnv}
	if cfg.Redis != nil {
		p.secret = cfg.Redis.Password != ""
		p.user = cmp.Or(p.user, cfg.Redis.Username)
		p.passwordEnv = cmp.Or(p.passwordEnv, cfg.Redis.PasswordEnv)
	}
	if p.passwordEnv == "" && (p.secret || p.user != "") {
		p.passwordEnv = defaultPasswordEnv
	}
	return p, nil
}

// connect names the Envoy cluster of Redis, and the credentials that the plugin
// sends itself.
func (p *plugin) connect(cluster string, sendsAuth bool) {
	fields := map[string]string{"cluster": cluster, "username": "", "password": "", "password_env": ""}
	if sendsAuth {
		fields["username"], fields["password_env"] = p.user, p.passwordEnv
	}
	old := gjson.GetBytes(p.text, "redis")
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
		begin = bytes.IndexByte(p.text, '{') + 1
		object, end = "\n  \"redis\": "+object+",", begin
	}
	p.text = slices.Concat(p.text[:begin], []byte(object), p.text[end:])
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
