package main

import (
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
	pairs, asked := choose(func(s *setup) bool { return s.ID == pair })[0], &service{Limit: 3}
	at := startLimiter(t, asked, asked.limits())
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
	for n := range 6 { // the first three pass, the others have the service's 429 as the page's table has it
		request, err := http.NewRequest(http.MethodGet, e.URL+"/api/x", nil)
		testenv.OK(t, err)
		request.Header.Set(identityHeader, "alice")
		response, err := http.DefaultClient.Do(request)
		testenv.OK(t, err)
		body, err := io.ReadAll(response.Body)
		testenv.OK(t, err)
		response.Body.Close()
		limited := response.StatusCode == http.StatusTooManyRequests
		testenv.Same(t, fmt.Sprintf("that the service limits request %d", n+1), limited, n >= 3)
		if h := response.Header; limited {
			testenv.Same(t, "X-RateLimit-Limit", h.Get("X-Ratelimit-Limit"), "3, 3;w=3600")
			testenv.Same(t, "Retry-After", h.Get("Retry-After"), "")
			testenv.Same(t, "X-Envoy-Ratelimited", h.Get("X-Envoy-Ratelimited"), "true")
			testenv.Same(t, "the length of the body", len(body), 0)
		}
	}
	want := strings.Repeat("200 - allowed\n", 3) + strings.Repeat("429 RL shadow:client\n", 3)
	testenv.Wait(t, time.Minute, func() error {
		if text, err := os.ReadFile(log); string(text) != want {
			return fmt.Errorf("the access log is\n%swant\n%s(%v)", text, want, err)
		}
		return nil
	})
}
