package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/process"
)

// envoy is an Envoy that runs.
type envoy struct {
	*subprocess

	url   string // of its listener
	admin string // host:port
}

// place is where a setup's Envoy is and whom it talks to.
type place struct {
	listener, admin        int           // its ports
	upstream, redis        int           // their ports
	service, health, debug int           // ports, too: of the rate limit service, or of the relay
	timeout                time.Duration // of a question to Redis, or to the service
	root                   string        // of the repository
	workers                int           // of the Envoy; 0: one
}

// addr is a port of this machine.
func addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (b *bench) startEnvoy(ctx context.Context, name string, c *envoyconf.Config, at place) (*envoy, error) {
	text, err := c.YAML()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.dir, name+".yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	admin := addr(at.admin)
	p, err := b.start(ctx, name, nil, func(ctx context.Context) error { return process.EnvoyReady(ctx, admin) },
		"envoy", "-c", file, "--concurrency", strconv.Itoa(max(at.workers, 1)), "--disable-hot-restart", "--log-level",
		"warning")
	if err != nil {
		return nil, err
	}
	return &envoy{p, "http://" + addr(at.listener) + "/", admin}, nil
}

// failureStats selects the counters of Sluice's undecided requests and of the ratelimit filter's.
const failureStats = `sluice.outcome.failed_.*|\.ratelimit\.error$`

// failures returns how many requests Envoy has let through or refused undecided: because of a time-out
// or an error between it and the counters.
func (e *envoy) failures() (sum int64, err error) {
	url := "http://" + e.admin + "/stats?usedonly&format=json&filter=" + failureStats
	resp, err := http.Get(url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var found struct{ Stats []struct{ Value int64 } }
	if err := json.NewDecoder(resp.Body).Decode(&found); err != nil {
		return 0, fmt.Errorf("%s: %s: %w", url, resp.Status, err)
	}
	for _, counter := range found.Stats {
		sum += counter.Value
	}
	return sum, nil
}

// shippedFor is the shipped envoy.yaml, with an Envoy's ports.
func shippedFor(at place) (*envoyconf.Config, error) {
	c, err := envoyconf.Read(filepath.Join(at.root, "envoy.yaml"))
	if err != nil {
		return nil, err
	}
	c.SetPorts(at.listener, at.admin)
	c.SetWasm(filepath.Join(at.root, "build", "sluice.wasm"))
	return c, nil
}

// startRelay runs deploy/relay/relay.yaml at the service's port, as mesh proxies would have it: who asks
// is theirs to know, so it has neither TLS nor RBAC.
func (b *bench) startRelay(ctx context.Context, at place) (*envoy, error) {
	c, err := envoyconf.Read(filepath.Join(b.root, "deploy/relay/relay.yaml"))
	if err != nil {
		return nil, err
	}
	const listener = "static_resources/listeners/relay"
	c.Delete(listener + "/filter_chains/0/transport_socket")
	c.Remove(listener+"/filter_chains/0/filters/0/typed_config/http_filters", "envoy.filters.http.rbac")
	c.Set(listener+"/address/socket_address/port_value", at.service)
	c.Set("admin/address/socket_address/port_value", at.health)
	c.SetRedis(addr(at.redis))
	c.Delete(envoyconf.RedisCluster + "/typed_extension_protocol_options")
	return b.startEnvoy(ctx, "relay", c, place{listener: at.service, admin: at.health})
}

// buildService compiles the service from the module that go.mod pins, into build/: go links it once.
func buildService(ctx context.Context, root string) (string, error) {
	path := filepath.Join(root, "build", "ratelimit")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/envoyproxy/ratelimit/src/service_cmd")
	cmd.Dir = filepath.Join(root, "bench")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building envoyproxy/ratelimit: %w\n%s", err, out)
	}
	return path, nil
}

// startService runs the service with its own configuration, and returns when it takes calls.
//
// Writes are gathered for the time that its README recommends; statistics are off, which spares it work
// that Sluice does. https://github.com/envoyproxy/ratelimit#redis
func (b *bench) startService(ctx context.Context, s *service, limits string, at place) (*subprocess, error) {
	if err := os.MkdirAll(filepath.Join(b.dir, "config"), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(b.dir, "config", "bench.yaml"), []byte(limits), 0o600); err != nil {
		return nil, err
	}
	cacheBytes := 0
	if s.Cache {
		cacheBytes = 64 << 20
	}
	env := []string{
		"GRPC_HOST=127.0.0.1", "GRPC_PORT=" + strconv.Itoa(at.service),
		"HOST=127.0.0.1", "PORT=" + strconv.Itoa(at.health),
		"DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + strconv.Itoa(at.debug),
		"DISABLE_STATS=true", "USE_STATSD=false", "LOG_LEVEL=error",
		"RUNTIME_ROOT=" + b.dir, "RUNTIME_SUBDIRECTORY=", "RUNTIME_WATCH_ROOT=false",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + addr(at.redis), "REDIS_PIPELINE_WINDOW=150us",
		"LOCAL_CACHE_SIZE_IN_BYTES=" + strconv.Itoa(cacheBytes),
		"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=" + strconv.FormatBool(s.LooksFirst),
		// Keys of the setups apart from each other, expiring when they should.
		fmt.Sprintf("CACHE_KEY_PREFIX=%d-", at.service), "EXPIRATION_JITTER_MAX_SECONDS=0",
	}
	return b.start(ctx, "service", env, func(ctx context.Context) error {
		var dialer net.Dialer
		c, err := dialer.DialContext(ctx, "tcp", addr(at.service))
		if err == nil {
			err = c.Close()
		}
		return err
	}, b.service)
}
