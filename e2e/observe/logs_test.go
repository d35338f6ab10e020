package observe

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// logLine is a line of the plugin's log, as docs/observability.md lists it.
var logLine = regexp.MustCompile(`\[info\]\[wasm\].* wasm log(?: sluice)+: \{"event":"top_offenders",.*\}$` +
	`|\[info\]\[wasm\].* wasm log(?: sluice)+: sluice: version dev$` +
	`|\[warning\]\[wasm\].* wasm log(?: sluice)+: sluice: redis "\w+" (?:has evicted \d+ keys in \d+s: |uses \d+ % of ` +
	`its maxmemory ).*\(.*logged at most once an hour\)$` +
	`|\[info\]\[wasm\].* wasm log(?: sluice)+: sluice: redis "\w+" answers(?:: .*)?$` +
	`|\[info\]\[wasm\].* wasm log(?: sluice)+: sluice: redis is back: it decides again$` +
	`|\[warning\]\[wasm\].* wasm log(?: sluice)+: sluice: the override of "\w+\|\w+" is not valid and is ignored \(want ` +
	`block, free, a factor .*\)$` +
	`|\[warning\]\[wasm\].* wasm log(?: sluice)+: sluice: redis "\w+" did not decide a request: \w+: .*\(logged at most ` +
	`once a minute\)$` +
	`|\[warning\]\[wasm\].* wasm log(?: sluice)+: sluice: redis "\w+" cannot be used: \w+: .*; the failure mode applies$` +
	`|\[warning\]\[wasm\].* wasm log(?: sluice)+: sluice: redis does not decide: \w+: .*; the failure mode applies, ` +
	`next probe in \d+ms$`)

// log expects one line for each event and none for a request, each of a kind that
// is documented, and in none of them an identity that is to be hashed.
func (s *scene) log(t *testing.T) {
	requests := 0
	for _, n := range s.client.answers {
		requests += n
	}
	events := 0
	for line := range strings.Lines(s.Log()) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.Contains(line, "wasm log") {
			continue
		}
		if !logLine.MatchString(line) {
			t.Errorf("an unknown line: %s", line)
		}
		if !strings.Contains(line, "top_offenders") {
			events++
		}
	}
	if events < 2 || events > requests/20 {
		t.Errorf("%d lines for %d requests", events, requests)
	}
	testenv.Wait(t, promtest.Limit, func() error {
		sum := sha256.Sum256([]byte(hammer))
		if hash := hex.EncodeToString(sum[:])[:40]; !strings.Contains(s.Log(), `"identity":"`+hash+`"`) {
			return fmt.Errorf("the top offender is not in the log, %s", hash)
		}
		return nil
	})
	if strings.Contains(s.Log(), hammer) {
		t.Errorf("%q was logged, which is to be hashed", hammer)
	}
}

// TestAccessLog loads the document's access log, and its filter, into Envoy.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	yaml := blocks(t, "yaml")
	logFormat, filter := yaml[0], yaml[1]
	path := filepath.Join(t.TempDir(), "access.log")
	logger := func(path, filter string) string {
		return "- name: envoy.access_loggers.file\n" + filter + `  typed_config:
    "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
    path: ` + path + "\n" + regexp.MustCompile("(?m)^").ReplaceAllString(strings.TrimSpace(logFormat), "    ") + "\n"
	}
	indented := regexp.MustCompile("(?m)^").ReplaceAllString(strings.TrimSpace(filter), "  ") + "\n"
	loggers := logger(path, "") + logger(path+".rejected", indented)
	e := envoytest.Start(t, envoytest.Options{
		Plugin: `{"redis": {"cluster": "redis", "timeout": "10s"}, "rules": [
			{"name": "health", "match": {"path": "/healthz"}, "exempt": true},
			{"name": "per-key", "key": [{"header": "x-api-key"}], "limits": [{` + ever + `, "limit": 5}]}]}`,
		Redis:    []string{redistest.Start(t).Addr},
		Upstream: envoytest.NewUpstream(t, nil).Addr,
		Edit: func(c *envoyconf.Config) {
			c.Set(envoyconf.ConnectionManager+"/access_log", c.Fragment(loggers))
		},
	})
	client := newClient(t)
	for range 6 {
		client.get(e.URL+"/api/orders", "x-api-key", "alice")
	}
	client.get(e.URL + "/healthz")
	want := strings.Repeat("/api/orders 200 allowed via_upstream\n",
		5) + "/api/orders 429 limited:per-key limited:per-key\n/healthz 200 exempt:health via_upstream\n"
	expectLog(t, path, want)
	expectLog(t, path+".rejected", "/api/orders 429 limited:per-key limited:per-key\n")
}

// expectLog waits for an access log to be as wanted: path, status, outcome and
// response code details of each request.
func expectLog(t *testing.T, path, want string) {
	t.Helper()
	testenv.Wait(t, promtest.Limit, func() error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		var got strings.Builder
		for lines := bufio.NewScanner(file); lines.Scan(); {
			var entry struct {
				Path, Sluice, Details string
				Status                int
			}
			if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
				return fmt.Errorf("%s: %w", lines.Text(), err)
			}
			fmt.Fprintln(&got, entry.Path, entry.Status, entry.Sluice, entry.Details)
		}
		if got.String() != want {
			return fmt.Errorf("%s has\n%swant\n%s", path, got.String(), want)
		}
		return nil
	})
}
