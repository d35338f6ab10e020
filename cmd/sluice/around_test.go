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
