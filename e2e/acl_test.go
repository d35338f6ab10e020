package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// aclOf are the rights that docs/operations.md gives a user of Redis, as the group of a pattern.
// https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/
func aclOf(t testing.TB, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindSubmatch(testenv.File(t, "docs/operations.md"))
	if m == nil {
		t.Fatalf("docs/operations.md does not say what a Redis user needs: it has nothing like %s", pattern)
	}
	return string(m[1])
}

// Where the document has the rights that the plugin needs: with the commands one by one, and in short.
const (
	exactACL = "(?m)^\\| ACL \\| `([^`]+)`"
	shortACL = "(?m)^\\| ACL \\| `[^`]+` \\| [^`]*`([^`]+)`"
)

// rare are the commands that the traffic of these tests does not need: a log that has
// much to drop counts and drops it.
var rare = []string{"zcard", "zremrangebyscore"}

// TestRareCommands: scripts do call them.
func TestRareCommands(t *testing.T) {
	t.Parallel()
	plan, err := algo.NewPlan([]algo.Limit{{Algorithm: algo.SlidingWindowLog, Units: 5, WindowMicros: 1e6}})
	testenv.OK(t, err)
	sources := plan.Script().Source + plan.RefundScript().Source
	for _, command := range rare {
		if !strings.Contains(sources, "'"+strings.ToUpper(command)+"'") {
			t.Errorf("no script calls %s: the ACL need not have it", command)
		}
	}
}

// TestDocumentedACL: whatever the plugin sends is allowed to a Redis user with the rights that the document
// names, at length, in short, and those who cannot write overrides. Without any one of the commands the
// plugin asks for it in vain.
func TestDocumentedACL(t *testing.T) {
	t.Parallel()
	// A rule of two limits for each algorithm, a queue and a lease, and the listener "small", where the rule
	// "burst" has a smaller one. The rule "full" makes all that others have charged be given back.
	plugin := func(burst int) string {
		rules := `{"name": "full", "match": {"query": {"full": "1"}}, ` +
			`"limits": [{"algorithm": "gcra", "limit": 1, ` + long + `}]}`
		rule := func(name, limit, more string) {
			rules += fmt.Sprintf(`, {"name": %q, "match": {"path": "/%s"}, "key": [{"query": "u"}], "limits": [{%s}%s]}`,
				name, name, limit, more)
		}
		for name, algorithm := range algorithms {
			rule(name, algorithm+`, "limit": 5, `+long, `, {"algorithm": "gcra", "limit": 60, "window": "300d"}`)
		}
		rule("burst", fmt.Sprintf(`"algorithm": "gcra", "limit": 5, "burst": %d, `, burst)+long, "")
		rule("queue", `"algorithm": "leaky_bucket", "overflow": "queue", "limit": 1000, "window": "1s", "burst": 20`, "")
		rule("slots", `"algorithm": "concurrency", "limit": 5, "cost": 2`, "")
		rule("lease", `"algorithm": "token_bucket", "limit": 100, `+long+`, "lease": {"units": 10, "ttl": "1s"}`, "")
		rules += `, {"name": "watched", "match": {"path": "/watched"}, "key": [{"query": "u"}], ` +
			`"limits": [{"algorithm": "gcra", "limit": 1, ` + long + `}],
			"overrides": true, "penalty": {"after": 1, "within": "1s", "for": ["1m"]}}`
		return `{"redis": {"cluster": "redis", "timeout": "10s", "username": "sluice", "password": "` +
			password + `", "database": 3},
			"failure": {"mode": "deny", "breaker": {"failures": 1000000, "max_open": "100ms"}}, "deny_cache": {"size": 0},
				"rules": [` + rules + `]}`
	}
	server, _ := redistest.StartWithUser(t, documentedRights, password)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr, Password: "admin", DB: 3, Protocol: 2})
	t.Cleanup(func() { admin.Close() })
	s := start(t, plugin(50), envoytest.Options{
		Redis: []string{server.Addr}, Workers: 1, Beside: map[string]string{"small": plugin(1)},
	})
	get(t, s.URL+"/?full=1") // from now on it is full
	exact := aclOf(t, exactACL)
	type step struct{ rights, without string } // without a command, "" for none
	steps := []step{{aclOf(t, shortACL), ""}, {aclOf(t, "ACL SETUSER sluice on >PASSWORD (.*)"), ""}, {exact, ""}}
	for _, right := range strings.Fields(exact) {
		command, ok := strings.CutPrefix(right, "+")
		if ok && command != "info" && !slices.Contains(rare, command) { // INFO is asked every 30 s at most
			steps = append(steps, step{exact + " -" + command, command})
		}
	}
	for i, step := range append(steps, step{exact, ""}) {
		// On a new connection to a Redis that has no script, the plugin sends everything that it ever sends.
		for _, command := range []string{
			"ACL SETUSER sluice reset on >" + password + " " + step.rights, "ACL LOG RESET", "SCRIPT FLUSH",
			"CLIENT KILL USER sluice", fmt.Sprintf("SET rl:{watched|%d-blocked}:override block EX 60", i),
		} {
			testenv.OK(t, admin.Do(ctx, words(command)...).Err())
		}
		type ask struct {
			n   int
			url string
		}
		var asks []ask
		user := fmt.Sprint("?u=", i)
		for name := range algorithms {
			url := s.URL + "/" + name + user
			asks = append(asks, ask{2, url},
				ask{1, url + "&full=1"},       // one of three is given back
				ask{4, url},                   // the last is rejected
				ask{1, url + "-other&full=1"}) // one of one is given back
		}
		watched := s.URL + "/watched" + user // the second request earns a block, which rejects the third
		asks = append(asks, ask{3, watched}, ask{1, watched + "-blocked"}, ask{1, s.URL + "/slots" + user},
			ask{8, s.URL + "/burst" + user}, ask{1, s.Beside["small"] + "/burst" + user}, ask{15, s.URL + "/lease" + user},
			ask{3, s.URL + "/queue" + user}) // whose replies come after those of refunds, for which no request waits
		got := tally{}
		for _, a := range asks {
			for range a.n {
				got[get(t, a.url).status]++
			}
		}
		// Without a right, what gives slots back asks in vain in its own time.
		testenv.Wait(t, patience, func() error { // https://redis.io/docs/latest/commands/acl-log/
			var refused []string
			entries, err := admin.ACLLog(ctx, 100).Result()
			for _, entry := range entries {
				refused = append(refused, strings.ToLower(entry.Reason+" "+entry.Object))
			}
			in := slices.Contains(refused, "command "+step.without)
			if want := step.without != ""; in != want || len(refused) > 0 != want {
				err = fmt.Errorf("without %q: %v, refused %q (%v)", step.without, got, refused, err)
			}
			return err
		})
		if step.without != "" {
			testenv.OK(t, admin.Do(ctx, words("ACL SETUSER sluice +"+step.without)...).Err())
			awaitStatus(t, s, "/burst?u=again-"+step.without, http.StatusOK) // the breaker may be open
			continue
		}
		// two by "full", one by its own limit; one by the smaller burst; three of "watched"
		rejected := 3*len(algorithms) + 1 + 3
		if got[http.StatusTooManyRequests] != rejected || got[http.StatusServiceUnavailable] != 0 {
			t.Errorf("%v; want %d of status 429, none of 503", got, rejected)
		}
	}
}
