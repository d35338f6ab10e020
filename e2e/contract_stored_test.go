package e2e

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
)

// TestEachAlgorithmHasItsKey: one key for each limit, named as design says, that
// expires.
func TestEachAlgorithmHasItsKey(t *testing.T) {
	t.Parallel()
	s := start(t, `{"redis": {"cluster": "redis", "key_prefix": "my", "timeout": "10s"},
		"rules": [{"name": "r", "key": [], "limits": [
		{"algorithm": "fixed_window", "limit": 100, "window": "90s"},
		{"algorithm": "sliding_window_log", "limit": 100, "window": "1500ms"},
		{"algorithm": "sliding_window_counter", "limit": 100, "window": "120s"},
		{"algorithm": "token_bucket", "limit": 100, "window": "24h"},
		{"algorithm": "leaky_bucket", "limit": 100, "window": "3600s"},
		{"algorithm": "gcra", "limit": 100, "window": "60s"}]}]}`, envoytest.Options{})
	get(t, s.URL)
	want := []string{
		"my:{r|}:fixed_window:1m30s", "my:{r|}:gcra:1m", "my:{r|}:leaky_bucket:1h",
		"my:{r|}:sliding_window_counter:2m", "my:{r|}:sliding_window_log:1s500ms", "my:{r|}:token_bucket:1d",
	}
	got := s.keys(t)
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("keys\n%q, want\n%q", got, want)
	}
	for _, key := range got {
		if left, err := s.client.PTTL(ctx, key).Result(); err != nil || left <= 0 {
			t.Errorf("%s lives for %v, %v; want it to expire", key, left, err)
		}
	}
}

// TestSecretsAreNotStored: of a hashed component nothing is in Redis or a log.
func TestSecretsAreNotStored(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	s := start(t, `{`+patient+`"rules": [{"name": "r", "key": [{"header": "x-api-key", "hash": true}],
		"limits": [{"algorithm": "sliding_window_log", "limit": 1, "window": "1h"}]}]}`, envoytest.Options{})
	for range 3 {
		get(t, s.URL, "x-api-key: "+secret)
	}
	text := s.snapshot(t)
	if !strings.Contains(text, "rl:{r|") {
		t.Errorf("Redis holds %q, without a key of the rule: this test shows nothing", text)
	}
	if strings.Contains(text, secret) {
		t.Errorf("Redis holds %q, with the secret", text)
	}
	if strings.Contains(s.Log(), secret) {
		t.Error("the log has the secret")
	}
}
