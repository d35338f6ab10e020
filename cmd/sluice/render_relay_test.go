package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const (
	image    = " --image oci://r/s:1 "
	waypoint = "note: a waypoint has the relay's cluster only if the mesh's configuration names it: " +
		"extensionProviders: [{name: sluice-relay, envoyExtAuthzGrpc: "
)

// relayLimiters are renderings of what asks through a relay.
var relayLimiters = []struct {
	name, plugin, args string
	contains, lacks    []string
	notes              string
}{
	{
		name: "a gateway of Istio", plugin: redisPlugin, args: "istio --relay --app gw -n edge" + image,
		contains: []string{
			"from deploy/chart.", "kind: TrafficExtension", "namespace: edge",
			"selector: {matchLabels: {app: gw}}",
			`url: "oci://r/s:1"`, `cluster: "outbound|9000||sluice-relay.redis.svc.cluster.local"`, "key_prefix: edge",
		},
		lacks: []string{"targetRefs", "counters"},
	},
	{
		name: "a Gateway of the Gateway API", plugin: localPlugin,
		args: "istio --relay=r.n:1 --target Gateway/g" + image,
		contains: []string{
			`targetRefs: [{group: "gateway.networking.k8s.io", kind: Gateway, name: g}]`,
			`cluster: "outbound|1||r.n.svc.cluster.local"`,
		},
		lacks: []string{"selector"},
	},
	{
		name: "a sidecar", plugin: localPlugin, args: "istio --relay --sidecar --app web" + image,
		contains: []string{"match: [{mode: SERVER}]", "selector: {matchLabels: {app: web}}"},
	},
	{
		name:   "a sidecar that counts addresses",
		plugin: `{"rules": [{"name": "a", "key": [{"client_ip": true}], "limits": [` + aLimit + `]}]}`,
		args:   "istio --relay --sidecar --app web" + image,
		notes:  "note: client_ip in a sidecar is the last address of X-Forwarded-For, which callers write",
	},
	{
		name: "a waypoint", plugin: localPlugin, args: "istio --relay=r.ns:1 --target Service/web" + image,
		contains: []string{`targetRefs: [{group: "", kind: Service, name: web}]`},
		lacks:    []string{"selector:", "name: reviews"},
		notes:    waypoint + "{service: ns/r.ns.svc.cluster.local, port: 1}}]",
	},
	{
		name: "a Gateway of Envoy Gateway", plugin: localPlugin,
		args: "envoy-gateway --relay=r.ns:1 --gateway g -n edge" + image,
		contains: []string{
			"redis: {cluster: grpcroute/edge/sluice-relay/rule/0}",
			"parentRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}]",
			"backendRefs: [{name: r, namespace: ns, port: 1}]", "authorization: {defaultAction: Deny}",
			"targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}]",
		},
	},
	{
		name: "a password stays out", plugin: secretPlugin, args: "envoy-gateway --relay" + image,
		lacks: []string{"hunter2", "username", "hostKeys"},
		notes: "note: redis: the user and the password are left out",
	},
}

// TestRenderLimitersOfARelay: what asks through a relay has no patch and no secret.
func TestRenderLimitersOfARelay(t *testing.T) {
	t.Parallel()
	for _, c := range relayLimiters {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, c.plugin, append([]string{"render", "-c", "-"}, strings.Fields(c.args)...)...)
			lacks := append([]string{"EnvoyFilter", "EnvoyPatchPolicy", "PASSWORD"}, c.lacks...)
			expectFile(t, r, c.contains, lacks, c.notes)
			if v := execute(t, r.out, "validate", "-"); v.code != console.Done {
				t.Errorf("validate says\n%s", v.out)
			}
		})
	}
}

// expectFile wants a file with some texts and without others, and notes that begin so.
func expectFile(t *testing.T, r result, contains, lacks []string, notes string) {
	t.Helper()
	if r.code != console.Done {
		t.Fatalf("exit code %d: %s", r.code, r.errors)
	}
	for _, want := range contains {
		if !strings.Contains(r.out, want) {
			t.Errorf("the file lacks %s:\n%s", want, r.out)
		}
	}
	for _, unwanted := range lacks {
		if strings.Contains(r.out, unwanted) {
			t.Errorf("the file has %s:\n%s", unwanted, r.out)
		}
	}
	expectNotes(t, r, notes)
}

// expectNotes wants the notes about a file to begin so, and nothing where nothing is wanted.
func expectNotes(t *testing.T, r result, notes string) {
	t.Helper()
	if !strings.HasPrefix(r.errors, notes) {
		t.Errorf("notes %q, want %q", r.errors, notes)
	}
	if got, want := strings.Count(r.errors, "note: "), strings.Count(notes, "note: "); got != want {
		t.Errorf("%d notes, want %d: %q", got, want, r.errors)
	}
	testenv.Same(t, "that there are notes", r.errors != "", notes != "")
}

const (
	note   = "note: the password of Redis is taken from the environment variable "
	secret = "note: the password of Redis is read from the Secret sluice-redis, key password, for each connection"
	envoy  = " --image registry.example.com/envoy@sha256:1 "
)

func TestRenderRelay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, args      string
		contains, lacks []string
		notes           string
	}{
		{
			name: "by itself",
			args: "--redis r:1 --redis-user u --allow spiffe://a/b,spiffe://a/c --listen 127.0.0.1:2",
			contains: []string{
				"address: r, port_value: 1", "address: 127.0.0.1, port_value: 2", `auth_username: {inline_string: "u"}`,
				`exact: "spiffe://a/b"`, `exact: "spiffe://a/c"`,
			},
			lacks: []string{"sa/gateway"}, notes: note + "REDIS_PASSWORD",
		},
		{
			name: "in Kubernetes", args: "--for kubernetes --redis r:1 -n prod" + envoy,
			contains: []string{
				"kind: Deployment", "kind: NetworkPolicy", "namespace: prod",
				"auth_password: {filename: /etc/sluice/redis/password}", "secret: {secretName: sluice-redis",
				`image: "registry.example.com/envoy@sha256:1"`,
			},
			lacks: []string{"REDIS_PASSWORD", "kind: AuthorizationPolicy", "namespace: redis"}, notes: secret,
		},
		{
			name: "in Istio", args: "--for istio --redis r:1 --allow cluster.local/ns/a/sa/b" + envoy,
			contains: []string{"kind: PeerAuthentication", "- cluster.local/ns/a/sa/b"},
			lacks:    []string{"sa/reviews"}, notes: secret,
		},
		{
			name: "for Envoy Gateway", args: "--for envoy-gateway --redis r:1 --allow edge" + envoy,
			contains: []string{"kind: ReferenceGrant", "kind: GRPCRoute, namespace: edge"},
			lacks:    []string{"kind: GRPCRoute, namespace: default"}, notes: secret,
		},
		{
			name: "of a primary with a replica", args: "--for kubernetes --redis r:1,s:1" + envoy,
			contains: []string{"tcp_health_check", "healthy_panic_threshold: {value: 0}", "address: s, port_value: 1"},
			notes:    secret,
		},
		{
			name: "of a Redis Cluster with TLS", args: "--for kubernetes --redis r:1,s:1 --redis-cluster --redis-tls" + envoy,
			contains: []string{
				"name: envoy.clusters.redis", "enable_redirection: true", "sni: r", "address: s, port_value: 1",
			},
			lacks: []string{"STRICT_DNS"}, notes: secret,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, "", append([]string{"render", "relay"}, strings.Fields(c.args)...)...)
			expectFile(t, r, c.contains, c.lacks, c.notes)
		})
	}
}

func TestRenderRelayRefuses(t *testing.T) {
	t.Parallel()
	const kubernetes = "--redis r:1 --for kubernetes --image e "
	for args, errors := range map[string]string{
		"istio --relay --redis r:1 --image oci://r/s:1":      "with --relay Redis is the relay's affair",
		"istio --relay=r:1 --image oci://r/s:1":              `--relay: "r:1" is not a Service (want NAME.NAMESPACE:PORT`,
		"istio --relay=r.n --image oci://r/s:1":              `--relay: "r.n" is not a Service`,
		"istio --relay --image r/s:1":                        "has no scheme",
		"istio --relay --target Pod/a --image oci://r/s:1":   `--target: "Pod/a" is neither Gateway/NAME nor Service/NAME`,
		"istio --redis r:1 --target Gateway/a --image oci:/": "--target needs --relay",
		"istio --relay --strict-http --image oci://r/s:1":    "none of the others can be",
	} {
		r := execute(t, redisPlugin, append([]string{"render", "-c", "-"}, strings.Fields(args)...)...)
		if r.code != console.Misused || !strings.Contains(r.errors, errors) {
			t.Errorf("%s: exit code %d, %s; want %s", args, r.code, r.errors, errors)
		}
	}
	for args, errors := range map[string]string{
		"":                        "--redis host:port is needed",
		"--redis r:1":             "--for envoy needs --allow",
		"--redis r:1 --allow a":   `--allow: "a" is not a SPIFFE identity`,
		"--redis r:1 --for nomad": `--for: "nomad" is none of`,
		"--redis r:1 --for istio": "--for istio needs --allow: the identities of limiters",
		"--redis r:1 --for envoy-gateway --allow a,B_": `--allow: "B_" is not a namespace`,
		"--redis r:1 --for kubernetes --allow a":       "--for kubernetes takes no --allow",
		"--redis r:1 --for kubernetes":                 "--for kubernetes needs --image: Envoy 1.40 or later",
		kubernetes + "--redis-password-env A":          "--redis-password-env is for --for envoy",
	} {
		r := execute(t, "", append([]string{"render", "relay"}, strings.Fields(args)...)...)
		if r.code != console.Misused || !strings.Contains(r.errors, errors) {
			t.Errorf("relay %s: exit code %d, %s; want %s", args, r.code, r.errors, errors)
		}
	}
}

// TestEnvoyAcceptsRelay has Envoy itself read rendered relays, by themselves and out of the
// ConfigMap.
func TestEnvoyAcceptsRelay(t *testing.T) {
	t.Parallel()
	cert, key := testenv.Certificate(t)
	place := strings.NewReplacer(
		"/etc/envoy/relay.crt", cert, "/etc/envoy/mesh-ca.crt", cert, "/etc/envoy/relay.key", key,
		"/etc/sluice/redis/password", cert, // any file
	)
	const usual = "--redis 127.0.0.1:1 --redis-user u "
	for name, args := range map[string]string{
		"by itself":                     usual + "--allow spiffe://a/b",
		"in Kubernetes, with TLS":       usual + "--image e --for kubernetes --redis-tls --redis-ca " + cert,
		"by itself, with a replica":     "--redis 127.0.0.1:1,127.0.0.1:2 --allow spiffe://a/b",
		"in Kubernetes, of a cluster":   usual + "--image e --for kubernetes --redis-cluster",
		"in Istio, without a user name": "--redis redis:1 --image e --for istio --allow cluster.local/ns/a/sa/b",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, "", append([]string{"render", "relay"}, strings.Fields(args)...)...)
			if r.code != console.Done {
				t.Fatal(r.errors)
			}
			file := filepath.Join(t.TempDir(), "envoy.yaml")
			if err := os.WriteFile(file, []byte(place.Replace(envoyOf(t, r.out))), 0o600); err != nil {
				t.Fatal(err)
			}
			validate := exec.Command(testenv.Tool(t, "envoy"), "--mode", "validate", "--log-level", "warning", "-c", file)
			validate.Env = append(os.Environ(), "REDIS_PASSWORD=x")
			if out, err := validate.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// envoyOf is Envoy's configuration in what was rendered.
func envoyOf(t *testing.T, text string) string {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		var configMap struct {
			Kind string
			Data map[string]string
		}
		if err := yaml.Unmarshal([]byte(document), &configMap); err != nil {
			t.Fatal(err)
		}
		if configMap.Kind == "ConfigMap" {
			return configMap.Data["envoy.yaml"]
		}
	}
	return text
}
