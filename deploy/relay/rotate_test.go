package relay_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// setSecret replaces what a Secret has, mounted as kubelet does it: its files are links into "..data", a link that a
// rename replaces as a whole.
// https://kubernetes.io/docs/concepts/configuration/secret/#using-secrets-as-files-from-a-pod
func setSecret(t *testing.T, dir, password string) {
	t.Helper()
	data, err := os.MkdirTemp(dir, "..")
	testenv.OK(t, err)
	testenv.OK(t, os.WriteFile(filepath.Join(data, "password"), []byte(password), 0o600))
	link := filepath.Join(dir, "..data_tmp")
	testenv.OK(t, os.Symlink(filepath.Base(data), link))
	testenv.OK(t, os.Rename(link, filepath.Join(dir, "..data")))
}

// redisOptions is where relay.yaml says how it logs in to Redis.
const redisOptions = "static_resources/clusters/redis/typed_extension_protocol_options"

// startRotating runs a relay whose password is a file, as the chart has it.
func startRotating(t *testing.T, port int, redisAddr, file string) *envoytest.Envoy {
	t.Helper()
	return envoytest.Start(t, envoytest.Options{
		File: "deploy/relay/relay.yaml", Workers: 1, Port: port, Env: []string{"REDIS_PASSWORD="},
		Edit: func(c *envoyconf.Config) {
			envoytest.Plain(c)
			c.SetRedis(redisAddr)
			c.Set(redisOptions+"/envoy.filters.network.redis_proxy/auth_password", map[string]any{"filename": file})
		},
	})
}

// rotatePassword goes through the steps of docs/operations.md under load: no request is
// undecided, and no process starts anew. When Redis then closes the connections, so that the relay logs
// in again, it does so by the new password. One whose file still has a password that Redis no longer takes could not.
var rotatePassword = relayTest{name: "rotate-password", play: func(t *testing.T, l *limiter) {
	server, admin := redistest.StartWithUser(t, "relay.yaml", password)
	do := func(args ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	secret := t.TempDir()
	file := filepath.Join(secret, "password")
	testenv.OK(t, os.Symlink(filepath.Join("..data", "password"), file))
	setSecret(t, secret, password)
	startRotating(t, l.ports[0], server.Addr, file)
	l.load(t)
	l.await(t, 200)

	do("ACL", "SETUSER", "sluice", ">battery-staple")
	setSecret(t, secret, "battery-staple")
	l.await(t, 200)
	do("ACL", "SETUSER", "sluice", "<"+password)
	l.await(t, 200)
	testenv.Same(t, "requests that were not decided", l.failed.Load(), 0)

	do("CLIENT", "KILL", "USER", "sluice")
	testenv.Within(t, "requests that were not decided, at most those in flight", l.await(t, 400), 0, clients)
	refused, err := admin.Do(t.Context(), "ACL", "LOG").Slice()
	testenv.SameError(t, "ACL LOG", err, nil)
	testenv.Same(t, "logins that Redis refused", len(refused), 0)
	users, err := admin.ClientList(t.Context()).Result()
	testenv.SameError(t, "CLIENT LIST", err, nil)
	testenv.Same(t, "that the relay is logged in", strings.Contains(users, "user=sluice"), true)
	l.stop()

	do("ACL", "SETUSER", "sluice", "<battery-staple", ">next")
	do("CLIENT", "KILL", "USER", "sluice")
	testenv.Wait(t, patience, l.undecided)
	setSecret(t, secret, "next")
	testenv.Wait(t, patience, func() error {
		err := l.decided()
		if err != nil { // the relay tries again with its next connection
			_ = admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()
		}
		return err
	})
}}

// TestIAM: Envoy takes a relay that logs in by IAM as docs/operations.md shows.
func TestIAM(t *testing.T) {
	t.Parallel()
	page := testenv.File(t, "docs/operations.md")
	_, rest, _ := strings.Cut(string(page), "```yaml\ntyped_extension_protocol_options:\n")
	block, _, _ := strings.Cut(rest, "```")
	relay := envoytest.Start(t, envoytest.Options{
		File: "deploy/relay/relay.yaml", Workers: 1,
		Env: []string{"AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "REDIS_PASSWORD="},
		Edit: func(c *envoyconf.Config) {
			envoytest.Plain(c)
			c.SetRedis("127.0.0.1:1")
			c.Set(redisOptions, c.Fragment(block))
		},
	})
	_, dump, err := testenv.Send(http.MethodGet, relay.Admin+"/config_dump?resource=static_clusters", "")
	testenv.OK(t, err)
	testenv.Same(t, "that Envoy signs tokens", strings.Contains(dump, `"service_name": "elasticache"`), true)
}
