package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
)

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
