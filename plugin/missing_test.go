package main

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

const bySubject = `{"rules": [{"name": "per-user",
	"key": [{"metadata": ["envoy.filters.http.jwt_authn", "payload", "sub"]}],
	"limits": [{"algorithm": "gcra", "limit": 1000, "window": "1s"}]}]}`

// A filter order that cannot work is not silent: metadata that never comes is worth
// one warning, not one for each configuration.
func TestMissingMetadata(t *testing.T) {
	const want = `warn sluice: rule "per-user" does not apply without the metadata ["envoy.filters.http.jwt_authn", ` +
		`"payload", "sub"], ` +
		`which no request has had so far (does the filter that sets it stand before Sluice?)`
	eachWorld(t, func(t *testing.T, w *worker) {
		for range 2 {
			i := w.load(bySubject)
			for range 300 {
				i.get("/").End()
			}
		}
		var got []string
		for _, line := range w.logs() {
			if strings.Contains(line, "per-user") {
				got = append(got, line)
			}
		}
		if len(got) != 1 {
			t.Fatalf("%d warnings, want 1: %q", len(got), got)
		}
		if got[0] != want {
			t.Errorf("the warning is\n%s, want\n%s", got[0], want)
		}
	})
}

// Metadata that some request has is not worth a warning.
func TestMetadataThatIsThere(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(bySubject)
		for n := range 300 {
			s := i.NewStream()
			if n == 50 {
				s.Properties["metadata\x00filter_metadata\x00envoy.filters.http.jwt_authn\x00payload\x00sub"] = []byte("alice")
			}
			s.RequestHeaders(wasmhost.Request("GET", "/"), true)
			s.End()
		}
		if w.logged("per-user") {
			t.Errorf("the log is %q", w.logs())
		}
	})
}

// TestNoticesOfWorkers: what is said of a configuration stands in the log once, however many
// workers the Envoy has, and so does what they find with requests.
func TestNoticesOfWorkers(t *testing.T) {
	t.Parallel()
	const plugin = `{"redis": {"cluster": "redis", "password_env": "SLUICE_TEST_UNSET"}, "rules": [{"name": "r",
		"key": [{"header": "x-key"}, {"property": ["connection", "id"]}, {"expr": "request.path"}],
		"limits": [{"algorithm": "gcra", "limit": 1, "window": "1s"}]}]}`
	eachWorld(t, func(t *testing.T, w *worker) {
		w.startRedis()
		said := func(w *worker) string {
			i := w.load(plugin)
			for range 150 {
				i.get("/", "x-key", "k").End()
			}
			return strings.Join(w.logs(), "\n")
		}
		first, second := said(w), said(w.sibling())
		for _, text := range []string{
			"has no environment variable SLUICE_TEST_UNSET", "which no request has had so far",
		} {
			if !strings.Contains(first, text) {
				t.Errorf("the first worker logged %q, want %q", first, text)
			}
			if strings.Contains(second, text) {
				t.Errorf("another worker logged %q, too", text)
			}
		}
	})
}
