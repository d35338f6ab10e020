package render_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/cmd/sluice/render"
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
	o.App, o.Gateway, o.Listener = cmp.Or(o.App, "istio-ingressgateway"), cmp.Or(o.Gateway, "eg"),
		cmp.Or(o.Listener, "http")
	return &o
}

type runner func(*render.Options) (render.Result, error)

var files = []struct {
	name, plugin    string
	run             runner
	options         render.Options
	contains, lacks []string
	notes           string // how they begin
}{
	{
		name: "Envoy without Redis", plugin: localPlugin, run: render.Envoy, options: render.Options{},
		contains: []string{
			`Written by "sluice render envoy", from deploy/envoy/embedded.yaml`,
			`{"rules": [{"name": "a", "mode": "off"`,
		},
		lacks: []string{"bridge", "- name: redis"},
	},
	{
		name: "Envoy with Redis", plugin: localPlugin,
		run: render.Envoy, options: render.Options{
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
		name: "the configuration's cluster is the file's", plugin: redisPlugin, run: render.Envoy,
		options:  render.Options{Redis: []string{"redis:6379"}},
		contains: []string{`"redis": {"cluster": "redis", "key_prefix": "edge"}, "rules"`},
		lacks:    []string{"counters"},
	},
	{
		name: "TLS and a password", plugin: secretPlugin, run: render.Envoy,
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
		name: "TLS to an address", plugin: redisPlugin, run: render.Envoy,
		options:  render.Options{Redis: []string{"10.0.0.7:6379"}, TLS: true},
		contains: []string{"{san_type: IP_ADDRESS, matcher: {exact: 10.0.0.7}}"},
		lacks:    []string{"sni:"},
	},
	{
		name: "a Redis Cluster with a password", plugin: secretPlugin,
		run: render.Envoy, options: render.Options{
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
		name: "a primary with replicas", plugin: redisPlugin, run: render.Envoy,
		options:  render.Options{Redis: []string{"r0:6379", "r1:6379"}},
		contains: []string{"tcp_health_check", "address: r0, port_value: 6379", "address: r1, port_value: 6379"},
	},
	{
		name: "a gateway of Istio", plugin: localPlugin,
		run: render.Istio, options: render.Options{
			Image: "oci://r/s:1", Redis: []string{"redis.prod:6380"},
			Namespace: "edge", App: "gw",
		},
		contains: []string{
			"kind: WasmPlugin", "kind: EnvoyFilter", "namespace: edge", "matchLabels: {app: gw}", "labels: {app: gw}",
			`url: "oci://r/s:1"`, "inline_bytes: ", "address: redis.prod, port_value: 6380",
			"redis: {cluster: sluice-redis}", `mode: "off"`,
			"%FILTER_STATE(wasm.sluice.rejected:PLAIN)%",
		},
		lacks: []string{"from-values", "REDIS_PASSWORD", "ConfigMap", "istio-system", "redis_proxy", "REJECT_REQUEST"},
	},
	{
		name: "a gateway of Istio with what is opt-in", plugin: localPlugin,
		run: render.Istio, options: render.Options{
			Image: "oci://r/s:1", Redis: []string{"redis.prod:6380"},
			Namespace: "edge", App: "gw", StrictHTTP: true, Bootstrap: true,
		},
		contains: []string{
			"name: sluice-http", "REJECT_REQUEST", "kind: ConfigMap", "name: sluice-bootstrap", "namespace: edge",
			"custom_bootstrap.json: |", "- {tag_name: rule, regex: '^wasmcustom",
		},
		lacks: []string{"from-values", "sluice-values"},
	},
	{
		name: "a sidecar of Istio", plugin: secretPlugin,
		run: render.Istio, options: render.Options{
			Sidecar: true, App: "reviews", Image: "oci://r/s:1",
			Redis: []string{"redis.prod:6380"},
		},
		contains: []string{
			"match: [{mode: SERVER}]", "namespace: default",
			"vmConfig: {env: [{name: \"REDIS_PASSWORD\", valueFrom: HOST}]}", "password_env: REDIS_PASSWORD",
		},
		lacks: []string{"hunter2"},
		notes: "redis.password",
	},
	{
		name: "a Redis Cluster in Istio", plugin: redisPlugin,
		run: render.Istio, options: render.Options{Cluster: true, Image: "oci://r/s:1", Redis: []string{"redis.prod:6380"}},
		contains: []string{
			"redis_proxy", "server_listener_name: sluice-redis-proxy",
			"address: redis.prod, port_value: 6380",
		},
		lacks: []string{"auth_password", "transport_socket"},
	},
	{
		name: "a Redis Cluster with TLS and a password in Istio", plugin: secretPlugin,
		run: render.Istio, options: render.Options{
			Cluster: true, TLS: true, Image: "oci://r/s:1",
			Redis: []string{"redis.prod:6380"},
		},
		contains: []string{"auth_password: {environment_variable: REDIS_PASSWORD}", "sni: redis.prod"},
		lacks:    []string{"vmConfig", "/etc/sluice/ca.crt", "hunter2"},
		notes:    "redis.password",
	},
	{
		name: "Envoy Gateway", plugin: redisPlugin,
		run: render.EnvoyGateway, options: render.Options{
			Image: "r/s:1", Redis: []string{"redis.prod:6380"},
			Namespace: "edge", Gateway: "g", Listener: "https",
		},
		contains: []string{
			"kind: EnvoyExtensionPolicy", "kind: EnvoyProxy", "namespace: edge", "name: edge/g/https", "kind: Gateway, name: g",
			`image: {url: "r/s:1"}`, "inline_bytes: ", "address: redis.prod, port_value: 6380",
			"cluster: sluice-redis, key_prefix: edge",
		},
		lacks: []string{"from-values", "REDIS_PASSWORD", "ConfigMap", "namespace/gateway/listener"},
	},
	{
		name: "Envoy Gateway with TLS and a password", plugin: secretPlugin,
		run: render.EnvoyGateway, options: render.Options{
			Image: "r/s:1", Redis: []string{"redis.prod:6380"}, TLS: true,
			PasswordEnv: "PW",
		},
		contains: []string{`env: {hostKeys: ["PW"]}`, "env: [{name: PW, valueFrom", "password_env: PW", "sni: redis.prod"},
		lacks:    []string{"hunter2", "REDIS_PASSWORD"},
		notes:    "redis.password",
	},
}

func TestFiles(t *testing.T) {
	t.Parallel()
	for _, c := range files {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			result, err := c.run(with(c.plugin, c.options))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.contains {
				if !strings.Contains(string(result.YAML), want) {
					t.Errorf("the file lacks %s", want)
				}
			}
			for _, unwanted := range c.lacks {
				if strings.Contains(string(result.YAML), unwanted) {
					t.Errorf("the file has %s", unwanted)
				}
			}
			notes := strings.Join(result.Notes, "\n")
			if !strings.HasPrefix(notes, c.notes) || (c.notes == "") != (notes == "") {
				t.Errorf("notes %q, want %q", notes, c.notes)
			}
			if found, _, err := find.Configurations("a.yaml", result.YAML); err != nil || len(found) == 0 {
				t.Errorf("%d configurations of the plugin are in it: %v", len(found), err)
			}
			if t.Failed() {
				t.Logf("%s", result.YAML)
			}
		})
	}
}

var refusals = []struct {
	name, plugin string
	run          runner
	options      render.Options
	errors       string // contained
}{
	{
		name: "a bad address", plugin: redisPlugin, run: render.Envoy, options: render.Options{Redis: []string{"redis"}},
		errors: `--redis: "redis" is not an address (want host:port, such as redis:6379)`,
	},
	{
		name: "an address that is no name", plugin: redisPlugin, run: render.Envoy,
		options: render.Options{Redis: []string{"a+b:1"}},
		errors:  `is not an address (want host:port, such as redis:6379)`,
	},
	{
		name: "an empty address", plugin: redisPlugin, run: render.Envoy, options: render.Options{Redis: []string{"a:1", ""}},
		errors: `--redis: "" is not an address`,
	},
	{
		name: "a bad port", plugin: redisPlugin, run: render.Envoy,
		options: render.Options{Redis: []string{"r:1"}, Listen: ":x"},
		errors:  `--listen: ":x" is not an address`,
	},
	{
		name: "a failover with a password", plugin: secretPlugin, run: render.Envoy,
		options: render.Options{Redis: []string{"a:1", "b:1"}},
		errors:  "a failover with a password",
	},
	{
		name: "a mesh without Redis", plugin: localPlugin, run: render.Istio, options: render.Options{Image: "oci://r/s:1"},
		errors: "one --redis host:port is needed",
	},
	{
		name: "an image without a scheme", plugin: redisPlugin, run: render.Istio,
		options: render.Options{Image: "r/s:1", Redis: []string{"r:1"}},
		errors:  `--image: "r/s:1" has no scheme (want oci://r/s:1)`,
	},
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := c.run(with(c.plugin, c.options)); err == nil || !strings.Contains(err.Error(), c.errors) {
				t.Errorf("error %v, want one with %s", err, c.errors)
			}
		})
	}
}
