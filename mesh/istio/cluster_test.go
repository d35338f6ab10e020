package istio

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// startCluster starts a Redis Cluster of one node with TLS and a password, and
// returns its certificate and port.
// https://redis.io/docs/latest/operate/oss_and_stack/management/security/encryption/
func startCluster(t *testing.T, password string) (certFile string, port int) {
	t.Helper()
	certFile, keyFile := testenv.Certificate(t)
	port = testenv.FreePort(t)
	node := redistest.Start(t,
		"--requirepass", password, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1",
		"--cluster-port", fmt.Sprint(testenv.FreePort(t)),
		"--tls-port", fmt.Sprint(port), "--tls-cluster", "yes", "--tls-auth-clients", "no",
		"--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-ca-cert-file", certFile)
	client := redis.NewClient(&redis.Options{Addr: node.Addr, Password: password, Protocol: 2})
	t.Cleanup(func() { client.Close() })
	testenv.OK(t, client.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	return certFile, port
}
