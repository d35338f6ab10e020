package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
)

// report says how clients saw a fault: a line of the log, for the tables in
// documents.
type report struct {
	mode      string // of failure
	requests  int
	failed    int // had no answer, or one that the mode does not give
	undecided int // by Redis but by the mode, as it may be; with those that the test itself sent
	worst     time.Duration
	// from the end of the fault until Redis decided in every mode; 0: there was nothing to recover from
	recovered time.Duration
}

func (r report) log(t testing.TB) {
	t.Helper()
	after := "at once"
	if r.recovered > 0 {
		after = "after " + r.recovered.Round(time.Millisecond).String()
	}
	t.Logf("fault: %s | mode %s | requests %d | failed %d | undecided %d | worst %v | decided again %s",
		strings.TrimPrefix(t.Name(), "Test"), r.mode, r.requests, r.failed, r.undecided,
		r.worst.Round(time.Millisecond), after)
}

// reportLogged reports a fault whose requests, as many as given, are in Envoy's
// access log. The mode is "deny".
func reportLogged(t testing.TB, e *envoytest.Envoy, requests int) {
	t.Helper()
	r := report{mode: "deny"}
	for _, entry := range e.LoggedAll(requests) {
		r.requests++
		r.worst = max(r.worst, time.Duration(entry.Millis)*time.Millisecond)
		switch {
		case strings.HasPrefix(entry.State, "failed:"):
			r.undecided++
		case entry.Status == http.StatusServiceUnavailable:
			r.failed++
		}
	}
	r.log(t)
}
