package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// limitOf is a configuration that admits everything of the tests and tells
// itself apart by its limit.
func limitOf(limit int) string {
	return fmt.Sprintf(`{%s"rules": [{"name": "r", "limits": [{"algorithm": "fixed_window", "limit": %d, %s}]}]}`,
		patient, limit, long)
}

// awaitLimit returns when answers come from a configuration with a limit.
func awaitLimit(t testing.TB, url string, limit int) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		// A connection of its own: one that is kept open belongs to the old listener.
		client := newClient()
		defer client.CloseIdleConnections()
		r, err := send(ctx, client, url)
		if err != nil {
			return err
		}
		if got := r.header.Get("x-ratelimit-limit"); got != fmt.Sprint(limit) {
			return fmt.Errorf("limit %q, want %d", got, limit)
		}
		return nil
	})
}

// TestReloadUnderLoad: each new configuration takes effect, no request is lost,
// and every one is decided.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	s := start(t, limitOf(1_000_000), envoytest.Options{Dynamic: true})
	l := startLoad(t, 16, s.URL)
	const reloads = 6
	for i := range reloads {
		limit := 1_000_001 + i
		if !s.Reload(limitOf(limit), nil) {
			t.Fatalf("reload %d was refused", i)
		}
		awaitLimit(t, s.URL, limit)
		l.await(200, http.StatusOK)
	}
	answers := l.stop()
	if len(answers) != 1 {
		t.Errorf("%v; want status 200 only", l)
	}
	// Once the old listeners have drained, one connection a worker is left.
	testenv.Wait(t, patience, func() error {
		list, err := s.client.ClientList(ctx).Result()
		if n := strings.Count(list, "\n") - 1; err != nil || n > 2 { // one is ours
			return fmt.Errorf("%d connections to Redis, %v; want 2 at most:\n%s", n, err, list)
		}
		return nil
	})
}

// TestReloadKeepsTheCount: counters outlive configurations, however the window
// is spelled.
func TestReloadKeepsTheCount(t *testing.T) {
	t.Parallel()
	config := func(window string) string {
		return `{` + patient + `"rules": [{"name": "r", "limits": [
			{"algorithm": "token_bucket", "limit": 10, "window": "` + window + `"}]}]}`
	}
	s := start(t, config("1d"), envoytest.Options{Dynamic: true})
	remaining := func() string {
		client := newClient()
		defer client.CloseIdleConnections()
		r, err := send(ctx, client, s.URL)
		testenv.OK(t, err)
		return r.header.Get("x-ratelimit-remaining")
	}
	if got := remaining(); got != "9" {
		t.Fatalf("remaining %q, want 9", got)
	}
	for i, window := range []string{"24h", "1440m", "23h60m"} {
		if !s.Reload(config(window), nil) {
			t.Fatalf("window %s was refused", window)
		}
		if got, want := remaining(), fmt.Sprint(8-i); got != want {
			t.Errorf("window %s: remaining %s, want %s", window, got, want)
		}
	}
}

// TestRefusedReloadKeepsTheOldConfiguration, and the log names every mistake.
func TestRefusedReloadKeepsTheOldConfiguration(t *testing.T) {
	t.Parallel()
	s := start(t, limitOf(1_000), envoytest.Options{Dynamic: true})
	awaitLimit(t, s.URL, 1_000)
	l := startLoad(t, 4, s.URL)
	for mistake, config := range map[string]string{
		`sluice: rules[0].limits[0].window: "10x" is not a duration (want one such as "500ms", "1s", "1m", "1h", "1d")`: `{
			"rules": [{"name": "r", "limits": [{"algorithm": "gcra", "limit": 1, "window": "10x"}]}]}`,
		`sluice: rules[0].limits[0].limit`: `{"rules": [{"name": "r", ` +
			`"limits": [{"algorithm": "gcra", "limit": -1, "window": "1s"}]}]}`,
		`sluice: rules[0].match.expr: "1) || (1" is not an expression that Envoy compiles`: `{
			"rules": [{"name": "r", "match": {"expr": "1) || (1"}, ` + hundred + `}]}`,
		`sluice: `:        `{`,
		`sluice: rules: `: `{"rules": []}`,
	} {
		if s.Reload(config, nil) {
			t.Errorf("taken: %s", config)
		}
		if !strings.Contains(s.Log(), mistake) {
			t.Errorf("the log lacks %q", mistake)
		}
		l.await(50, http.StatusOK)
		awaitLimit(t, s.URL, 1_000)
	}
	if answers := l.stop(); len(answers) != 1 {
		t.Errorf("%v; want status 200 only", l)
	}
	if !s.Reload(limitOf(2_000), nil) {
		t.Error("a good configuration after refused ones was refused")
	}
	awaitLimit(t, s.URL, 2_000)
}

// TestRefusedAtStart: with a mistake Envoy does not start, and says all of them.
func TestRefusedAtStart(t *testing.T) {
	t.Parallel()
	log := envoytest.RefusedAtStart(t, envoytest.Options{Redis: []string{"127.0.0.1:1"}, Plugin: `{
		"redis": {"clutser": "redis"},
		"rules": [{"name": "r", "limits": [{"algorithm": "gcra", "limit": 1, "window": "10x"}]}]}`})
	for _, want := range []string{
		`redis.clutser`, `"cluster"`,
		`sluice: rules[0].limits[0].window: "10x" is not a duration (want one such as "500ms", "1s", "1m", "1h", "1d")`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q:\n%s", want, log)
		}
	}
}

// TestRedisRestartUnderLoad: with "allow" no request fails, and the limit is
// back within the breaker's longest pause.
func TestRedisRestartUnderLoad(t *testing.T) {
	t.Parallel()
	s := start(t, `{"redis": {"cluster": "redis", "timeout": "1s"},
		"failure": {"mode": "allow", "breaker": {"max_open": "500ms"}},
		"rules": [{"name": "r", "limits": [{"algorithm": "fixed_window", "limit": 1000000000,
			`+long+`}]}]}`, envoytest.Options{})
	l := startLoad(t, 16, s.URL)
	for range 3 {
		l.await(200, http.StatusOK)
		s.redis.Restart()
		testenv.Wait(t, patience, func() error {
			if n := len(s.keys(t)); n != 1 {
				return fmt.Errorf("%d keys in the new Redis, want 1", n)
			}
			return nil
		})
	}
	if answers := l.stop(); len(answers) != 1 {
		t.Errorf("%v; want status 200 only", l)
	}
	if l.worst > stuck {
		t.Errorf("worst latency %v: a request was stuck", l.worst)
	}
}
