package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const password = "correct-horse"

// asUser is a plugin configuration with members of "redis" and a limit of 3.
func asUser(members string) string {
	return `{"redis": {"cluster": "redis", "timeout": "10s", ` + members + `},
		"failure": {"mode": "deny", "breaker": {"max_open": "500ms"}},
		"rules": [{"name": "r", "key": [{"query": "u"}], "limits": [{"algorithm": "gcra", "limit": 3, ` + long + `},
		{"algorithm": "sliding_window_log", "limit": 3, "window": "1d"}]}]}`
}

// expectLimited wants the limit of asUser.
func expectLimited(t *testing.T, s *setting) {
	t.Helper()
	got := burst(t, 5, 2, []string{s.URL + "/?u=a"})
	expectTally(t, "5 requests", got, tally{http.StatusOK: 3, http.StatusTooManyRequests: 2})
	if strings.Contains(s.Log(), password) {
		t.Error("the log has the password")
	}
}

func TestPasswordAndDatabase(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", password)
	s := start(t, asUser(`"password": "`+password+`", "database": 3`), envoytest.Options{Redis: []string{server.Addr}})
	expectLimited(t, s)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Password: password, DB: 3})
	t.Cleanup(func() { client.Close() })
	testenv.Wait(t, patience, func() error { // what a worker tries Redis with vanishes soon
		n, err := client.DBSize(ctx).Result()
		if err != nil || n != 2 {
			return fmt.Errorf("database 3 has %d keys, %v; want 2", n, err)
		}
		return nil
	})
}

// TestUserWithPasswordFromEnvironment: among ten other variables, of up to a thousand characters, the password
// is found, and the keys are the rule's: reading them leaves the plugin's memory alone.
func TestUserWithPasswordFromEnvironment(t *testing.T) {
	t.Parallel()
	exact, _ := documentedACL(t)
	server := redistest.Start(t, aclUser(exact)...)
	variables := map[string]any{"REDIS_PASSWORD": password}
	for n := range 10 {
		variables[fmt.Sprint("VARIABLE_", n)] = strings.Repeat("x", n*n*12)
	}
	s := start(t, asUser(`"username": "sluice", "password_env": "REDIS_PASSWORD"`),
		envoytest.Options{Redis: []string{server.Addr}, Edit: func(c *envoyconf.Config) {
			c.Set(envoyconf.Limiter+"/vm_config/environment_variables", map[string]any{"key_values": variables})
		}})
	expectLimited(t, s)
	s.client = redis.NewClient(&redis.Options{Addr: server.Addr, Password: "admin"})
	t.Cleanup(func() { s.client.Close() })
	testenv.SameList(t, "keys", s.keys(t), []string{"rl:{r|a}:gcra:366d", "rl:{r|a}:sliding_window_log:1d"})
}

// absentPasswordVariable: one warning, and no AUTH.
var absentPasswordVariable = plain{
	name:   "absent password variable",
	config: asUser(`"password_env": "NO_SUCH_VARIABLE"`),
	play: func(t *testing.T, s *setting) {
		expectLimited(t, s)
		warnings := strings.Count(s.Log(), "no environment variable NO_SUCH_VARIABLE")
		testenv.Same(t, "lines about NO_SUCH_VARIABLE", warnings, 1)
	},
}

// TestWrongPassword: the mode applies, the log says why, without the password,
// and Redis is not stormed. Once the password is right there, it decides.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "another")
	s := start(t, asUser(`"password": "`+password+`"`), envoytest.Options{Redis: []string{server.Addr}})
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Password: "another"})
	t.Cleanup(func() { client.Close() })
	l := startLoad(t, 4, s.URL+"/?u=a")
	l.await(1000, http.StatusServiceUnavailable)
	connections, err := strconv.Atoi(client.InfoMap(ctx, "stats").Item("Stats", "total_connections_received"))
	testenv.OK(t, err)
	testenv.Within(t, "the number of connections", connections, 1, 100)
	testenv.OK(t, client.ConfigSet(ctx, "requirepass", password).Err())
	l.await(3, http.StatusOK)
	l.await(1, http.StatusTooManyRequests)
	l.stop()
	log := s.Log()
	if n := strings.Count(log, "WRONGPASS"); n == 0 || n > 10 {
		t.Errorf("the log names WRONGPASS %d times, want some", n)
	}
	if strings.Contains(log, password) {
		t.Error("the log has the password")
	}
}

// TestMissingPassword: NOAUTH is an outage like any other.
func TestMissingPassword(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", password)
	s := start(t, limitOf(10), envoytest.Options{Redis: []string{server.Addr}})
	if r := get(t, s.URL); r.status != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", r.status)
	}
	testenv.Wait(t, patience, func() error {
		get(t, s.URL)
		if !strings.Contains(s.Log(), "NOAUTH") {
			return fmt.Errorf("the log lacks NOAUTH")
		}
		return nil
	})
}

// TestTLS: Envoy's transport socket encrypts, checks Redis' certificate and shows
// its own, and the plugin signs in as a user with few rights.
func TestTLS(t *testing.T) {
	t.Parallel()
	authority := testenv.NewAuthority(t)
	serverCert, serverKey := authority.Issue("redis", "spiffe://test/redis")
	cert, key := authority.Issue("sluice", "spiffe://test/sluice")
	port := testenv.FreePort(t)
	exact, _ := documentedACL(t)
	redistest.Start(t, append([]string{
		"--tls-port", fmt.Sprint(port), "--tls-cert-file", serverCert, "--tls-key-file", serverKey,
		"--tls-ca-cert-file", authority.CertFile,
		"--tls-auth-clients", "yes",
	}, aclUser(exact)...)...)
	encrypt := func(c *envoyconf.Config) {
		c.Set(envoyconf.RedisCluster+"/transport_socket", c.Fragment(fmt.Sprintf(`
name: envoy.transport_sockets.tls
typed_config:
  "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
  common_tls_context:
    tls_certificates: [{certificate_chain: {filename: %s}, private_key: {filename: %s}}]
    validation_context:
      trusted_ca: {filename: %s}
      match_typed_subject_alt_names: [{san_type: URI, matcher: {exact: spiffe://test/redis}}]
`, cert, key, authority.CertFile)))
	}
	s := start(t, asUser(`"username": "sluice", "password": "`+password+`"`),
		envoytest.Options{Redis: []string{fmt.Sprintf("127.0.0.1:%d", port)}, Edit: encrypt})
	expectLimited(t, s)
}
