package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/bridge"
	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

var (
	inline       = "code: {local: {inline_bytes: " + base64.StdEncoding.EncodeToString(bridge.Wasm) + "}}"
	bridgeFilter = `        - name: sluice-bridge
          typed_config:
            "@type": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
            config:
              name: sluice-bridge
              root_id: sluice-bridge
              failure_policy: FAIL_RELOAD
              vm_config:
                vm_id: sluice-bridge
                runtime: envoy.wasm.runtime.v8
                # bridge/bridge.wasm, 1.6 KB; it reads no configuration
                ` + inline + "\n"
)

const (
	file       = "code: {local: {filename: build/sluice.wasm}}"
	bridgeFile = "code: {local: {filename: /etc/envoy/bridge.wasm}}"
	tcpPool    = `    upstream_config:
      name: envoy.filters.connection_pools.http.tcp
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.tcp.v3.TcpConnectionPoolProto
`
	jwt = `          - name: envoy.filters.http.jwt_authn
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
              providers: {idp: {issuer: a, payload_in_metadata: claims}}
`
	limiterFilter = "          - name: sluice\n"
	toUpstream    = "                route: {cluster: upstream}\n"
	routerFilter  = "          - name: envoy.filters.http.router\n"
	failurePolicy = `warning: the filter has no failure_policy: FAIL_RELOAD: a worker whose VM has died `
	perAddress    = `"name": "per-address"`
	keyed         = `{"header": "x-api-key", "hash": true}`
	claim         = `{"metadata": ["envoy.filters.http.jwt_authn", "claims", "sub"]}`
)

// withRedis adds fields to those of Redis.
func withRedis(fields string, more ...string) []string {
	return append([]string{`{"cluster": "redis"}`, `{"cluster": "redis"` + fields + `}`}, more...)
}

// withJWT adds a filter that writes metadata, and a key of it.
func withJWT(more ...string) []string {
	return append([]string{keyed, claim, limiterFilter, jwt + limiterFilter}, more...)
}

// matched adds a stats_matcher.
func matched(matcher string) []string {
	return []string{"stats_config:\n", "stats_config:\n  stats_matcher: {" + matcher + "}\n"}
}

// inRoute is how a route sets the limiter's filter.
func inRoute(set string) string {
	return "                typed_per_filter_config: {sluice: " + set + "}\n"
}

// second is a listener without the limiter, to a cluster.
func second(cluster string) string {
	return `  - name: second
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          stat_prefix: second
          route_config:
            virtual_hosts: [{name: all, routes: [{match: {prefix: "/"}, route: {cluster: ` + cluster + `}}]}]
          http_filters: [{name: envoy.filters.http.router}]
`
}

// breaks are mistakes that an Envoy file of users may have, and validate's words about each.
var breaks = []struct {
	name    string
	replace []string // pairs of what is there, and what takes its place
	at      string   // what stands on the first line that the finding may name
	says    string   // "": nothing
}{
	{"as it is", nil, "", ""},
	{
		"another cluster",
		[]string{`{"cluster": "redis"}`, `{"cluster": "cache"}`},
		`"redis": {"cluster":`,
		`redis.cluster: Envoy has no cluster "cache" (want one of that name, or one of "redis", "upstream")`,
	},
	{
		"a Struct as configuration",
		[]string{"StringValue\n                  value: |", "Struct\n                  value:"},
		"google.protobuf.Struct",
		"the configuration is a google.protobuf.Struct, of which Envoy hands the plugin bytes of protobuf (want \"@type\": " +
			"type.googleapis.com/google.protobuf.StringValue, and the JSON as a text in its value)",
	},
	{"clusters from a control plane", []string{
		`{"cluster": "redis"}`, `{"cluster": "cache"}`, "static_resources:",
		"dynamic_resources: {cds_config: {}}\nstatic_resources:",
	}, "", ""},
	{
		"no bridge",
		[]string{bridgeFilter, ""},
		`"redis": {"cluster":`,
		`redis.cluster: the cluster "redis" has no bridge among its http_filters`,
	},
	{
		"no TCP pool",
		[]string{tcpPool, ""},
		`"redis": {"cluster":`,
		`redis.cluster: the cluster "redis" has the bridge, but no TCP connection pool`,
	},
	{"a relay", []string{tcpPool, "", bridgeFilter, ""}, "", ""},
	{"HTTP/1 to what may be a relay", []string{
		tcpPool, "", bridgeFilter, "", "http2_protocol_options",
		"http_protocol_options",
	}, `"redis": {"cluster":`, `redis.cluster: the cluster "redis" has neither the bridge`},
	{"the bridge in a file", []string{inline, bridgeFile}, "", ""},
	{
		"the limiter as bridge",
		[]string{inline, file},
		"name: sluice-bridge\n              root_id", "the configuration is empty (want an object",
	},
	{"one vm_id, other code", []string{"vm_id: sluice-bridge", "vm_id: sluice"}, "", ""},
	{
		"the bridge as limiter",
		[]string{file, inline},
		"vm_id: sluice",
		"the code is the bridge, which limits nothing (want code: {local: {filename: /etc/envoy/sluice.wasm}})",
	},
	{
		"no host_env_keys", withRedis(`, "password_env": "PW"`), `"redis": {"cluster":`,
		`redis.password_env: the plugin is not given the environment variable "PW" (want environment_variables: ` +
			`{host_env_keys: [PW]} in vm_config)`,
	},
	{"host_env_keys", withRedis(`, "password_env": "PW"`, "vm_id: sluice\n",
		"vm_id: sluice\n                  environment_variables: {host_env_keys: [PW]}\n"), "", ""},
	{
		"no filter for metadata",
		[]string{keyed, claim},
		`{"metadata": [`,
		`rules[1].key[0].metadata: no filter before Sluice writes the metadata "envoy.filters.http.jwt_authn"`,
	},
	{
		"a filter that may write it",
		[]string{keyed, claim, limiterFilter, "          - {name: mine, config_discovery: {}}\n" + limiterFilter},
		"", "",
	},
	{
		"a filter that comes later",
		[]string{keyed, claim, routerFilter, jwt + routerFilter},
		`{"metadata": [`,
		`rules[1].key[0].metadata: the filter that writes the metadata "envoy.filters.http.jwt_authn" comes after Sluice`,
	},
	{
		"a filter that writes elsewhere", withJWT("payload_in_metadata: claims", "payload_in_metadata: payload"),
		`{"metadata": [`,
		`rules[1].key[0].metadata: jwt_authn writes no "claims", it writes "payload" (payload_in_metadata)`,
	},
	{
		"a filter that writes nothing", withJWT(", payload_in_metadata: claims", ""), `{"metadata": [`,
		`rules[1].key[0].metadata: jwt_authn writes no metadata (want payload_in_metadata: "claims" in its provider)`,
	},
	{"a filter that writes it", withJWT(), "", ""},
	{
		"addresses that clients choose",
		[]string{"use_remote_address: true", "use_remote_address: false"},
		"HttpConnectionManager", `warning: rule "per-address" counts by client_ip, which clients choose here`,
	},
	{
		"addresses that clients choose, within an identity",
		[]string{
			"use_remote_address: true", "use_remote_address: false", "{" + perAddress, `{"name": "a", "limits": [{` +
				`"algorithm": "gcra", "limit": 9, "window": "1s", "name": "each", "per": [{"client_ip": true}]}]}, {` + perAddress,
		},
		"HttpConnectionManager", `warning: rule "a" counts by client_ip, which clients choose here`,
	},
	{"trusted hops", []string{"use_remote_address: true", "xff_num_trusted_hops: 1"}, "", ""},
	{
		"a stats_matcher of the company's",
		matched("inclusion_list: {patterns: [{prefix: http.}, {safe_regex: {regex: 'cluster\\..*'}}]}"),
		"stats_matcher:", `warning: the stats_matcher of stats_config leaves out metrics of Sluice`,
	},
	{
		"one that excludes", matched("exclusion_list: {patterns: [{contains: .REDIS., ignore_case: true}]}"),
		"stats_matcher:", `warning: the stats_matcher of stats_config leaves out metrics of Sluice`,
	},
	{
		"one that rejects all", matched("reject_all: true"),
		"stats_matcher:", `warning: the stats_matcher of stats_config leaves out metrics of Sluice`,
	},
	{"one that includes it", matched("inclusion_list: {patterns: [{prefix: http.}, {prefix: wasmcustom.}]}"), "", ""},
	{"one that excludes others", matched("exclusion_list: {patterns: [{prefix: server.}, {suffix: limited}]}"), "", ""},
	{
		"a key that stands twice",
		[]string{"static_resources:", "stats_config: {}\n\nstatic_resources:"},
		"stats_config: {}", `"stats_config" stands here for the second time, after line 13: Envoy takes the last alone`,
	},
	{"no labels", []string{"stats_tags:", "other:"}, "admin:", `warning: stats_config has no stats_tags for Sluice`},
	{"no failure policy", []string{
		"                failure_policy: FAIL_RELOAD\n                vm_config",
		"                vm_config",
	}, "                name: sluice", failurePolicy + "answers 503 from then on"},
	{"a failure policy that limits nobody", []string{
		"                failure_policy: FAIL_RELOAD\n                vm_config",
		"                failure_policy: FAIL_OPEN\n                vm_config",
	}, "                name: sluice", failurePolicy + "limits nobody from then on"},
	{"the older name of that one", []string{
		"                failure_policy: FAIL_RELOAD\n                vm_config",
		"                fail_open: true\n                vm_config",
	}, "                name: sluice", failurePolicy + "limits nobody from then on"},
	{
		"a filter that is off",
		[]string{limiterFilter, limiterFilter + "            disabled: true\n"},
		limiterFilter, "warning: the filter is disabled here, and no route turns it on",
	},
	{"a filter that is off, and on in a route", []string{
		limiterFilter, limiterFilter + "            disabled: true\n", toUpstream, toUpstream + inRoute("{config: {}}"),
	}, "", ""},
	{
		"a route that takes all, and turns the filter off",
		[]string{toUpstream, toUpstream + inRoute("{disabled: true}")},
		"- match: {prefix: \"/\"}", "warning: typed_per_filter_config disables the filter here",
	},
	{"a route that turns another limiter on in its place", []string{
		toUpstream, toUpstream + inRoute("{disabled: true}, other: {config: {}}"),
		limiterFilter, "          - {name: other, config_discovery: {}}\n" + limiterFilter,
	}, "", ""},
	{"a narrow route that turns the filter off", []string{
		`match: {prefix: "/"}`, `match: {prefix: "/static/"}`, toUpstream, toUpstream + inRoute("{disabled: true}"),
	}, "", ""},
	{
		"a virtual host that turns the filter off",
		[]string{
			`domains: ["*"]`, "typed_per_filter_config: {sluice: {disabled: true}}\n" + `              domains: ["*"]`,
		},
		"- name: all", "warning: typed_per_filter_config disables the filter here",
	},
	{
		"a second listener to the same cluster",
		[]string{"  clusters:\n", second("upstream") + "  clusters:\n"},
		"stat_prefix: second", "warning: this connection manager has no Sluice, and leads to a cluster",
	},
	{"a second listener to another cluster", []string{
		"  clusters:\n", second("redis") + "  clusters:\n",
	}, "", ""},
	{
		"more hops than anybody has",
		[]string{"use_remote_address: true", "use_remote_address: true\n          xff_num_trusted_hops: 99"},
		`"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager`,
		"warning: with so many xff_num_trusted_hops",
	},
	{
		"paths as clients write them",
		[]string{"normalize_path: true", "normalize_path: false"},
		`"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager`,
		"warning: rules read the path",
	},
	{
		"an open admin interface",
		[]string{"address: 127.0.0.1, port_value: 9901", "address: 0.0.0.0, port_value: 9901"},
		"  address: {socket_address: {address: 0.0.0.0", "warning: the admin interface listens on all addresses",
	},
	{
		"a password", withRedis(`, "password": "secret"`), `"redis": {"cluster":`,
		"warning: redis.password: whoever reads this file",
	},
	{
		"a rule that is never reached",
		[]string{`"match": {"path": "/healthz"}, "exempt"`, `"match": {"path": {"prefix": ` +
			`"/"}}, "exempt"`},
		`{"name": "per-key"`,
		`warning: rules[1]: rule "per-key" is never reached: rule "health" before it exempts every request`,
	},
}

// TestValidateAround breaks the Envoy file that users get, each time in one way that Envoy accepts.
func TestValidateAround(t *testing.T) {
	t.Parallel()
	shipped, err := os.ReadFile(filepath.Join(testenv.Root(t), "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range breaks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := string(shipped)
			for i := 0; i < len(c.replace); i += 2 {
				if !strings.Contains(text, c.replace[i]) {
					t.Fatalf("envoy.yaml has no %s", c.replace[i])
				}
				text = strings.Replace(text, c.replace[i], c.replace[i+1], 1)
			}
			checkFindings(t, text, lineWith(t, text, c.at), c.says)
		})
	}
}

// lineWith is the first line of a text that contains something.
func lineWith(t *testing.T, text, what string) int {
	t.Helper()
	before, _, found := strings.Cut(text, what)
	if !found {
		t.Fatalf("no line has %s", what)
	}
	return 1 + strings.Count(before, "\n")
}

// TestValidatePasswordVariable looks for the variable where each mesh has it.
func TestValidatePasswordVariable(t *testing.T) {
	t.Parallel()
	const plugin = `{redis: {cluster: c, password_env: PW}, rules: [{name: a, limits: [{algorithm: gcra, limit: 1, ` +
		`window: 1s}]}]}`
	istio := "kind: WasmPlugin\nmetadata: {name: sluice}\nspec:\n  pluginConfig: " + plugin + "\n"
	extension := "kind: TrafficExtension\nmetadata: {name: sluice}\nspec:\n  wasm:\n    pluginConfig: " + plugin + "\n"
	gateway := "kind: EnvoyExtensionPolicy\nmetadata: {name: sluice}\nspec:\n  wasm:\n  - config: " + plugin + "\n"
	const missing = `redis.password_env: the plugin is not given the environment variable "PW" (want `
	for _, c := range []struct {
		name, text string
		line       int
		says       string
	}{
		{"a WasmPlugin without", istio, 4, missing + "{name: PW, valueFrom: HOST} in spec.vmConfig.env)"},
		{"a WasmPlugin with", istio + "  vmConfig: {env: [{name: PW, valueFrom: HOST}]}\n", 0, ""},
		{"a TrafficExtension without", extension, 5, missing + "{name: PW, valueFrom: HOST} in spec.wasm.vmConfig.env)"},
		{"a TrafficExtension with", extension + "    vmConfig: {env: [{name: PW, valueFrom: HOST}]}\n", 0, ""},
		{"an EnvoyExtensionPolicy without", gateway, 5, missing + "env: {hostKeys: [PW]})"},
		{"an EnvoyExtensionPolicy with", gateway + "    env: {hostKeys: [PW]}\n", 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			checkFindings(t, c.text, c.line, c.says)
		})
	}
}

// checkFindings holds that a file has this finding at this line, and with --strict a mistake.
func checkFindings(t *testing.T, text string, line int, says string) {
	t.Helper()
	file := write(t, "envoy.yaml", text)
	r := execute(t, "", "validate", "--strict", file)
	if want := console.Refused; says != "" && r.code != want {
		t.Errorf("exit code %d with --strict, want %d", r.code, want)
	}
	if says == "" {
		if r.code != console.Done {
			t.Errorf("exit code %d, want nothing wrong in\n%s", r.code, r.out)
		}
		return
	}
	if want := fmt.Sprintf("%s:%d: %s", file, line, says); !strings.Contains(r.out, want) {
		t.Errorf("output\n%s\nwant\n%s", r.out, want)
	}
	want := console.Refused
	if strings.HasPrefix(says, "warning: ") {
		want = console.Done
	}
	if r := execute(t, "", "validate", file); r.code != want {
		t.Errorf("exit code %d, want %d", r.code, want)
	}
}

// TestValidateIstio finds settings of Istio's around a right configuration.
func TestValidateIstio(t *testing.T) {
	t.Parallel()
	const plugin = `{redis: {cluster: c}, rules: [{name: a, limits: [{algorithm: gcra, limit: 1, window: 1s}]}]}`
	ofClaims := strings.Replace(plugin, "limits:", `key: [{metadata: ["envoy.filters.http.jwt_authn", payload, sub]}], `+
		"limits:", 1)
	for _, c := range []struct{ name, set, plugin, says string }{
		{"nothing", "", plugin, ""},
		{"FAIL_RELOAD", "failStrategy: FAIL_RELOAD, ", plugin, ""},
		{"FAIL_OPEN", "failStrategy: FAIL_OPEN, ", plugin, "with failStrategy: FAIL_OPEN nobody is limited"},
		{"a client", "match: [{mode: CLIENT}], ", plugin, "the plugin looks at what its workload sends"},
		{"a server", "match: [{mode: SERVER}], ", plugin, ""},
		{"both", "match: [{mode: CLIENT}, {mode: SERVER}], ", plugin, ""},
		{"AUTHN", "phase: AUTHN, ", plugin, ""},
		{"AUTHN and a claim", "phase: AUTHN, ", ofClaims, "in the phase AUTHN the plugin comes before"},
		{"AUTHZ and a claim", "phase: AUTHZ, ", ofClaims, ""},
		{"a type", "type: NETWORK, ", plugin, "a plugin of type NETWORK sees connections"},
		{"HTTP", "type: HTTP, ", plugin, ""},
		{
			"a password", "", strings.Replace(plugin, "cluster: c", "cluster: c, password: p", 1),
			"redis.password: whoever reads this file",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			says := c.says
			if says != "" {
				says = "warning: " + says
			}
			const object = "\nmetadata: {name: sluice}\nspec: {"
			checkFindings(t, "kind: WasmPlugin"+object+c.set+"pluginConfig: "+c.plugin+"}\n", 3, says)
			extension := object + "wasm: {" + c.set + "pluginConfig: " + c.plugin + "}}\n"
			if strings.HasPrefix(c.set, "match") || strings.HasPrefix(c.set, "phase") { // these are not the plugin's own
				extension = object + c.set + "wasm: {pluginConfig: " + c.plugin + "}}\n"
			}
			checkFindings(t, "kind: TrafficExtension"+extension, 3, says)
		})
	}
}

const keyedPlugin = `{"redis": {"cluster": "redis"}, "hash_secret_env": "SLUICE_KEYED_TEST", "rules": [
	{"name": "a", "overrides": true, "key": [{"header": "x-phone", "hash": "keyed"}],
	 "limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h"}]}]}`

// TestKeyedWithoutSecret: validate wants the plugin to be given the variable with the secret.
func TestKeyedWithoutSecret(t *testing.T) {
	t.Parallel()
	without := "kind: WasmPlugin\nmetadata: {name: a}\nspec:\n  pluginConfig: " +
		strings.ReplaceAll(strings.ReplaceAll(keyedPlugin, "\n", ""), "\t", "") + "\n"
	checkFindings(t, without, 4, `hash_secret_env: the plugin is not given the environment variable "SLUICE_KEYED_TEST" `+
		`(want {name: SLUICE_KEYED_TEST, valueFrom: HOST} in spec.vmConfig.env)`)
}
