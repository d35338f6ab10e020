package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestStandstill: Envoy stands still again and again for longer than the timeout,
// while Redis answers as ever. No check fails for that.
func TestStandstill(t *testing.T) {
	t.Parallel()
	s := start(t, `{"redis": {"cluster": "redis", "timeout": "500ms"},
		"failure": {"mode": "deny", "breaker": {"failures": 1}}, "rules": [
		{"name": "r", "limits": [{"algorithm": "gcra", "limit": 1000000, "window": "1d"}]}]}`, envoytest.Options{})
	clients := startLoad(t, 16, s.URL)
	clients.await(100, http.StatusOK)
	signal := func(sig syscall.Signal) {
		testenv.OK(t, syscall.Kill(s.PID(), sig))
	}
	for range 5 {
		signal(syscall.SIGSTOP)
		time.Sleep(time.Second)
		signal(syscall.SIGCONT)
		clients.await(20, http.StatusOK)
	}
	answers := clients.stop()
	if n := answers[http.StatusServiceUnavailable]; n > 0 {
		t.Errorf("%d of %d requests were not decided", n, clients.count())
	}
	if strings.Contains(s.Log(), "redis does not decide") {
		t.Error("the breaker opened")
	}
}
