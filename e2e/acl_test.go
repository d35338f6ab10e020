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

// documentedACL holds the rights that docs/operations.md says a Redis user needs: the
// commands one by one, and the shorter form.
// https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/
func documentedACL(t testing.TB) (exact, short []string) {
	t.Helper()
	text := testenv.File(t, "docs/operations.md")
	m := regexp.MustCompile("(?m)^\\| ACL \\| `([^`]+)` \\| [^`]*`([^`]+)`").FindSubmatch(text)
	if m == nil {
		t.Fatal("docs/operations.md does not say what a Redis user needs")
	}
	return strings.Fields(string(m[1])), strings.Fields(string(m[2]))
}

// restricted is an Envoy whose Redis grants it some rights only, which can be
// changed.
type restricted struct {
	*setting

	t     *testing.T
	admin *redis.Client
	users int
}

// do runs a command with all rights.
func (r *restricted) do(command string) {
	r.t.Helper()
	testenv.OK(r.t, r.admin.Do(ctx, words(command)...).Err())
}

// exercise makes the plugin send, on a new connection to a Redis that has no
// script, everything that it ever sends, and returns how many requests had which
// status. The last reply comes after those of refunds, for which no request waits.
func (r *restricted) exercise() tally {
	r.t.Helper()
	r.do("SCRIPT FLUSH")
	r.do("CLIENT KILL USER sluice")
	got := tally{}
	ask := func(n int, url string, headers ...string) {
		for range n {
			got[get(r.t, fmt.Sprintf("%s?u=%d", url, r.users), headers...).status]++
		}
	}
	for name := range algorithms {
		r.users++
		ask(2, r.URL+"/"+name)
		ask(1, r.URL+"/"+name, "x-full: 1") // one of three is given back
		ask(4, r.URL+"/"+name)              // the last is rejected
		r.users++
		ask(1, r.URL+"/"+name, "x-full: 1") // one of one is given back
	}
	ask(2, r.URL+"/watched") // the second earns a block,
	ask(1, r.URL+"/watched") // which rejects the third
	r.users++
	r.do(fmt.Sprintf("SET rl:{watched|%d}:override block EX 60", r.users))
	ask(1, r.URL+"/watched")
	ask(1, r.URL+"/slots")
	ask(8, r.URL+"/burst")
	ask(1, r.Beside["small"]+"/burst")
	ask(15, r.URL+"/lease")
	ask(3, r.URL+"/queue")
	return got
}

// refused lists the commands that Redis has denied the plugin, such as "command set".
// https://redis.io/docs/latest/commands/acl-log/
func (r *restricted) refused() (list []string) {
	r.t.Helper()
	entries, err := r.admin.ACLLog(ctx, 100).Result()
	testenv.OK(r.t, err)
	for _, entry := range entries {
		list = append(list, strings.ToLower(entry.Reason+" "+entry.Object))
	}
	return list
}

// expectGranted wants everything to be decided, and nothing refused.
func (r *restricted) expectGranted() {
	r.t.Helper()
	r.do("ACL LOG RESET")
	got := r.exercise()
	// two by "full", one by its own limit; one by the smaller burst; three of "watched"
	rejected := 3*len(algorithms) + 1 + 3
	if got[http.StatusTooManyRequests] != rejected || got[http.StatusServiceUnavailable] != 0 {
		r.t.Errorf("%v; want %d of status 429, none of 503", got, rejected)
	}
	if refused := r.refused(); len(refused) > 0 {
		r.t.Errorf("Redis refused %q", refused)
	}
}

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
	exact, short := documentedACL(t)
	// A rule of two limits for each algorithm, a queue and a lease, and the listener "small", where the rule
	// "burst" has a smaller one. The rule "full" makes all that others have charged be given back.
	plugin := func(burst int) string {
		rules := `{"name": "full", "match": {"headers": {"x-full": {"present": true}}}, ` +
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
	r := &restricted{t: t, admin: redis.NewClient(&redis.Options{
		Addr: server.Addr, Password: "admin",
		DB: 3, Protocol: 2,
	})}
	t.Cleanup(func() { r.admin.Close() })
	r.setting = start(t, plugin(50), envoytest.Options{
		Redis: []string{server.Addr}, Workers: 1, Beside: map[string]string{"small": plugin(1)},
	})
	get(t, r.URL, "x-full: 1") // from now on it is full
	for _, rights := range [][]string{short, documentedUser(t, "sluice"), exact} {
		r.do("ACL SETUSER sluice reset on >" + password + " " + strings.Join(rights, " "))
		r.expectGranted()
	}
	for _, right := range exact {
		command, ok := strings.CutPrefix(right, "+")
		seldom := command == "info" || slices.Contains(rare, command) // INFO is asked every 30 s at most
		if !ok || seldom {
			continue
		}
		r.do("ACL SETUSER sluice -" + command)
		r.do("ACL LOG RESET")
		got := r.exercise()
		// What gives slots back leaves in its own time.
		testenv.Wait(t, patience, func() error {
			if refused := r.refused(); !slices.Contains(refused, "command "+command) {
				return fmt.Errorf("without %s: %v, refused %q; it is not needed", command, got, refused)
			}
			return nil
		})
		r.do("ACL SETUSER sluice " + right)
		awaitStatus(t, r.setting, "/burst?u=again-"+command, http.StatusOK) // the breaker may be open
	}
	r.expectGranted()
}
