package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestTLSAndACL is a user of Redis who may do what docs/cli.md says, and no more.
func TestTLSAndACL(t *testing.T) {
	t.Parallel()
	page := testenv.Read(t, testenv.Root(t)+"/docs/cli.md")
	_, rest, _ := strings.Cut(string(page), "ACL SETUSER ")
	line, _, ok := strings.Cut(rest, "\n")
	if !ok {
		t.Fatal("docs/cli.md does not say which user of Redis is needed")
	}
	cert, certKey := testenv.Certificate(t)
	port := testenv.FreePort(t)
	redistest.Start(t, append(append([]string{"--user"},
		strings.Fields(strings.Replace(line, "PASSWORD", "hunter2", 1))...),
		"--tls-port", fmt.Sprint(port), "--tls-cert-file", cert, "--tls-key-file", certKey, "--tls-auth-clients", "no")...)
	plugin := write(t, "plugin.json", `{"redis": {"cluster": "redis", "username": "sluice-cli", "password": "hunter2"},
		"rules": [{"name": "plain", "key": [{"header": "x-key"}],
			"limits": [{"algorithm": "gcra", "limit": 10, "window": "1h", "burst": 20}]}]}`)
	for _, args := range []string{"get plain a", "reset plain a", "unblock plain a", "top plain"} {
		all := append(strings.Fields(args), "-c", plugin, "--redis", fmt.Sprintf("127.0.0.1:%d", port), "--redis-tls",
			"--redis-ca", cert,
			"--redis-server-name", testenv.CertificateName)
		if r := execute(t, "", all...); r.code != console.Done {
			t.Errorf("%s: exit code %d: %s", args, r.code, r.errors)
		}
	}
}
