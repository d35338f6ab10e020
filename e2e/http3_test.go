package e2e

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestHTTP3: a request over HTTP/3 gives back its slot and what it was charged too much, though Envoy logs it only
// when its client has acknowledged the last byte, which no filter hears of. The client is the same Envoy: what its
// plain listener takes goes to the limited one over QUIC.
func TestHTTP3(t *testing.T) {
	t.Parallel()
	ca := testenv.NewAuthority(t)
	cert, key := ca.Issue("server", "spiffe://cluster.local/ns/default/sa/server")
	free, err := net.ListenPacket("udp", "127.0.0.1:0")
	testenv.OK(t, err)
	port := free.LocalAddr().(*net.UDPAddr).Port
	testenv.OK(t, free.Close())
	const slots = 10
	rules := fmt.Sprintf(`{%s"rules": [{"name": "r", "key": [], "settle": {"expr": "response.headers['date'] == 'never'"},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1000, %s},
			{"algorithm": "concurrency", "limit": %d}]}]}`, patient, long, slots)
	s := start(t, `{"rules": [{"name": "none", "exempt": true}]}`, envoytest.Options{Edit: func(c *envoyconf.Config) {
		const quic = "static_resources/listeners/quic"
		c.CopyListener("quic", port, rules)
		c.Set(quic+"/address/socket_address/protocol", "UDP")
		c.Set(quic+"/udp_listener_config", c.Fragment("quic_options: {}"))
		c.Set(quic+"/filter_chains/0/filters/0/typed_config/codec_type", "HTTP3")
		c.Set(quic+"/filter_chains/0/transport_socket", c.Fragment(fmt.Sprintf(`
name: envoy.transport_sockets.quic
typed_config:
  "@type": type.googleapis.com/envoy.extensions.transport_sockets.quic.v3.QuicDownstreamTransport
  downstream_tls_context:
    common_tls_context:
      tls_certificates: [{certificate_chain: {filename: %q}, private_key: {filename: %q}}]
`, cert, key)))
		c.Append("static_resources/clusters", c.Fragment(fmt.Sprintf(`
name: quic
load_assignment:
  cluster_name: quic
  endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}}]}]
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config: {http3_protocol_options: {}}
transport_socket:
  name: envoy.transport_sockets.quic
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.transport_sockets.quic.v3.QuicUpstreamTransport
    upstream_tls_context:
      sni: server
      common_tls_context: {validation_context: {trusted_ca: {filename: %q}}}
`, port, ca.CertFile)))
		c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/0/routes/0/route/cluster", "quic")
	}})
	for range 3 * slots {
		testenv.Same(t, "status", get(t, s.URL).status, http.StatusOK)
	}
	testenv.Wait(t, patience, func() error {
		if keys := s.keys(t); len(keys) != 0 {
			return fmt.Errorf("Redis has %q, want nothing", keys)
		}
		return nil
	})
}
