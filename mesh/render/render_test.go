// Package render holds the chart against Helm's lint, and what Helm makes of it against the other files of
// deploy/ and the documents.
package render

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/strvals"

	"github.com/sluiceproxy/sluice/cmd/sluice/find"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/cmd/sluice/render"
	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/mesh/meshtest"
)

// limiters are the files with values of what limits.
var limiters = []string{
	"istio/gateway.yaml", "istio/sidecar.yaml", "envoy-gateway/gateway.yaml",
	"istio/gateway-relay.yaml", "istio/sidecar-relay.yaml", "istio/waypoint-relay.yaml",
	"envoy-gateway/gateway-relay.yaml",
}

// relays are those of relays.
var relays = []string{"istio/relay.yaml", "envoy-gateway/relay.yaml", "relay/kubernetes.yaml"}

// TestRelay: a relay of the chart is the one that "sluice render relay" writes, in all its forms, but for TLS
// and RBAC, which the mesh does, and for the password, which is a file.
func TestRelay(t *testing.T) {
	const auth = "static_resources/clusters/redis/typed_extension_protocol_options/envoy.filters.network.redis_proxy/" +
		"auth_password"
	for _, file := range relays {
		for name, more := range map[string]meshtest.Values{
			"plain":   {},
			"cluster": {"cluster": true},
			"TLS":     {"tls": meshtest.Values{"enabled": true, "ca": "/ca", "serverName": "redis"}},
			"replica": {"nodes": []any{
				meshtest.Values{"host": "redis", "port": 6379}, meshtest.Values{"host": "replica", "port": 6379},
			}},
		} {
			t.Run(file+" "+name, func(t *testing.T) {
				o := render.Options{
					Redis: []string{"redis:6379"}, User: "sluice", CA: "/ca", TLS: name == "TLS", Cluster: name == "cluster",
					Listen: "0.0.0.0:9000", Allow: []string{"spiffe://a/b"},
				}
				if name == "replica" {
					o.Redis = append(o.Redis, "replica:6379")
				}
				alone, err := render.Relay(&o)
				testenv.OK(t, err)
				want := envoytest.Parse(t, alone.Text)
				envoytest.Plain(want)
				want.Set(auth, map[string]any{"filename": "/etc/sluice/redis/password"})
				want.Set("static_resources/listeners/drain/address/socket_address/address", "0.0.0.0")
				pod := kinds(t, meshtest.Render(t, file, meshtest.Values{"redis": more}))["ConfigMap/sluice-relay"]
				got := envoytest.Parse(t, pod.Get("data/envoy.yaml").(string))
				if !reflect.DeepEqual(got.Get(""), want.Get("")) {
					t.Errorf("the relay is\n%v, want\n%v", got.Get(""), want.Get(""))
				}
			})
		}
	}
}

// kinds are the resources of a file, by kind and name.
func kinds(t *testing.T, text string) map[string]*envoyconf.Config {
	t.Helper()
	all := map[string]*envoyconf.Config{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		c := envoytest.Parse(t, document)
		all[c.Get("kind").(string)+"/"+c.Get("metadata/name").(string)] = c
	}
	return all
}

// TestOneSource: the labels of the metrics are those of envoy.yaml, and the fields of the access log those of
// docs/observability.md.
func TestOneSource(t *testing.T) {
	labels := envoytest.Parse(t, string(testenv.File(t, "envoy.yaml"))).Get("stats_config")
	_, rest, _ := strings.Cut(string(testenv.File(t, "docs/observability.md")), "```yaml\nlog_format:\n")
	block, _, _ := strings.Cut(rest, "```")
	log := envoytest.Parse(t, "log_format:\n"+block).Get("log_format/json_format")
	set := meshtest.Values{"istio": meshtest.Values{"bootstrap": true}}
	istio := kinds(t, meshtest.Render(t, "istio/gateway.yaml", set))
	merged := envoytest.Parse(t, istio["ConfigMap/sluice-bootstrap"].Get("data/custom_bootstrap.json").(string))
	merged.Delete("stats_config/stats_matcher")
	proxy := kinds(t, meshtest.Render(t, "envoy-gateway/gateway.yaml"))["EnvoyProxy/sluice"]
	const patch = "/patch/value/typed_config/access_log/0/typed_config/log_format/json_format"
	filter := istio["EnvoyFilter/sluice-log"]
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"Istio's bootstrap", merged.Get("stats_config"), labels},
		{
			"the EnvoyProxy's bootstrap",
			envoytest.Parse(t, proxy.Get("spec/bootstrap/value").(string)).Get("stats_config"), labels,
		},
		{"the EnvoyProxy's log", proxy.Get("spec/telemetry/accessLog/settings/0/format/json"), log},
		{"Istio's log, 0", filter.Get("spec/configPatches/0" + patch), log},
		{"Istio's log, 1", filter.Get("spec/configPatches/1" + patch), log},
	} {
		if c.want == nil || !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s is\n%v, want\n%v", c.what, c.got, c.want)
		}
	}
}

// TestRestricted: the restricted Pod Security Standard admits the relay's pods.
// https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
func TestRestricted(t *testing.T) {
	pod := kinds(t, meshtest.Render(t, "relay/kubernetes.yaml"))["Deployment/sluice-relay"]
	const spec, secure = "spec/template/spec/", "containers/envoy/securityContext/"
	for field, want := range map[string]any{
		"securityContext/runAsNonRoot":        true,
		"securityContext/seccompProfile/type": "RuntimeDefault",
		secure + "allowPrivilegeEscalation":   false,
		secure + "readOnlyRootFilesystem":     true,
		secure + "capabilities":               map[string]any{"drop": []any{"ALL"}},
		"automountServiceAccountToken":        false,
	} {
		if got := pod.Get(spec + field); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", field, got, want)
		}
	}
	var kinds []string // of volumes: no hostPath
	for _, volume := range pod.Get(spec + "volumes").([]any) {
		for kind := range volume.(map[string]any) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	testenv.SameList(t, "volumes", slices.Compact(kinds), []string{"configMap", "name", "secret"})
	for field := range pod.Get("spec/template/spec").(map[string]any) {
		if strings.HasPrefix(field, "host") {
			t.Errorf("the pod has %s", field)
		}
	}
}

// TestInMesh: the relay's pods are in Istio's mesh, without which its policies hold nobody to anything, and
// nowhere else.
func TestInMesh(t *testing.T) {
	ambient := meshtest.Values{"relay": meshtest.Values{"dataPlane": "ambient"}}
	for _, c := range []struct {
		file        string
		set         meshtest.Values
		label, want any
	}{
		{"istio/relay.yaml", nil, "sidecar.istio.io/inject", "true"},
		{"istio/relay.yaml", ambient, "istio.io/dataplane-mode", "ambient"},
		{"relay/kubernetes.yaml", nil, "", nil},
		{"envoy-gateway/relay.yaml", nil, "", nil},
	} {
		want := map[string]any{"app": "sluice-relay"}
		if c.want != nil {
			want[c.label.(string)] = c.want
		}
		all := kinds(t, meshtest.Render(t, c.file, c.set))
		labels := all["Deployment/sluice-relay"].Get("spec/template/metadata/labels")
		testenv.Same(t, c.file+": labels", fmt.Sprint(labels), fmt.Sprint(want))
	}
	policy := kinds(t, meshtest.Render(t, "istio/relay.yaml"))["AuthorizationPolicy/sluice-relay"]
	rules := policy.Get("spec/rules").([]any)
	testenv.Same(t, "ports that identities may ask", fmt.Sprint(rules[0].(map[string]any)["to"]),
		"[map[operation:map[ports:[9000]]]]")
	testenv.Same(t, "what anybody may", fmt.Sprint(rules[1]), "map[to:[map[operation:map[ports:[9902]]]]]")
}

// TestWatched: a relay has a port for metrics, a liveness probe, and a preStop hook without a shell.
func TestWatched(t *testing.T) {
	for _, file := range relays {
		all := kinds(t, meshtest.Render(t, file))
		pod, network := all["Deployment/sluice-relay"], all["NetworkPolicy/sluice-relay"]
		const envoy = "spec/template/spec/containers/envoy/"
		testenv.Same(t, file+": liveness", pod.Get(envoy+"livenessProbe/httpGet/path"), any("/ready"))
		testenv.Same(t, file+": preStop", fmt.Sprint(pod.Get(envoy+"lifecycle/preStop")),
			"map[httpGet:map[path:/drain port:9903]]")
		testenv.Same(t, file+": shell", strings.Contains(fmt.Sprint(pod.Get("")), "bash"), false)
		annotations := pod.Get("spec/template/metadata/annotations").(map[string]any)
		testenv.Same(t, file+": what Prometheus reads", annotations["prometheus.io/port"], any("9902"))
		allowed := fmt.Sprint(network.Get("spec/ingress"))
		testenv.Same(t, file+": metrics are open", strings.Contains(allowed, "map[port:9902]"), true)
		testenv.Same(t, file+": /drain is not", strings.Contains(allowed, "9903"), false)
	}
}

// TestSecretNeeded: a Secret that is missing keeps a pod from starting, in every form.
func TestSecretNeeded(t *testing.T) {
	tls := meshtest.Values{"redis": meshtest.Values{"tls": meshtest.Values{"enabled": true, "caSecret": "ca"}}}
	for _, file := range slices.Concat(limiters, relays) {
		text := meshtest.Render(t, file, tls)
		testenv.Same(t, file+": optional", strings.Contains(text, "optional"), false)
		if slices.Contains(relays, file) {
			testenv.Same(t, file+": secrets", strings.Count(text, "secret: {secretName: "), 2)
		}
	}
}

// TestNotes: Helm warns of a password that goes over the network in clear.
func TestNotes(t *testing.T) {
	const warns = "goes over the network in clear"
	tls := meshtest.Values{"redis": meshtest.Values{"tls": meshtest.Values{"enabled": true}}}
	password := meshtest.Values{"redis": meshtest.Values{"passwordEnv": "PW"}}
	for _, c := range []struct {
		file string
		sets []meshtest.Values
		want bool
	}{
		{"istio/relay.yaml", nil, true},
		{"relay/kubernetes.yaml", []meshtest.Values{tls}, false},
		{"istio/gateway.yaml", []meshtest.Values{password}, true},
		{"istio/gateway.yaml", []meshtest.Values{password, tls}, false},
		{"istio/gateway-relay.yaml", nil, false},
	} {
		testenv.Same(t, c.file+" warns", strings.Contains(meshtest.Notes(t, c.file, c.sets...), warns), c.want)
	}
}

// TestForms makes resources of every recipe of the cookbook by the commands that the page shows, and has
// them hold the recipe.
func TestForms(t *testing.T) {
	page := string(testenv.File(t, "docs/cookbook.md"))
	commands := regexp.MustCompile(`(?m)^helm template sluice deploy/chart -n (\S+) --set (\S+) --set-json `+
		`config="\$\(cat plugin\.json\)" \|`).FindAllStringSubmatch(page, -1)
	recipes := regexp.MustCompile("(?ms)^```json\n(.*?)^```").FindAllStringSubmatch(page, -1)
	testenv.Same(t, "commands", len(commands), 2)
	testenv.Same(t, "that there are recipes", len(recipes) >= 20, true)
	for _, command := range commands {
		for _, recipe := range recipes {
			values, err := strvals.Parse(command[2])
			testenv.OK(t, err)
			testenv.OK(t, strvals.ParseJSON("config="+recipe[1], values))
			text, err := meshtest.Template(t, command[1], values)
			if err != nil {
				t.Errorf("%s: %v of\n%s", command[0], err, recipe[1])
				continue
			}
			found, _, err := find.Configurations("chart.yaml", []byte(text))
			if err != nil || len(found) != 1 {
				t.Errorf("%s: %d configurations, %v, in\n%s", command[0], len(found), err, text)
				continue
			}
			got, err := input.Load(found[0].JSON)
			if err != nil {
				t.Errorf("%s: %v of\n%s", command[0], err, recipe[1])
				continue
			}
			want, err := input.Load([]byte(recipe[1]))
			testenv.OK(t, err)
			testenv.Same(t, command[0]+": rules", len(got.Rules), len(want.Rules))
		}
	}
}

// recipeWithValues is a recipe of the cookbook, and the values of the chart that it shows.
var recipeWithValues = regexp.MustCompile("(?ms)^```json\n([^`]*)^```$.*^```yaml values\n(.*?)^```$")

// TestRecipeValues: the values that a recipe shows make the rules of its JSON, on Istio and on Envoy Gateway.
func TestRecipeValues(t *testing.T) {
	shown := 0
	for _, section := range strings.Split(string(testenv.File(t, "docs/cookbook.md")), "\n## ") {
		recipe := recipeWithValues.FindStringSubmatch(section)
		if recipe == nil {
			continue
		}
		shown++
		var want struct{ Rules []any }
		testenv.OK(t, json.Unmarshal([]byte(recipe[1]), &want))
		for _, platform := range []string{"istio", "envoy-gateway"} {
			values, err := common.ReadValues([]byte(recipe[2]))
			testenv.OK(t, err)
			values["platform"] = platform
			text, err := meshtest.Template(t, "default", values)
			if err != nil {
				t.Errorf("%s: %v of\n%s", platform, err, recipe[2])
				continue
			}
			found, _, err := find.Configurations("chart.yaml", []byte(text))
			if err != nil || len(found) != 1 {
				t.Errorf("%s: %d configurations, %v, in\n%s", platform, len(found), err, text)
				continue
			}
			var got struct{ Rules []any }
			testenv.OK(t, json.Unmarshal(found[0].JSON, &got))
			for _, rule := range got.Rules {
				if !slices.ContainsFunc(want.Rules, func(of any) bool { return reflect.DeepEqual(of, rule) }) {
					t.Errorf("%s: the recipe has no rule\n%v, but\n%v", platform, rule, want.Rules)
				}
			}
		}
	}
	testenv.Same(t, "recipes with values", shown, 3)
}

// TestKeyed: the plugin is given the variable with the secret of keyed hashes, and the one with Redis' password.
func TestKeyed(t *testing.T) {
	keyed := meshtest.Values{"config": meshtest.Values{"hash_secret_env": "SECRET"}}
	password := meshtest.Values{"redis": meshtest.Values{"passwordEnv": "PW"}}
	for _, file := range limiters {
		env := `env: [{name: "SECRET", valueFrom: HOST}]`
		both := `env: [{name: "PW", valueFrom: HOST}, {name: "SECRET", valueFrom: HOST}]`
		if strings.HasPrefix(file, "envoy-gateway") {
			env, both = `env: {hostKeys: ["SECRET"]}`, `env: {hostKeys: ["PW", "SECRET"]}`
		}
		testenv.Same(t, file+": the secret", strings.Count(meshtest.Render(t, file, keyed), env), 1)
		if !strings.Contains(file, "relay") {
			testenv.Same(t, file+": both", strings.Count(meshtest.Render(t, file, keyed, password), both), 1)
		}
	}
}

// TestLint: Helm's own lint has nothing to say of the chart with the values that ship.
func TestLint(t *testing.T) {
	for _, file := range slices.Concat(limiters, relays) {
		values, namespace := meshtest.Read(t, file)
		lint := action.NewLint()
		lint.Strict, lint.Namespace = true, namespace
		result := lint.Run([]string{meshtest.Chart(t)}, values)
		for _, err := range result.Errors {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestSchema: values that make no sense are refused, and the error names them.
func TestSchema(t *testing.T) {
	const (
		rules    = `config: {rules: [{name: a}]}`
		limiter  = rules + `, image: "oci://r/s:1"`
		waypoint = limiter + `, istio: {targetRefs: [{group: "", kind: Service, name: reviews}], `
		relay    = `component: relay, relay: {image: e, allow: `
	)
	for name, c := range map[string]struct{ values, says string }{
		"no image":                      {rules, "/image"},
		"no rules":                      {`image: "oci://r/s:1"`, "/config/rules"},
		"no scheme":                     {`image: "r/s:1", ` + rules, "/image"},
		"a typo":                        {limiter + `, redis: {usernam: a}`, "usernam"},
		"no port":                       {limiter + `, redis: {nodes: [{host: a}]}`, "port"},
		"no host":                       {limiter + `, redis: {nodes: [{host: "a}", port: 1}]}`, "host"},
		"a credential":                  {`config: {redis: {password: a}}`, "password"},
		"a relay that anybody may ask":  {`component: relay, relay: {image: e}`, "allow"},
		"a relay that allows everybody": {`platform: istio, ` + relay + `["*"]}`, "/relay/allow/0"},
		"a relay of all namespaces":     {`platform: envoy-gateway, ` + relay + `["team-*"]}`, "/relay/allow/0"},
		"a relay without an Envoy":      {`component: relay, platform: kubernetes`, "image"},
		"a limiter of no mesh":          {`platform: kubernetes`, "platform"},
		"a cluster for Envoy Gateway":   {`platform: envoy-gateway, through: redis, redis: {cluster: true}`, "cluster"},
		"strict HTTP at a waypoint":     {waypoint + `strictHTTP: true}`, "select pods by labels"},
		"a log at a waypoint":           {waypoint + `accessLog: true}`, "accessLogFormat in the mesh's configuration"},
		"a bootstrap at a waypoint":     {waypoint + `bootstrap: true}`, "take the metric_relabel_configs"},
		"strict HTTP of a relay":        {relay + `[a]}, istio: {strictHTTP: true}`, "set it in the limiters' values"},
	} {
		values, err := common.ReadValues([]byte("{" + c.values + "}"))
		testenv.OK(t, err)
		if _, err := meshtest.Template(t, "n", values); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.says)
		}
	}
}

// TestOverlay: a value that is set on top changes what it names and nothing else, whatever order
// lists are in: the rules that a file has stay.
func TestOverlay(t *testing.T) {
	const file = "istio/gateway.yaml"
	before := kinds(t, meshtest.Render(t, file))
	after := kinds(t, meshtest.Render(t, file, meshtest.Values{"istio": meshtest.Values{"app": "other"}}))
	for name := range before {
		changed := strings.ReplaceAll(fmt.Sprint(before[name].Get("")), "istio-ingressgateway", "other")
		testenv.Same(t, name, fmt.Sprint(after[name].Get("")), changed)
	}
}

// TestLabels: the pods that limit may be selected by any labels, in all that selects them.
func TestLabels(t *testing.T) {
	const label, gateway = "gateway.networking.k8s.io/gateway-name", "my-gateway"
	want := map[string]any{label: gateway, "a": "b"}
	set := meshtest.Values{"istio": meshtest.Values{"strictHTTP": true, "labels": want}}
	for name, r := range kinds(t, meshtest.Render(t, "istio/gateway.yaml", set)) {
		spec := r.Get("spec").(map[string]any)
		var got any
		if selector, ok := spec["selector"].(map[string]any); ok {
			got = selector["matchLabels"]
		} else {
			got = spec["workloadSelector"].(map[string]any)["labels"]
		}
		testenv.Same(t, name, fmt.Sprint(got), fmt.Sprint(want))
	}
}
