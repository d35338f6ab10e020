package envoy_test

import (
	"fmt"
	"testing"

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
	_, admin := redistest.StartWithUser(t, "tls-acl.yaml", password,
		"--tls-port", fmt.Sprint(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
	g, watched := startWatched(t, "tls-acl.yaml", []string{"REDIS_PASSWORD=" + password}, func(c *envoyconf.Config) {
		setEndpoint(c, "redis", 0, port)
		const tls = "static_resources/clusters/redis/transport_socket/typed_config"
		const validation = tls + "/common_tls_context/validation_context"
		c.Set(tls+"/sni", testenv.CertificateName)
		c.Set(validation+"/trusted_ca/filename", cert)
		c.Set(validation+"/match_typed_subject_alt_names/0/matcher/exact", testenv.CertificateName)
	})
	g.limits("/", "20")
	counted(t, admin)
	watched.data(nil).ExpectLabels("per-key", "an-hour")
}
