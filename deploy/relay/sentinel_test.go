package relay_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// startSentinel runs Redis' own Sentinel over a primary.
// https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/
func startSentinel(t *testing.T, primary *redistest.Server) *redis.SentinelClient {
	t.Helper()
	port := testenv.FreePort(t)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf(`bind 127.0.0.1
port %d
sentinel monitor counters 127.0.0.1 %d 1
sentinel down-after-milliseconds counters 1000
sentinel failover-timeout counters 10000
`, port, primary.Port)
	testenv.OK(t, os.WriteFile(file, []byte(text), 0o600))
	testenv.Run(t, nil, testenv.Tool(t, "redis-server"), file, "--sentinel")
	client := redis.NewSentinelClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port)})
	t.Cleanup(func() { client.Close() })
	testenv.Wait(t, patience, func() error {
		replicas, err := client.Replicas(t.Context(), "counters").Result()
		if err == nil && len(replicas) != 1 {
			err = fmt.Errorf("the Sentinel knows %d replicas", len(replicas))
		}
		return err
	})
	return client
}

// failover makes a relay's cluster that of failover.yaml, for servers without users.
func failover(t *testing.T, c *envoyconf.Config, servers ...*redistest.Server) {
	t.Helper()
	text := testenv.Read(t, "failover.yaml")
	const cluster = "static_resources/clusters/redis"
	var addresses []string
	for _, s := range servers {
		addresses = append(addresses, s.Addr)
	}
	c.Set(cluster, c.Fragment(string(text)))
	c.Delete(cluster + "/typed_extension_protocol_options")
	c.Set(cluster+"/load_assignment/endpoints", c.Endpoints(addresses))
}

// TestSentinel: relays follow the primary that Sentinel moves, under load, whether the old one is
// asked to go or dies.
func TestSentinel(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(*redis.SentinelClient, *redistest.Server) error{
		"asked to": func(s *redis.SentinelClient, _ *redistest.Server) error {
			return s.Failover(t.Context(), "counters").Err()
		},
		"killed": func(_ *redis.SentinelClient, primary *redistest.Server) error {
			primary.Kill()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := redistest.Start(t)
			replica := redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(primary.Port))
			sentinel := startSentinel(t, primary)
			relay := envoytest.NewRelay(t, primary.Addr, func(c *envoyconf.Config) { failover(t, c, replica, primary) })
			l := startLoadEvery(t, 5*time.Millisecond, startLimiter(t, "2s", relay.Addr), clients)
			l.await(t, 200)
			testenv.OK(t, move(sentinel, primary))
			testenv.Wait(t, patience, func() error { return scripted(t, replica) })
			l.await(t, 200)
			failed := l.failed.Load()
			l.await(t, 200)
			if n := l.failed.Load() - failed; n != 0 {
				t.Errorf("%d requests were not decided once the new primary was in use", n)
			}
			t.Logf("%d requests were not decided while the primary moved", failed)
		})
	}
}

// scripted reports whether a server is a primary that has run scripts since it became one.
func scripted(t *testing.T, server *redistest.Server) error {
	t.Helper()
	role, err := server.Client().Do(t.Context(), "ROLE").Slice()
	if err != nil {
		return err
	}
	info, err := server.Client().Info(t.Context(), "commandstats").Result()
	if err != nil {
		return err
	}
	if role[0] != "master" || !strings.Contains(info, "cmdstat_evalsha:") {
		return fmt.Errorf("%s is a %v that no limiter has asked", server.Addr, role[0])
	}
	return nil
}
