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

// secretVolume is a Secret as kubelet mounts it: files are links into a directory that a link
// names, which a rename replaces as a whole.
// https://kubernetes.io/docs/concepts/configuration/secret/#using-secrets-as-files-from-a-pod
type secretVolume struct {
	t   *testing.T
	dir string
}

// newSecretVolume mounts a Secret with the key "password".
func newSecretVolume(t *testing.T, password string) *secretVolume {
	t.Helper()
	v := &secretVolume{t: t, dir: t.TempDir()}
	v.set(password)
	testenv.OK(v.t, os.Symlink(filepath.Join("..data", "password"), v.file()))
	return v
}

func (v *secretVolume) file() string { return filepath.Join(v.dir, "password") }

// set replaces what the Secret has.
func (v *secretVolume) set(password string) {
	v.t.Helper()
	data, err := os.MkdirTemp(v.dir, "..")
	testenv.OK(v.t, err)
	testenv.OK(v.t, os.WriteFile(filepath.Join(data, "password"), []byte(password), 0o600))
	link := filepath.Join(v.dir, "..data_tmp")
	testenv.OK(v.t, os.Symlink(filepath.Base(data), link))
	testenv.OK(v.t, os.Rename(link, filepath.Join(v.dir, "..data")))
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
	secret := newSecretVolume(t, password)
	startRotating(t, l.ports[0], server.Addr, secret.file())
	l.load(t)
	l.await(t, 200)

	do("ACL", "SETUSER", "sluice", ">battery-staple")
	secret.set("battery-staple")
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
	secret.set("next")
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
	_, dump := fetch(t, http.MethodGet, relay.Admin+"/config_dump?resource=static_clusters")
	testenv.Same(t, "that Envoy signs tokens", strings.Contains(dump, `"service_name": "elasticache"`), true)
}
