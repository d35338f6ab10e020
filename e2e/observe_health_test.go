package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestRedisHealth fills a Redis until it evicts keys: an alert is raised, and the log warns,
// each once for all workers.
func TestRedisHealth(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "allkeys-random")
	client := server.Client()
	used, err := strconv.Atoi(client.InfoMap(ctx, "memory").Item("Memory", "used_memory"))
	testenv.OK(t, err)
	const room = 2 << 20
	testenv.OK(t, client.ConfigSet(ctx, "maxmemory", strconv.Itoa(used+room)).Err())
	s := &scene{setting: start(t, `{"redis": {"cluster": "redis", "timeout": "10s"}, "rules": [
		{"name": "r", "overrides": true, "limits": [{`+ever+`, "limit": 1000000}]}]}`,
		envoytest.Options{Redis: []string{server.Addr}})}
	s.prometheus = promtest.Start(t, strings.TrimPrefix(s.Admin, "http://"))
	defer startLoad(t, 1, s.URL).stop()
	s.until(t, `sluice_redis_evicted_keys_total{redis="redis"} == 0`)
	s.until(t, fmt.Sprintf(`sluice_redis_memory_bytes{redis="redis",kind="max"} == %d`, used+room))
	for n := range 4 * room / (16 << 10) {
		testenv.OK(t, client.Set(ctx, fmt.Sprint("other:", n), strings.Repeat("x", 16<<10), 0).Err())
	}
	s.prometheus.ExpectAlert("SluiceRedisEvicts")
	s.prometheus.ExpectAlert("SluiceRedisMemory")
	s.until(t, `sluice_redis_memory_bytes{kind="used"} > 1e6`)
	s.until(t, `sluice_redis_keys{redis="redis"} > 10`)
	evicted, err := strconv.Atoi(client.InfoMap(ctx, "stats").Item("Stats", "evicted_keys"))
	testenv.OK(t, err)
	s.await(t, fmt.Sprintf("redis %d\n", evicted), `sum by (redis) (sluice_redis_evicted_keys_total)`)
	for _, want := range []string{`redis "redis" has evicted `, `redis "redis" uses `} {
		testenv.Same(t, "how often the log says that "+want, strings.Count(s.Log(), want), 1)
	}
	// Each worker that has had a request warns, and one of the two may have had none.
	warnings := strings.Count(s.Log(), `redis "redis" may evict overrides: its maxmemory-policy is allkeys-random`)
	testenv.Within(t, "workers that warn of the policy", float64(warnings), 1, 2)
}
