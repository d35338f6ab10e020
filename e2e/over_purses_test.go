package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// purse is a rule that others charge, of the paths below a prefix.
func purse(name, path string, limit int, window string) string {
	return fmt.Sprintf(`{"name": %q, "only": "over", "match": {"path": {"prefix": %q}},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": %d, "window": %q}]}`,
		name, path, limit, window)
}

// overs is a rule that charges a purse.
func overs(name, path, charge string, limit int, window string) string {
	return fmt.Sprintf(`{"name": %q, "match": {"path": {"prefix": %q}}, "over": {"charge": %q},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": %d, "window": %q}]}`,
		name, path, charge, limit, window)
}

const limitedStatus = http.StatusTooManyRequests

// purseScenarios are requests that several purses are asked about.
var purseScenarios = []scenario{
	{ // its place in the list, and an exempt rule before it, make no difference
		name: "once",
		rules: overs("once", "/once", "once-purse", 0, "1d") + "," + overs("once-again", "/once", "once-purse", 0, "1d") +
			`, {"name": "once-exempt", "match": {"path": {"prefix": "/once"}}, "exempt": true},` +
			purse("once-purse", "/once", 2, "1d"),
		steps: []step{
			{want: want{Outcome: "over:once"}},
			{want: want{Outcome: "over:once"}},
			{want: want{Status: limitedStatus, Outcome: "limited:once-purse"}},
		},
	},
	{ // what one has paid is given back if the other does not pay
		name: "two",
		rules: overs("two", "/two", "two-rich", 0, "1d") + "," + overs("two-b", "/two/b", "two-poor", 0, "1d") + "," +
			purse("two-rich", "/two", 2, "1d") + "," + purse("two-poor", "/two", 1, "1d"),
		steps: []step{
			{request: request{path: "/b"}, want: want{Outcome: "over:two"}},
			{request: request{path: "/b"}, want: want{Status: limitedStatus, Outcome: "limited:two-poor"}},
			{want: want{Outcome: "over:two"}},
			{want: want{Status: limitedStatus, Outcome: "limited:two-rich"}},
		},
	},
	{ // each rule waits for the sooner of the two, and the request for the slowest rule
		name: "wait",
		rules: overs("wait", "/wait", "wait-soon", 1, "100d") + "," + overs("wait-b", "/wait", "wait-late", 1, "80d") + "," +
			purse("wait-soon", "/wait", 1, "50d") + "," + purse("wait-late", "/wait", 1, "90d"),
		steps: []step{
			{want: want{Outcome: "allowed"}},
			{want: want{Outcome: "over:wait"}},
			{want: want{
				Status: limitedStatus, Outcome: "limited:wait-soon", RetryAfter: fmt.Sprint(80 * 24 * 3600),
				Policy: `"wait";q=1;w=8640000, "wait-b";q=1;w=6912000, "wait-soon";q=1;w=4320000, "wait-late";q=1;w=7776000`,
			}},
		},
	},
	{ // nor where its match does not hold; its cost is that of the request
		name: "match",
		rules: overs("match", "/match", "match-purse", 0, "1d") + `, {"name": "match-purse", "only": "over",
			"match": {"path": {"prefix": "/match/rich"}}, "cost": {"header": "x-cost", "default": 1},
			"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 5, "window": "1d"}]}`,
		steps: []step{
			{want: want{Status: limitedStatus, Outcome: "limited:match"}},
			{request: request{path: "/rich"}, want: want{
				Outcome: "over:match", RateLimit: `"match";r=0;t=0, "match-purse";r=4;t=86400`,
			}},
			{request: request{path: "/rich", headers: []string{"x-cost: 5"}}, want: want{
				Status: limitedStatus, Outcome: "limited:match-purse",
			}},
			{request: request{path: "/rich", headers: []string{"x-cost: 4"}}, want: want{Outcome: "over:match"}},
		},
	},
	{ // without its key a purse is not asked
		name: "nobody",
		rules: overs("nobody", "/nobody", "nobody-purse", 0, "1d") + `, {"name": "nobody-purse", "only": "over",
			"key": [{"header": "x-user"}],
			"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1d"}]}`,
		steps: []step{
			{want: want{Status: limitedStatus, Outcome: "limited:nobody"}},
			{request: request{headers: []string{"x-user: a"}}, want: want{Outcome: "over:nobody"}},
		},
	},
}

// TestPurses: what becomes of requests that are over several rules.
func TestPurses(t *testing.T) {
	t.Parallel()
	runScenarios(t, `"headers": ["x-ratelimit", "draft"], `, envoytest.Options{}, purseScenarios)
}

// TestOverBesideOthers: a block is a 429, an override changes the limit that a request is over, and
// in shadow nothing is set.
func TestOverBesideOthers(t *testing.T) {
	t.Parallel()
	const rule = `"rules": [{"name": "quota", "key": [{"header": "x-user"}], "overrides": true,
		"over": {"set_headers": {"x-quota": "over"}},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1d"}]}]}`
	s := start(t, `{`+patient+rule, envoytest.Options{
		Edit: economy, Beside: map[string]string{"shadow": `{"mode": "shadow", ` + strings.Replace(patient, `"redis": {`,
			`"redis": {"key_prefix": "shadow", `, 1) + rule},
	})
	for _, tc := range []struct {
		override string
		statuses []int
		outcome  string // of the last request
	}{
		{"", []int{200, economyStatus, economyStatus}, "over:quota"},
		{"limits:quota=2", []int{200, 200, economyStatus}, "over:quota"},
		{"block", []int{429, 429}, "blocked:quota"},
		{"free", []int{200, 200}, "allowed"},
	} {
		user := "u" + tc.override
		if tc.override != "" {
			if err := s.client.Set(ctx, "rl:{quota|"+user+"}:override", tc.override, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		logged := len(s.LoggedAll(0))
		for i, status := range tc.statuses {
			what := fmt.Sprintf("%q, request %d: status", tc.override, i)
			testenv.Same(t, what, get(t, s.URL, "x-user: "+user).status, status)
		}
		last := len(tc.statuses) - 1
		testenv.Same(t, tc.override+": the outcome", s.LoggedAll(logged + last + 1)[logged+last].State, tc.outcome)
	}
	logged := len(s.LoggedAll(0))
	for range 2 {
		testenv.Same(t, "in shadow: status", get(t, s.Beside["shadow"], "x-user: u").status, http.StatusOK)
	}
	testenv.Same(t, "in shadow: the outcome", s.LoggedAll(logged + 2)[logged+1].State, "shadow:quota")
}

// TestPurseWhileRedisIsAway: a purse that Redis does not decide leaves the rejection as it is, whatever
// the rule's failure mode is, and where the embedded store has rejected, it is asked for the purse.
func TestPurseWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	var rules []string
	for _, mode := range []string{"allow", "deny", "local"} {
		never := strings.Replace(overs(mode, "/"+mode, "credits", 0, "1d"), "{", `{"failure": "`+mode+`", `, 1)
		rules = append(rules, never)
	}
	rules = append(rules, strings.Replace(overs("store", "/store", "credits", 1, "1d"), "{", `{"failure": "local", `, 1),
		purse("credits", "/", 2, "1d"))
	s := start(t, `{"redis": {"cluster": "redis", "timeout": "2s"}, "rules": [`+strings.Join(rules, ",")+`]}`,
		envoytest.Options{Workers: 1})
	get(t, s.URL+"/other") // Envoy is up, and Redis not asked
	s.LoggedAll(1)         // the log has it, so that each later entry is the next
	s.redis.Kill()
	for _, tc := range []struct {
		path    string
		status  int
		outcome string
	}{
		{"/allow", limitedStatus, "limited:allow"},
		{"/deny", limitedStatus, "limited:deny"},
		{"/local", limitedStatus, "limited:local"},
		{"/store", http.StatusOK, "local:allowed"},
		{"/store", http.StatusOK, "over:store"},
		{"/store", http.StatusOK, "over:store"},
		{"/store", limitedStatus, "local:limited:credits"},
	} {
		logged := len(s.LoggedAll(0))
		testenv.Same(t, tc.path+": status", get(t, s.URL+tc.path).status, tc.status)
		testenv.Same(t, tc.path+": the outcome", s.LoggedAll(logged + 1)[logged].State, tc.outcome)
	}
}
