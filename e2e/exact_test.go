package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
)

// algorithms are the ones that answer at once, each with its variants. An
// anchored window could end during the test: once in 366 days.
var algorithms = map[string]string{
	"fixed_window":              `"algorithm": "fixed_window"`,
	"fixed_window_first":        `"algorithm": "fixed_window", "anchor": "first_request"`,
	"sliding_window_log":        `"algorithm": "sliding_window_log"`,
	"sliding_window_counter":    `"algorithm": "sliding_window_counter"`,
	"sliding_window_counter_60": `"algorithm": "sliding_window_counter", "sub_windows": 60`,
	"token_bucket":              `"algorithm": "token_bucket"`,
	"leaky_bucket":              `"algorithm": "leaky_bucket"`,
	"gcra":                      `"algorithm": "gcra"`,
}

// exactLimit is the limit of each rule of exactRules.
const exactLimit = 150

// exactRules is one rule for each algorithm, at the path of its name.
func exactRules() string {
	rules := ""
	for name, algorithm := range algorithms {
		if rules != "" {
			rules += ","
		}
		rules += fmt.Sprintf(`{"name": %q, "match": {"path": "/%s"}, "key": [{"header": "x-user"}],
			"limits": [{%s, "limit": %d, %s}]}`, name, name, algorithm, exactLimit, long)
	}
	return `{` + patient + `"rules": [` + rules + `]}`
}

// expectExact sends more than the limit at once from 64 clients, spread over
// Envoys, under each algorithm, and wants precisely the limit admitted.
func expectExact(t *testing.T, envoys ...*setting) {
	t.Helper()
	const excess = 106
	for name := range algorithms {
		var urls []string
		for _, e := range envoys {
			urls = append(urls, e.URL+"/"+name)
		}
		got := burst(t, exactLimit+excess, 64, urls, "x-user: u")
		expectTally(t, name, got, tally{http.StatusOK: exactLimit, http.StatusTooManyRequests: excess})
	}
}

func TestExactCountsDirect(t *testing.T) {
	t.Parallel()
	expectExact(t, start(t, exactRules(), envoytest.Options{}))
}

func TestExactCountsThroughRedisProxy(t *testing.T) {
	t.Parallel()
	expectExact(t, start(t, exactRules(), envoytest.Options{Route: envoytest.Proxy}))
}

// TestExactCountsThroughTwoEnvoys: the limit is that of both together.
func TestExactCountsThroughTwoEnvoys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	opts := envoytest.Options{Redis: []string{server.Addr}}
	expectExact(t, start(t, exactRules(), opts), start(t, exactRules(), opts))
}

// TestExactCountsWithoutRedis: the embedded store is shared by the workers.
func TestExactCountsWithoutRedis(t *testing.T) {
	t.Parallel()
	rules := `{"rules": ` + exactRules()[len(`{`+patient+`"rules": `):]
	expectExact(t, start(t, rules, envoytest.Options{Redis: []string{}}))
}
