package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestBothInOneChain is docs/migration.md's recipe: Sluice in shadow before Envoy's own
// filter, with the access log that shows where they disagree. Both have a limit of 3.
func TestBothInOneChain(t *testing.T) {
	format := regexp.MustCompile(`(?m)^inline_string: "(.*)\\n"$`).FindSubmatch(testenv.File(t, "docs/migration.md"))
	if format == nil {
		t.Fatal("docs/migration.md has no access log for the comparison")
	}
	binary, err := buildService(context.Background(), testenv.Root(t))
	if err != nil {
		t.Fatal(err)
	}
	at := place{
		service: testenv.FreePort(t), health: testenv.FreePort(t), debug: testenv.FreePort(t),
		redis: redistest.Start(t).Port,
	}
	pairs := choose(func(s *setup) bool { return s.ID == pair })[0]
	b, asked := &bench{dir: t.TempDir(), service: binary}, &service{Limit: 3}
	_, err = b.startService(context.Background(), asked, asked.limits(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.stop(0) })
	log := filepath.Join(t.TempDir(), "access.log")
	e := envoytest.Start(t, envoytest.Options{
		Plugin: `{"redis": {"cluster": "redis", "timeout": "10s"},
			"rules": [{"name": "client", "mode": "shadow", "key": [{"header": "` + identityHeader + `"}],
			"limits": [{"algorithm": "fixed_window", "limit": 3, "window": "1h"}]}]}`,
		Redis: []string{redistest.Start(t).Addr}, Upstream: envoytest.NewUpstream(t, nil).Addr, Quiet: true,
		Edit: func(c *envoyconf.Config) {
			sluice, redis := c.Get(envoyconf.LimiterFilter), c.Get(envoyconf.RedisCluster)
			pairs.replaceSluice(c, at)
			c.Set(httpFilters, append([]any{sluice}, c.Get(httpFilters).([]any)...))
			c.Append("static_resources/clusters", redis)
			c.Set(envoyconf.ConnectionManager+"/access_log", c.Fragment(fmt.Sprintf(`
- name: envoy.access_loggers.file
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
    path: %s
    log_format: {text_format_source: {inline_string: "%s\n"}}`, log, format[1])))
		},
	})
	for n := range 6 {
		expectAsked(t, e.URL+"/api/x", n < 3)
	}
	want := strings.Repeat("200 - allowed\n", 3) + strings.Repeat("429 RL shadow:client\n", 3)
	testenv.Wait(t, time.Minute, func() error {
		if text, err := os.ReadFile(log); string(text) != want {
			return fmt.Errorf("the access log is\n%swant\n%s(%v)", text, want, err)
		}
		return nil
	})
}

// expectAsked sends a request, which passes or has the service's 429 as the page's table has it.
func expectAsked(t *testing.T, url string, passes bool) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(identityHeader, "alice")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if passes {
		testenv.Same(t, "that the service limits", response.StatusCode == http.StatusTooManyRequests, false)
		return
	}
	h := response.Header
	testenv.Same(t, "the status", response.StatusCode, http.StatusTooManyRequests)
	testenv.Same(t, "X-RateLimit-Limit", h.Get("X-Ratelimit-Limit"), "3, 3;w=3600")
	testenv.Same(t, "Retry-After", h.Get("Retry-After"), "")
	testenv.Same(t, "X-Envoy-Ratelimited", h.Get("X-Envoy-Ratelimited"), "true")
	testenv.Same(t, "the length of the body", len(body), 0)
}
