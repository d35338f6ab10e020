package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/process"
)

// envoy is an Envoy that runs.
type envoy struct {
	*subprocess

	port  int    // of its listener
	url   string // of its listener
	admin string // URL
}

// place is where a setup's Envoy is and whom it talks to.
type place struct {
	listener, admin        int           // its ports
	upstream, redis        int           // their ports
	service, health, debug int           // ports, too: of the rate limit service
	timeout                time.Duration // of a question to Redis, or to the service
	root                   string        // of the repository
	workers                int           // of the Envoy; 0: one
}

// addr is a port of this machine.
func addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func (u under) startEnvoy(ctx context.Context, dir, name, config string, at place) (*envoy, error) {
	file := filepath.Join(dir, name+".yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	p, err := u.startProcess(dir, name, nil, "envoy", "-c", file,
		"--concurrency", strconv.Itoa(max(at.workers, 1)), "--disable-hot-restart", "--log-level", "warning")
	if err != nil {
		return nil, err
	}
	ready := func(ctx context.Context) error { return process.EnvoyReady(ctx, addr(at.admin)) }
	if err := p.await(ctx, ready); err != nil {
		p.stop()
		return nil, err
	}
	return &envoy{p, at.listener, "http://" + addr(at.listener) + "/", "http://" + addr(at.admin)}, nil
}

// failures returns how many requests Envoy has let through or refused undecided:
// because of a time-out or an error between it and the counters.
func (e *envoy) failures(ctx context.Context) (sum int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.admin+"/stats?usedonly&filter="+failureStats, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	text, err := io.ReadAll(resp.Body)
	for _, value := range statValue.FindAllSubmatch(text, -1) {
		n, numberErr := strconv.ParseInt(string(value[1]), 10, 64)
		sum, err = sum+n, errors.Join(err, numberErr)
	}
	return sum, err
}

// statValue is that of a counter in a line of /stats.
var statValue = regexp.MustCompile(`(?m): (.*)$`)

// failureStats selects the counters of Sluice's undecided requests and of the
// ratelimit filter's.
const failureStats = `sluice.outcome.failed_.*|\.ratelimit\.error$`

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

// base is the same with a setup's upstream and Redis, and with the access log left out.
func base(at place) (*envoyconf.Config, error) {
	c, err := shippedFor(at)
	if err != nil {
		return nil, err
	}
	c.SetUpstream(addr(at.upstream))
	c.SetRedis(addr(at.redis))
	c.Delete(envoyconf.ConnectionManager + "/access_log")
	return c, nil
}

// config is the configuration of a setup's Envoy.
func (s *setup) config(at place) (string, error) {
	c, err := base(at)
	if err != nil {
		return "", err
	}
	s.edit(c, at)
	text, err := c.YAML()
	return string(text), err
}

// startRelay runs deploy/relay/relay.yaml at the service's port, as mesh proxies would have it: who asks
// is theirs to know, so it has neither TLS nor RBAC.
func (b *bench) startRelay(ctx context.Context, at place) (*envoy, error) {
	c, err := envoyconf.Read(filepath.Join(b.root, "deploy/relay/relay.yaml"))
	if err != nil {
		return nil, err
	}
	const chain = "static_resources/listeners/relay/filter_chains/0"
	c.Delete(chain + "/transport_socket")
	c.Remove(chain+"/filters/0/typed_config/http_filters", "envoy.filters.http.rbac")
	c.Set("static_resources/listeners/relay/address/socket_address/port_value", at.service)
	c.Set("admin/address/socket_address/port_value", at.health)
	c.SetRedis(addr(at.redis))
	c.Delete("static_resources/clusters/redis/typed_extension_protocol_options")
	text, err := c.YAML()
	if err != nil {
		return nil, err
	}
	return b.under.startEnvoy(ctx, b.dir, "relay", string(text), place{listener: at.service, admin: at.health})
}

const httpFilters = envoyconf.ConnectionManager + "/http_filters"

// withoutSluice takes the plugin out, in both its roles.
func withoutSluice(c *envoyconf.Config) {
	c.Remove(httpFilters, "sluice")
	c.Remove("static_resources/clusters", "redis")
}

// replaceSluice puts another filter in the plugin's place.
func replaceSluice(c *envoyconf.Config, filter string) {
	withoutSluice(c)
	rest, _ := c.Get(httpFilters).([]any)
	c.Set(httpFilters, append([]any{c.Fragment(filter)}, rest...))
}

// answering is an Envoy that answers every request itself: the upstream.
func answering(at place) string {
	return fmt.Sprintf(`
admin: {address: {socket_address: {address: 127.0.0.1, port_value: %d}}}
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %d}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: upstream
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: "/"}
                direct_response: {status: 200, body: {inline_string: "ok\n"}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
`, at.admin, at.listener)
}

// peerOptions configure the service of github.com/envoyproxy/ratelimit.
type peerOptions struct {
	limit      int  // requests an hour, and a day
	localCache bool // of the keys that are over their limit, in the service
	looksFirst bool // a request that one limit rejects is not counted in the others, as with Sluice
}

// The service's settings, apart from addresses. Writes are gathered for the
// time that its README recommends; statistics are off, which spares it work
// that Sluice does.
// https://github.com/envoyproxy/ratelimit#redis
const (
	pipelineWindow  = "150us"
	localCacheBytes = 64 << 20
)

func (o *peerOptions) env(dir string, at place) []string {
	cache := 0
	if o.localCache {
		cache = localCacheBytes
	}
	return []string{
		"GRPC_HOST=127.0.0.1", "GRPC_PORT=" + strconv.Itoa(at.service),
		"HOST=127.0.0.1", "PORT=" + strconv.Itoa(at.health),
		"DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + strconv.Itoa(at.debug),
		"DISABLE_STATS=true", "USE_STATSD=false", "LOG_LEVEL=error",
		"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=", "RUNTIME_WATCH_ROOT=false",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + addr(at.redis),
		"REDIS_PIPELINE_WINDOW=" + pipelineWindow,
		"LOCAL_CACHE_SIZE_IN_BYTES=" + strconv.Itoa(cache),
		"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=" + strconv.FormatBool(o.looksFirst),
		// Keys of the setups apart from each other, expiring when they should.
		fmt.Sprintf("CACHE_KEY_PREFIX=%d-", at.service), "EXPIRATION_JITTER_MAX_SECONDS=0",
	}
}

// limits are the service's own configuration.
func (o *peerOptions) limits() string {
	return fmt.Sprintf("domain: bench\ndescriptors:\n"+
		"- {key: client, rate_limit: {unit: hour, requests_per_unit: %d}}\n"+
		"- {key: daily, rate_limit: {unit: day, requests_per_unit: %[1]d}}\n", o.limit)
}

// buildPeer compiles the service from the module that go.mod pins.
func buildPeer(ctx context.Context, root, dir string) (string, error) {
	path := filepath.Join(dir, "ratelimit")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/envoyproxy/ratelimit/src/service_cmd")
	cmd.Dir = filepath.Join(root, "bench")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building envoyproxy/ratelimit: %w\n%s", err, out)
	}
	return path, nil
}

// startPeer runs the service and returns when it takes calls.
func (u under) startPeer(ctx context.Context, binary, dir, name string, o *peerOptions, at place) (*subprocess, error) {
	dir = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "config", "bench.yaml"), []byte(o.limits()), 0o600); err != nil {
		return nil, err
	}
	p, err := u.startProcess(dir, "service", o.env(dir, at), binary)
	if err != nil {
		return nil, err
	}
	err = p.await(ctx, func(ctx context.Context) error {
		var dialer net.Dialer
		c, err := dialer.DialContext(ctx, "tcp", addr(at.service))
		if err == nil {
			err = c.Close()
		}
		return err
	})
	if err != nil {
		p.stop()
	}
	return p, err
}

// rateLimitFilter has Envoy's ratelimit filter ask the service, with the
// time-out that Sluice has for Redis.
func rateLimitFilter(c *envoyconf.Config, at place) {
	replaceSluice(c, fmt.Sprintf(`
name: ratelimit
typed_config:
  "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
  domain: bench
  timeout: %gs
  enable_x_ratelimit_headers: DRAFT_VERSION_03
  rate_limit_service: {transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: service}}}
`, at.timeout.Seconds()))
	describe(c, identityHeader, "client")
	c.Append("static_resources/clusters", c.HTTP2Cluster("service", addr(at.service)))
}

// describe has the filter send a descriptor for each key, with the value of a header.
func describe(c *envoyconf.Config, header string, keys ...string) {
	var all []string
	for _, key := range keys {
		all = append(all, fmt.Sprintf("{actions: [{request_headers: {header_name: %q, descriptor_key: %s}}]}", header, key))
	}
	c.Set(route+"/rate_limits", c.Fragment("["+strings.Join(all, ", ")+"]"))
}

// twoDescriptors has the filter ask about two limits at once: by the hour and by the day.
func twoDescriptors(c *envoyconf.Config, at place) {
	rateLimitFilter(c, at)
	describe(c, identityHeader, "client", "daily")
}
