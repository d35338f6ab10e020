package relay_test

import (
	"io"
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

// startRotating runs a relay whose password is a file, as the chart has it.
func startRotating(t *testing.T, redisAddr, file string) *envoytest.Envoy {
	t.Helper()
	const options = "static_resources/clusters/redis/typed_extension_protocol_options/envoy.filters.network.redis_proxy"
	return envoytest.Start(t, envoytest.Options{
		File: "deploy/relay/relay.yaml", Workers: 1, Env: []string{"REDIS_PASSWORD="},
		Edit: func(c *envoyconf.Config) {
			envoytest.Plain(c)
			c.SetRedis(redisAddr)
			c.Set(options+"/auth_password", map[string]any{"filename": file})
		},
	})
}

// TestRotatePassword goes through the steps of docs/operations.md under load: no request is
// undecided, and no process starts anew. When Redis then closes the connections, so that the relay logs
// in again, it does so by the new password.
func TestRotatePassword(t *testing.T) {
	t.Parallel()
	const next = "battery-staple"
	server, admin := redistest.StartWithUser(t, "relay.yaml", password)
	do := func(args ...any) {
		t.Helper()
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	secret := newSecretVolume(t, password)
	e := startLimiter(t, "10s", startRotating(t, server.Addr, secret.file()).Addr)
	l := startLoad(t, e, clients)
	l.await(t, 200)

	do("ACL", "SETUSER", "sluice", ">"+next)
	secret.set(next)
	l.await(t, 200)
	do("ACL", "SETUSER", "sluice", "<"+password)
	l.await(t, 200)
	testenv.Same(t, "requests that were not decided", l.failed.Load(), 0)

	do("CLIENT", "KILL", "USER", "sluice")
	l.await(t, 400)
	testenv.Same(t, "that at most those in flight were not decided", l.failed.Load() <= clients, true)
	refused, err := admin.Do(t.Context(), "ACL", "LOG").Slice()
	testenv.SameError(t, "ACL LOG", err, nil)
	testenv.Same(t, "logins that Redis refused", len(refused), 0)
	users, err := admin.ClientList(t.Context()).Result()
	testenv.SameError(t, "CLIENT LIST", err, nil)
	testenv.Same(t, "that the relay is logged in", strings.Contains(users, "user=sluice"), true)
}

// TestPasswordOfBefore: a relay whose file still has the password that Redis no longer takes cannot
// log in once its connection is gone, so that the test above would see it.
func TestPasswordOfBefore(t *testing.T) {
	t.Parallel()
	server, admin := redistest.StartWithUser(t, "relay.yaml", password)
	secret := newSecretVolume(t, password)
	e := startLimiter(t, "1s", startRotating(t, server.Addr, secret.file()).Addr)
	for _, args := range [][]any{
		{"ACL", "SETUSER", "sluice", "<" + password, ">next"}, {"CLIENT", "KILL", "USER", "sluice"},
	} {
		testenv.OK(t, admin.Do(t.Context(), args...).Err())
	}
	testenv.Wait(t, patience, func() error { return undecided(e) })
	secret.set("next")
	testenv.Wait(t, patience, func() error {
		err := decided(e)
		if err != nil { // the relay tries again with its next connection
			_ = admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()
		}
		return err
	})
}

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
			c.Set("static_resources/clusters/redis/typed_extension_protocol_options", c.Fragment(block))
		},
	})
	resp, err := http.Get(relay.Admin + "/config_dump?resource=static_clusters")
	testenv.SameError(t, "config_dump", err, nil)
	defer resp.Body.Close()
	dump, err := io.ReadAll(resp.Body)
	testenv.SameError(t, "config_dump", err, nil)
	testenv.Same(t, "that Envoy signs tokens", strings.Contains(string(dump), `"service_name": "elasticache"`), true)
}
