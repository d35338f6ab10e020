package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

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

func TestRenderRelay(t *testing.T) {
	t.Parallel()
	const note = "note: the password of Redis is taken from the environment variable "
	for _, c := range []struct {
		name, args      string
		contains, lacks []string
		notes           string
	}{
		{
			name: "one server",
			args: "--redis r:1 --redis-user u --allow spiffe://a/b,spiffe://a/c --listen 127.0.0.1:2",
			contains: []string{
				"address: r, port_value: 1", "address: 127.0.0.1, port_value: 2", `auth_username: {inline_string: "u"}`,
				`exact: "spiffe://a/b"`, `exact: "spiffe://a/c"`,
			},
			lacks: []string{"sa/gateway"}, notes: note + "REDIS_PASSWORD, and goes over the network in clear",
		},
		{
			name: "a primary with a replica", args: "--redis r:1,s:1 --redis-password-env PW --allow spiffe://a/b",
			contains: []string{"tcp_health_check", "healthy_panic_threshold: {value: 0}", "address: s, port_value: 1"},
			lacks:    []string{"auth_username"}, notes: note + "PW",
		},
		{
			name: "a Redis Cluster with TLS", args: "--redis r:1,s:1 --redis-cluster --redis-tls --allow spiffe://a/b",
			contains: []string{
				"name: envoy.clusters.redis", "enable_redirection: true", "sni: r", "address: s, port_value: 1",
			},
			notes: note + "REDIS_PASSWORD\n",
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
	for args, errors := range map[string]string{
		"":                               "--redis host:port is needed",
		"--redis r:1":                    "--allow is needed",
		"--redis r --allow spiffe://a/b": `--redis: "r" is not an address`,
		"--redis r:1 --allow a":          `--allow: "a" is not a SPIFFE identity`,
	} {
		r := execute(t, "", append([]string{"render", "relay"}, strings.Fields(args)...)...)
		testenv.Same(t, args+": exit code", r.code, console.Misused)
		testenv.Same(t, args+": that "+r.errors+" says "+errors, strings.Contains(r.errors, errors), true)
	}
}

// TestEnvoyAcceptsRelay has Envoy itself read rendered relays.
func TestEnvoyAcceptsRelay(t *testing.T) {
	t.Parallel()
	cert, key := testenv.Certificate(t)
	place := strings.NewReplacer("/etc/envoy/relay.crt", cert, "/etc/envoy/mesh-ca.crt", cert, "/etc/envoy/relay.key", key)
	const usual = "--redis 127.0.0.1:1 --redis-user u --allow spiffe://a/b "
	for name, args := range map[string]string{
		"one server":      usual,
		"TLS":             usual + "--redis-tls --redis-ca " + cert,
		"a replica":       "--redis 127.0.0.1:1,127.0.0.1:2 --allow spiffe://a/b",
		"a Redis Cluster": usual + "--redis-cluster",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, "", append([]string{"render", "relay"}, strings.Fields(args)...)...)
			if r.code != console.Done {
				t.Fatal(r.errors)
			}
			file := filepath.Join(t.TempDir(), "envoy.yaml")
			if err := os.WriteFile(file, []byte(place.Replace(r.out)), 0o600); err != nil {
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
