package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// remaining is what a limit has left, as a request of cost 0 is told.
func remaining(t *testing.T, url string, headers ...string) string {
	t.Helper()
	r := get(t, url, append(headers, "x-cost: 0")...)
	if r.status != http.StatusOK {
		t.Errorf("a request of cost 0 has status %d, want 200", r.status)
	}
	return r.header.Get("x-ratelimit-remaining")
}

// TestLeaversChargeNobody: an exhausted user's client sends requests and leaves at
// once. They are settled all the same: the tenant pays for what was admitted only.
func TestLeaversChargeNobody(t *testing.T) {
	t.Parallel()
	const limit, leavers = 5, 400
	for _, tc := range []struct {
		name      string
		denyCache int
		leave     func(t *testing.T, addr string, requests int)
	}{
		{name: "HTTP/1.1 close", denyCache: 4096, leave: sendAndClose},
		{name: "HTTP/1.1 close, no deny cache", denyCache: 0, leave: sendAndClose},
		{name: "HTTP/2 reset", denyCache: 4096, leave: sendAndReset},
		{name: "HTTP/2 reset, no deny cache", denyCache: 0, leave: sendAndReset},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, fmt.Sprintf(`{%s"deny_cache": {"size": %d}, "rules": [
				{"name": "tenant", "key": [{"header": "x-tenant"}], "cost": {"header": "x-cost", "default": 1, "max": 9}, "limits": [{"algorithm": "fixed_window", "limit": 1000, %s}]},
				{"name": "per-user", "key": [{"header": "x-user"}], "limits": [{"algorithm": "gcra", "limit": %d, %s}]}]}`,
				patient, tc.denyCache, long, limit, long), envoytest.Options{})
			for range limit {
				get(t, s.URL, "x-tenant: t", "x-user: u")
			}
			before := s.snapshot(t)
			tc.leave(t, s.Addr, leavers)
			awaitSettled(t, s, limit+leavers)
			testenv.Wait(t, patience, func() error { // refunds are not waited for
				if after := s.snapshot(t); after != before {
					return fmt.Errorf("Redis held\n%q, and holds\n%q", before, after)
				}
				return nil
			})
			testenv.Same(t, "the tenant's remaining", remaining(t, s.URL, "x-tenant: t"), fmt.Sprint(1000-limit))
		})
	}
}

// awaitSettled returns when Envoy has had a number of requests, all of them are
// over, and the plugin has counted each.
func awaitSettled(t *testing.T, s *setting, requests int) {
	t.Helper()
	const all, active, outcomes = "http.limited.downstream_rq_total", "http.limited.downstream_rq_active", "wasmcustom.sluice.outcome."
	testenv.Wait(t, 2*patience, func() error {
		envoy, told := s.Stats("http.limited.downstream_rq"), int64(0)
		for _, n := range s.Stats(outcomes) {
			told += n
		}
		if envoy[all] != int64(requests) || envoy[active] != 0 || told != int64(requests) {
			return fmt.Errorf("%d requests came, %d are under way, %d are counted; want %d, all counted",
				envoy[all], envoy[active], told, requests)
		}
		return nil
	})
}

// dial connects to Envoy. The connection ends with the test.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// sendAndClose sends each request on a connection of its own, and closes it.
func sendAndClose(t *testing.T, addr string, requests int) {
	t.Helper()
	for range requests {
		conn := dial(t, addr)
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nhost: x\r\nx-tenant: t\r\nx-user: u\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
}

// Frames of HTTP/2, see RFC 9113, section 6.
const (
	headersFrame, resetFrame, settingsFrame = 1, 3, 4

	endStreamAndHeaders = 0x1 | 0x4
	http2Preface        = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	cancelCode          = "\x00\x00\x00\x08"
)

// appendFrame appends a frame of HTTP/2.
func appendFrame(dst []byte, kind, flags byte, stream int, payload string) []byte {
	n := len(payload)
	dst = append(dst, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	dst = append(dst, byte(stream>>24), byte(stream>>16), byte(stream>>8), byte(stream))
	return append(dst, payload...)
}

// literal is a header field that HPACK does not index (RFC 7541, section 6.2.2).
func literal(name, value string) string {
	return "\x00" + string(rune(len(name))) + name + string(rune(len(value))) + value
}

// sendAndReset sends requests, and resets the stream of each, on connections of 100
// streams. Envoy takes more on one connection for an attack.
func sendAndReset(t *testing.T, addr string, requests int) {
	t.Helper()
	const streams = 100
	block := "\x82\x86\x84\x01\x01x" + // GET, http, "/", authority "x"
		literal("x-tenant", "t") + literal("x-user", "u")
	for range requests / streams {
		conn := dial(t, addr)
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		frames := appendFrame([]byte(http2Preface), settingsFrame, 0, 0, "")
		for i := range streams {
			frames = appendFrame(frames, headersFrame, endStreamAndHeaders, 2*i+1, block)
			frames = appendFrame(frames, resetFrame, 0, 2*i+1, cancelCode)
		}
		if _, err := conn.Write(frames); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLeaversGiveTheirPlacesBack: a queue that is full has room again when clients
// leave that it holds. Those who stay keep their times.
func TestLeaversGiveTheirPlacesBack(t *testing.T) {
	t.Parallel()
	const interval = 5 * time.Second
	d := new(departures)
	s := start(t, `{`+patient+`"rules": [{"name": "r", "key": [{"header": "x-user"}], "limits": [
		{"algorithm": "leaky_bucket", "overflow": "queue", "limit": 1, "window": "5s", "burst": 4, "max_delay": "1m"}]}]}`,
		envoytest.Options{Upstream: envoytest.NewUpstream(t, d).Addr})
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	answers := enqueue(t, s, []context.Context{ctx, leaving, leaving, ctx})
	stayed := time.Now() // request 3 is due two to three intervals from here
	testenv.Same(t, "a full queue: status", get(t, s.URL, "x-user: u").status, http.StatusTooManyRequests)
	full := s.snapshot(t)
	leave()
	testenv.Wait(t, patience, func() error {
		if s.snapshot(t) == full {
			return fmt.Errorf("no place was given back")
		}
		return nil
	})
	testenv.Same(t, "the next client: status", get(t, s.URL+"/?4", "x-user: u").status, http.StatusOK)
	for i, answer := range answers {
		if err := <-answer; (err != nil) != (i == 1 || i == 2) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	testenv.Same(t, "the upstream got", strings.Join(d.names, " "), "0 4 3")
	if wait := d.times[len(d.times)-1].Sub(stayed); wait < 2*interval-interval/2 {
		t.Errorf("request 3 left after %v, want about %v", wait, 3*interval)
	}
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
	s := start(t, `{`+patient+`"headers": ["x-ratelimit", "draft"], "rules": [{"name": "r", "key": [{"header": "x-user"}], "limits": [
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
	s := start(t, `{`+patient+`"rules": [{"name": "r", "cost": {"header": "x-cost", "default": 1, "max": 9}, "key": [{"header": "x-user"}], "limits": [
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
	s := start(t, fmt.Sprintf(`{%s"rules": [{"name": "r", "key": [{"header": "x-user"}], "limits": [{"algorithm": "fixed_window", "limit": %d, %s}]}]}`,
		patient, limit, long), envoytest.Options{Upstream: upstream.Addr, Edit: followRedirects})
	for i := range limit {
		r := get(t, s.URL+"/first", "x-user: u")
		testenv.Same(t, "status", r.status, http.StatusOK)
		testenv.Same(t, "body", r.body, "second\n")
		expectHeaders(t, r, map[string]string{"x-ratelimit-limit": fmt.Sprint(limit), "x-ratelimit-remaining": fmt.Sprint(limit - 1 - i)})
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
