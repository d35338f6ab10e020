package relay_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Relays follow the primary that Sentinel moves, under load, whether the old one is
// asked to go or dies.
var (
	primaryIsAskedToGo = relayTest{name: "primary-is-asked-to-go", timeout: "2s", play: func(t *testing.T, l *limiter) {
		l.followPrimary(t, func(s *redis.SentinelClient, _ *redistest.Server) error {
			return s.Failover(t.Context(), "counters").Err()
		})
	}}
	primaryDies = relayTest{name: "primary-dies", timeout: "2s", play: func(t *testing.T, l *limiter) {
		l.followPrimary(t, func(_ *redis.SentinelClient, primary *redistest.Server) error {
			primary.Kill()
			return nil
		})
	}}
)

// followPrimary runs a primary and a replica under Redis' own Sentinel, with the cluster of failover.yaml, and has
// the primary move.
// https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/
func (l *limiter) followPrimary(t *testing.T, move func(*redis.SentinelClient, *redistest.Server) error) {
	t.Helper()
	primary := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(primary.Port))
	port := testenv.FreePort(t)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	testenv.OK(t, os.WriteFile(file, fmt.Appendf(nil, `bind 127.0.0.1
port %d
sentinel monitor counters 127.0.0.1 %d 1
sentinel down-after-milliseconds counters 1000
sentinel failover-timeout counters 10000
`, port, primary.Port), 0o600))
	testenv.Run(t, nil, testenv.Tool(t, "redis-server"), file, "--sentinel")
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port)})
	t.Cleanup(func() { sentinel.Close() })
	testenv.Wait(t, patience, func() error {
		replicas, err := sentinel.Replicas(t.Context(), "counters").Result()
		if err == nil && len(replicas) != 1 {
			err = fmt.Errorf("the Sentinel knows %d replicas", len(replicas))
		}
		return err
	})
	envoytest.NewRelayAt(t, l.ports[0], primary.Addr, func(c *envoyconf.Config) { // for servers without users
		c.Set(envoyconf.RedisCluster, c.Fragment(string(testenv.Read(t, "failover.yaml"))))
		c.Delete(redisOptions)
		c.Set(envoyconf.RedisCluster+"/load_assignment/endpoints", c.Endpoints([]string{replica.Addr, primary.Addr}))
	})
	l.load(t)
	l.await(t, 200)
	testenv.OK(t, move(sentinel, primary))
	testenv.Wait(t, patience, replica.Scripted)
	l.await(t, 200)
	t.Logf("%d requests were not decided while the primary moved", l.failed.Load())
	testenv.Same(t, "requests that were not decided once the new primary was in use", l.await(t, 200), 0)
}
