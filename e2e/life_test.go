package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// remaining is how much a limit has left, as a request of cost 0 learns.
func remaining(t *testing.T, url string, headers ...string) string {
	t.Helper()
	r := get(t, url, append(headers, "x-cost: 0")...)
	if r.status != http.StatusOK {
		t.Errorf("a request of cost 0 has status %d, want 200", r.status)
	}
	return r.header.Get("x-ratelimit-remaining")
}

// TestUpstreamLimits: what an upstream's 429 says of its own limits stays, and the
// lists have Sluice's members after the upstream's. Any other answer is Sluice's.
func TestUpstreamLimits(t *testing.T) {
	t.Parallel()
	inner := map[string]string{
		"X-RateLimit-Limit": "7", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "3",
		"RateLimit-Policy": `"inner";q=7;w=3`, "RateLimit": `"inner";r=0;t=3`,
	}
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("x-inner") != "" {
			for name, value := range inner {
				w.Header()[name] = []string{value}
			}
		}
		if r.Header.Get("x-reject") != "" {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	s := start(t, `{`+patient+`"headers": ["x-ratelimit", "draft"],
		"rules": [{"name": "r", "key": [{"header": "x-user"}], "limits": [
		{"algorithm": "fixed_window", "anchor": "first_request", "limit": 9, "window": "1h"}]}]}`,
		envoytest.Options{Upstream: envoytest.NewUpstream(t, upstream).Addr})
	for _, tc := range []struct {
		name                             string
		headers                          []string
		limit, remaining, policy, limits string
	}{
		{
			name: "429 with limits", headers: []string{"x-user: a", "x-inner: 1", "x-reject: 1"}, limit: "7", remaining: "0",
			policy: `"inner";q=7;w=3, "r";q=9;w=3600`, limits: `"inner";r=0;t=3, "r";r=8;t=3600`,
		},
		{
			name: "429 without", headers: []string{"x-user: b", "x-reject: 1"}, limit: "9", remaining: "8",
			policy: `"r";q=9;w=3600`, limits: `"r";r=8;t=3600`,
		},
		{
			name: "200 with limits", headers: []string{"x-user: c", "x-inner: 1"}, limit: "9", remaining: "8",
			policy: `"r";q=9;w=3600`, limits: `"r";r=8;t=3600`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := get(t, s.URL, tc.headers...)
			joined := func(name string) string { return strings.Join(r.header.Values(name), ", ") }
			testenv.Same(t, "X-RateLimit-Limit", joined("x-ratelimit-limit"), tc.limit)
			testenv.Same(t, "X-RateLimit-Remaining", joined("x-ratelimit-remaining"), tc.remaining)
			testenv.Same(t, "RateLimit-Policy", joined("ratelimit-policy"), tc.policy)
			testenv.Same(t, "RateLimit", joined("ratelimit"), tc.limits)
		})
	}
}

// TestCostZeroIsNotHeld: it only reports, while others wait for their turns.
func TestCostZeroIsNotHeld(t *testing.T) {
	t.Parallel()
	d := new(departures)
	s := start(t, `{`+patient+`"rules": [{"name": "r", "cost": {"header": "x-cost", "default": 1, "max": 9},
		"key": [{"header": "x-user"}], "limits": [
		{"algorithm": "leaky_bucket", "overflow": "queue", "limit": 1, "window": "20m", "burst": 3, "max_delay": "1h"}]}]}`,
		envoytest.Options{Upstream: envoytest.NewUpstream(t, d).Addr})
	leaving, leave := context.WithCancel(ctx)
	answers := enqueue(t, s, []context.Context{leaving, leaving, leaving})
	if err := <-answers[0]; err != nil {
		t.Error(err)
	}
	full := s.snapshot(t)
	testenv.Same(t, "remaining of a full queue", remaining(t, s.URL+"/?zero", "x-user: u"), "0")
	if s.snapshot(t) != full {
		t.Error("cost 0 was charged")
	}
	leave()
	for _, answer := range answers[1:] {
		if err := <-answer; err == nil {
			t.Error("a request that was held went on")
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	testenv.Same(t, "the upstream got", strings.Join(d.names, " "), "0 zero")
}

// TestCostZeroOverALoweredLimit: a limit is lowered below what was used of it.
// Cost 0 still reports, and any other cost is rejected.
func TestCostZeroOverALoweredLimit(t *testing.T) {
	t.Parallel()
	config := func(limit int) string {
		rules := ""
		for name, algorithm := range algorithms {
			rules += fmt.Sprintf(`, {"name": %q, "match": {"path": "/%s"}, "cost": {"header": "x-cost", "default": 1, "max": 9},
				"limits": [{%s, "limit": %d, %s}]}`, name, name, algorithm, limit, long)
		}
		return `{` + patient + `"rules": [` + strings.TrimPrefix(rules, ", ") + `]}`
	}
	s := start(t, config(10), envoytest.Options{Dynamic: true})
	for name := range algorithms {
		get(t, s.URL+"/"+name, "x-cost: 8")
	}
	if !s.Reload(config(3), nil) {
		t.Fatal("refused")
	}
	for name := range algorithms {
		awaitLimitAt(t, s.URL+"/"+name, "3")
		t.Run(name, func(t *testing.T) {
			testenv.Same(t, "remaining", remaining(t, s.URL+"/"+name), "0")
			testenv.Same(t, "cost 1: status", get(t, s.URL+"/"+name).status, http.StatusTooManyRequests)
		})
	}
}

// awaitLimitAt returns when answers at a URL, at cost 0, tell of a limit.
func awaitLimitAt(t *testing.T, url, limit string) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		shared.CloseIdleConnections() // one that is kept open belongs to the old listener
		if got := get(t, url, "x-cost: 0").header.Get("x-ratelimit-limit"); got != limit {
			return fmt.Errorf("limit %q, want %s", got, limit)
		}
		return nil
	})
}

// TestInternalRedirectIsChargedOnce: Envoy follows an upstream's redirect itself.
// The client has sent one request, and sees its limit once.
func TestInternalRedirectIsChargedOnce(t *testing.T) {
	t.Parallel()
	upstream := envoytest.NewUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			w.Header().Set("location", "http://"+r.Host+"/second")
			w.WriteHeader(http.StatusFound)
			return
		}
		_, _ = io.WriteString(w, "second\n")
	}))
	const limit = 3
	s := start(t, fmt.Sprintf(`{%s"rules": [{"name": "r", "key": [{"header": "x-user"}], `+
		`"limits": [{"algorithm": "fixed_window", "limit": %d, %s}]}]}`,
		patient, limit, long), envoytest.Options{Upstream: upstream.Addr, Edit: followRedirects})
	for i := range limit {
		r := get(t, s.URL+"/first", "x-user: u")
		testenv.Same(t, "status", r.status, http.StatusOK)
		testenv.Same(t, "body", r.body, "second\n")
		expectHeaders(t, r, map[string]string{
			"x-ratelimit-limit":     fmt.Sprint(limit),
			"x-ratelimit-remaining": fmt.Sprint(limit - 1 - i),
		})
	}
	testenv.Same(t, "one more: status", get(t, s.URL+"/first", "x-user: u").status, http.StatusTooManyRequests)
	forged := get(t, s.URL+"/second", "x-user: u", "x-envoy-original-url: http://x/first")
	testenv.Same(t, "a client that claims to be redirected: status", forged.status, http.StatusTooManyRequests)
	testenv.Same(t, "requests of the upstream", upstream.Count(), 2*limit)
}

// followRedirects makes Envoy follow the upstream's redirects.
func followRedirects(c *envoyconf.Config) {
	c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/all/routes/0/route", c.Fragment(`
cluster: upstream
internal_redirect_policy: {max_internal_redirects: 1, redirect_response_codes: [302]}
`))
}
