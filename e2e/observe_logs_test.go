package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/promtest"
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
	for _, n := range s.answers {
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
	testenv.Within(t, fmt.Sprintf("the number of lines for %d requests", requests), events, 2, requests/20)
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

// accessLog: the document's access log, and its filter.
var accessLog = func() plain {
	var path string
	return plain{
		name: "access log",
		config: `{"rules": [
			{"name": "health", "match": {"path": "/healthz"}, "exempt": true},
			{"name": "per-key", "key": [{"header": "x-api-key"}], "limits": [{` + ever + `, "limit": 5}]}]}`,
		edit: func(t *testing.T, c *envoyconf.Config, _ string) {
			path = filepath.Join(t.TempDir(), "access.log")
			yaml := blocks(t, document, "", "yaml")
			indent := func(text, by string) string {
				return regexp.MustCompile("(?m)^").ReplaceAllString(strings.TrimSpace(text), by) + "\n"
			}
			logger := func(path, filter string) any {
				return c.Fragment("name: envoy.access_loggers.file\n" + filter + `typed_config:
  "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
  path: ` + path + "\n" + indent(yaml[0], "  "))
			}
			c.Set(envoyconf.ConnectionManager+"/access_log",
				[]any{logger(path, ""), logger(path+".rejected", indent(yaml[1], ""))})
		},
		play: func(t *testing.T, s *setting) {
			for range 6 {
				get(t, s.URL+"/api/orders", "x-api-key: alice")
			}
			get(t, s.URL+"/healthz")
			const rejected = "/api/orders 429 limited:per-key limited:per-key\n"
			for path, want := range map[string]string{
				path: strings.Repeat("/api/orders 200 allowed via_upstream\n", 5) + rejected +
					"/healthz 200 exempt:health via_upstream\n",
				path + ".rejected": rejected,
			} {
				testenv.Wait(t, patience, func() error {
					text, err := os.ReadFile(path)
					got := ""
					for line := range strings.Lines(string(text)) {
						var entry struct {
							Path, Sluice, Details string
							Status                int
						}
						err = errors.Join(err, json.Unmarshal([]byte(line), &entry))
						got += fmt.Sprintln(entry.Path, entry.Status, entry.Sluice, entry.Details)
					}
					if err == nil && got != want {
						err = fmt.Errorf("%s has\n%swant\n%s", path, got, want)
					}
					return err
				})
			}
		},
	}
}()
