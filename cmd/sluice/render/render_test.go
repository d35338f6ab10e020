package render_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/cmd/sluice/render"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const (
	aLimit      = `{"algorithm": "gcra", "limit": 10, "window": "1s"}`
	localPlugin = `{"rules": [{"name": "a", "mode": "off", "limits": [` + aLimit + `]}]}`
	redisPlugin = `{"redis": {"cluster": "counters", "key_prefix": "edge"}, "rules": [{"name": "a", "limits": [` +
		aLimit + `]}]}`
	secretPlugin = `{"redis": {"cluster": "counters", "username": "edge", "password": "hunter2"},
		"rules": [{"name": "a", "limits": [` + aLimit + `]}]}`
)

// with are options with the defaults of the command's flags.
func with(plugin string, o render.Options) *render.Options {
	o.Plugin = []byte(plugin)
	o.CA = cmp.Or(o.CA, "/etc/ssl/certs/ca-certificates.crt")
	o.Listen, o.Admin = cmp.Or(o.Listen, "0.0.0.0:10000"), cmp.Or(o.Admin, "127.0.0.1:9901")
	o.Upstream, o.Wasm = cmp.Or(o.Upstream, "upstream:8080"), cmp.Or(o.Wasm, "/etc/envoy/sluice.wasm")
	return &o
}

var files = []struct {
	name, plugin    string
	options         render.Options
	contains, lacks []string
	notes           string // how they begin
}{
	{
		name: "Envoy without Redis", plugin: localPlugin, options: render.Options{},
		contains: []string{
			`Written by "sluice render envoy", from deploy/envoy/embedded.yaml`,
			`{"rules": [{"name": "a", "mode": "off"`,
		},
		lacks: []string{"bridge", "- name: redis"},
	},
	{
		name: "Envoy with Redis", plugin: localPlugin,
		options: render.Options{
			Redis: []string{"10.0.0.7:7000"}, Upstream: "app:80",
			Listen: "127.0.0.1:81", Admin: "127.0.0.1:82", Wasm: "/a/b.wasm",
		},
		contains: []string{
			`"redis": {"cluster": "redis"},"rules"`, "address: 10.0.0.7, port_value: 7000", "address: app, port_value: 80",
			"address: 127.0.0.1, port_value: 81", "address: 127.0.0.1, port_value: 82", "{filename: /a/b.wasm}",
		},
		lacks: []string{"/etc/envoy", "port_value: 6379", "port_value: 8080"},
	},
	{
		name: "the configuration's cluster is the file's", plugin: redisPlugin,
		options:  render.Options{Redis: []string{"redis:6379"}},
		contains: []string{`"redis": {"cluster": "redis", "key_prefix": "edge"}, "rules"`},
		lacks:    []string{"counters"},
	},
	{
		name: "TLS and a password", plugin: secretPlugin,
		options: render.Options{Redis: []string{"redis:6379"}, TLS: true, CA: "/ca.crt"},
		contains: []string{
			`"username": "edge", "password_env": "REDIS_PASSWORD"`, "host_env_keys: [REDIS_PASSWORD]",
			"trusted_ca: {filename: /ca.crt}", "sni: redis", "{san_type: DNS, matcher: {exact: redis}}",
		},
		lacks: []string{"hunter2"},
		notes: "redis.password is not written into the file: it is taken from the environment variable " +
			"REDIS_PASSWORD",
	},
	{
		name: "TLS to an address", plugin: redisPlugin,
		options:  render.Options{Redis: []string{"10.0.0.7:6379"}, TLS: true},
		contains: []string{"{san_type: IP_ADDRESS, matcher: {exact: 10.0.0.7}}"},
		lacks:    []string{"sni:"},
	},
	{
		name: "a Redis Cluster with a password", plugin: secretPlugin,
		options: render.Options{
			Redis: []string{"r0:6379", "r1:6380"}, Cluster: true,
			PasswordEnv: "PASSWORD", TLS: true,
		},
		contains: []string{
			`"redis": {"cluster": "redis"}`, "address: r0, port_value: 6379", "address: r1, port_value: 6380",
			"auth_username: {inline_string: \"edge\"}", "auth_password: {environment_variable: PASSWORD}", "sni: r0",
		},
		lacks: []string{"hunter2", "host_env_keys", "redis-0"},
		notes: "redis.password is not written into the file: it is taken from the environment variable PASSWORD",
	},
	{
		name: "a primary with replicas", plugin: redisPlugin,
		options:  render.Options{Redis: []string{"r0:6379", "r1:6379"}},
		contains: []string{"tcp_health_check", "address: r0, port_value: 6379", "address: r1, port_value: 6379"},
	},
}

func TestFiles(t *testing.T) {
	t.Parallel()
	for _, c := range files {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			result, err := render.Envoy(with(c.plugin, c.options))
			testenv.OK(t, err)
			for _, want := range c.contains {
				if !strings.Contains(result.Text, want) {
					t.Errorf("the file lacks %s", want)
				}
			}
			for _, unwanted := range c.lacks {
				if strings.Contains(result.Text, unwanted) {
					t.Errorf("the file has %s", unwanted)
				}
			}
			notes := strings.Join(result.Notes, "\n")
			if !strings.HasPrefix(notes, c.notes) || (c.notes == "") != (notes == "") {
				t.Errorf("notes %q, want %q", notes, c.notes)
			}
			if found, _, err := find.Configurations("a.yaml", []byte(result.Text)); err != nil || len(found) == 0 {
				t.Errorf("%d configurations of the plugin are in it: %v", len(found), err)
			}
			if t.Failed() {
				t.Logf("%s", result.Text)
			}
		})
	}
}

var refusals = []struct {
	name, plugin string
	options      render.Options
	errors       string // contained
}{
	{
		name: "a bad address", plugin: redisPlugin, options: render.Options{Redis: []string{"redis"}},
		errors: `--redis: "redis" is not an address (want host:port, such as redis:6379)`,
	},
	{
		name: "an address that is no name", plugin: redisPlugin,
		options: render.Options{Redis: []string{"a+b:1"}},
		errors:  `is not an address (want host:port, such as redis:6379)`,
	},
	{
		name: "an empty address", plugin: redisPlugin, options: render.Options{Redis: []string{"a:1", ""}},
		errors: `--redis: "" is not an address`,
	},
	{
		name: "a bad port", plugin: redisPlugin,
		options: render.Options{Redis: []string{"r:1"}, Listen: ":x"},
		errors:  `--listen: ":x" is not an address`,
	},
	{
		name: "a failover with a password", plugin: secretPlugin,
		options: render.Options{Redis: []string{"a:1", "b:1"}},
		errors:  "a failover with a password",
	},
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := render.Envoy(with(c.plugin, c.options)); err == nil || !strings.Contains(err.Error(), c.errors) {
				t.Errorf("error %v, want one with %s", err, c.errors)
			}
		})
	}
}
