package main

import (
	"slices"
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
			return strings.Join(w.allLogs(), "\n")
		}
		first, second := said(w), said(w.sibling())
		for _, text := range []string{
			"has no environment variable SLUICE_TEST_UNSET", "reads the path as the client wrote it",
			"the rule is skipped", "which no request has had so far",
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

// TestSkippedRules: at load, once in an Envoy, the log says of each rule whom it does not limit.
func TestSkippedRules(t *testing.T) {
	t.Parallel()
	const limits = `"limits": [{"algorithm": "gcra", "limit": 1, "window": "1s"}]`
	const plugin = `{"rules": [
		{"name": "one", "key": [{"header": "x-key"}, {"cookie": "c", "default": "none"}], ` + limits + `},
		{"name": "two", "key": [{"query": "q"}, {"expr": "request.id"}, {"metadata": ["jwt", "sub"]},
			{"property": ["connection", "id"]}, {"cookie": "c"}], ` + limits + `},
		{"name": "none", "key": [{"client_ip": true}], ` + limits + `}]}`
	const end = ` the rule is skipped: the request is not limited by it (a "default" in the key, or a rule for such ` +
		`requests, limits them)`
	want := []string{
		`info sluice: rule "one": without the header "x-key"` + end,
		`info sluice: rule "two": without the query parameter "q" or a value of its expression or the metadata ` +
			`["jwt", "sub"] or the property ["connection", "id"] or the cookie "c"` + end,
	}
	eachWorld(t, func(t *testing.T, w *worker) {
		w.load(plugin)
		w.load(plugin)
		if got := slices.DeleteFunc(w.allLogs(), func(line string) bool {
			return !aboutKeys(line)
		}); !slices.Equal(got, want) {
			t.Errorf("the log is %q, want %q", got, want)
		}
	})
}
