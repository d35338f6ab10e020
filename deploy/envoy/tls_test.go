package envoy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const password = "correct-horse"

// TestTLSAndACL: Envoy checks Redis' certificate, and Sluice is the user that
// the file's first lines describe.
func TestTLSAndACL(t *testing.T) {
	t.Parallel()
	cert, key := testenv.Certificate(t)
	port := testenv.FreePort(t)
	server := redistest.Start(t, append(aclUser(t),
		"--tls-port", fmt.Sprint(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no",
		"--user", "default", "on", ">admin", "~*", "&*", "+@all")...)
	g, watched := startWatched(t, "tls-acl.yaml", []string{"REDIS_PASSWORD=" + password}, func(c *envoyconf.Config) {
		setEndpoint(c, "redis", 0, port)
		const tls = "static_resources/clusters/redis/transport_socket/typed_config"
		const validation = tls + "/common_tls_context/validation_context"
		c.Set(tls+"/sni", testenv.CertificateName)
		c.Set(validation+"/trusted_ca/filename", cert)
		c.Set(validation+"/match_typed_subject_alt_names/0/matcher/exact", testenv.CertificateName)
	})
	g.limits("/", "20")
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Password: "admin"})
	t.Cleanup(func() { client.Close() })
	counted(t, client)
	watched.data(nil).ExpectLabels("per-key", "an-hour")
}

// aclUser is the user of the file's first lines, as arguments of redis-server.
func aclUser(t *testing.T) []string {
	t.Helper()
	text := testenv.Read(t, "tls-acl.yaml")
	_, rest, _ := strings.Cut(string(text), "ACL SETUSER ")
	line, _, ok := strings.Cut(rest, "\n")
	if !ok {
		t.Fatal("tls-acl.yaml does not say which user Redis needs")
	}
	return append([]string{"--user"}, strings.Fields(strings.Replace(line, "PASSWORD", password, 1))...)
}
