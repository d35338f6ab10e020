package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// limitOf is a configuration that admits everything of the tests, some of it from leases, and tells
// itself apart by its limit.
func limitOf(limit int) string {
	return fmt.Sprintf(`{%s"rules": [
		{"name": "leased", "match": {"path": "/leased"}, "limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1000000, "window": "1d",
				"lease": {"units": 100, "ttl": "200ms"}}]},
		{"name": "r", "match": {"path": "/"}, "limits": [{"algorithm": "fixed_window", "limit": %d, %s}]}]}`,
		patient, limit, long)
}

// awaitLimit returns when answers come from a configuration with a limit.
func awaitLimit(t testing.TB, url string, limit int) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		shared.CloseIdleConnections() // one that is kept open belongs to the old listener
		r, err := send(ctx, shared, url)
		if got := r.header.Get("x-ratelimit-limit"); err == nil && got != fmt.Sprint(limit) {
			err = fmt.Errorf("limit %q, want %d", got, limit)
		}
		return err
	})
}

// TestReload: each new configuration takes effect, no request is lost, and every one is decided. Units that a
// worker holds are not lost either, and requests that wait in the old configuration leave. One with a
// mistake changes nothing, and the log names it.
func TestReload(t *testing.T) {
	t.Parallel()
	s := start(t, limitOf(1_000_000), envoytest.Options{Dynamic: true})
	reload := func(config string) {
		t.Helper()
		if !s.Reload(config, nil) {
			t.Fatalf("refused: %s", config)
		}
	}
	l, leased := startLoad(t, 16, s.URL), startLoad(t, 4, s.URL+"/leased")
	for limit := 1_000_001; limit <= 1_000_006; limit++ {
		reload(limitOf(limit))
		awaitLimit(t, s.URL, limit)
		l.await(200, http.StatusOK)
	}
	spent := leased.stop()[http.StatusOK]
	testenv.Wait(t, patience, func() error { // units return after their time
		if charged := s.chargedInWindow(t); charged != spent {
			return fmt.Errorf("%d units are charged, %d were spent", charged, spent)
		}
		return nil
	})
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
		testenv.Same(t, "that Envoy takes "+config, s.Reload(config, nil), false)
		testenv.Same(t, "that the log has "+mistake, strings.Contains(s.Log(), mistake), true)
		l.await(50, http.StatusOK)
		awaitLimit(t, s.URL, 1_000_006)
	}
	reload(limitOf(2_000_000))
	awaitLimit(t, s.URL, 2_000_000)
	if answers := l.stop(); len(answers) != 1 || len(leased.answers) != 1 {
		t.Errorf("%v, and of leased units %v; want status 200 only", l, leased)
	}
	// Once the old listeners have drained, one connection a worker is left.
	testenv.Wait(t, patience, func() error {
		list, err := s.client.ClientList(ctx).Result()
		if n := strings.Count(list, "\n") - 1; err != nil || n > 2 { // one is ours
			return fmt.Errorf("%d connections to Redis, %v; want 2 at most:\n%s", n, err, list)
		}
		return nil
	})

	for i, window := range []string{"1d", "24h", "1440m", "23h60m"} { // in one counter, however they are spelled
		reload(`{` + patient + `"rules": [{"name": "spelled", "limits": [
			{"algorithm": "token_bucket", "limit": 10, "window": "` + window + `"}]}]}`)
		shared.CloseIdleConnections() // they belong to the old listener
		testenv.Same(t, window+": remaining", get(t, s.URL).header.Get("x-ratelimit-remaining"), fmt.Sprint(9-i))
	}

	reload(`{` + patient + `"rules": [{"name": "queue", "limits": [
		{"algorithm": "leaky_bucket", "overflow": "queue", "limit": 5, "window": "1s", "burst": 8}]}]}`)
	before, done := s.upstream.Count(), make(chan tally)
	go func() { done <- burst(t, 8, 8, []string{s.URL}) }()
	testenv.Wait(t, patience, func() error { return atLeast(s.upstream.Count()-before, 2, "departures") })
	reload(limitOf(1))
	expectTally(t, "those that waited in a queue", <-done, tally{http.StatusOK: 8})
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
