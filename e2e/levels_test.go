package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// reference is a rule with the limits that docs/configuration.md shows under a heading.
func reference(t *testing.T, heading, name, key string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)\n### " + heading + "\n.*?```json limits\n(.*?)```").FindSubmatch(page)
	if example == nil {
		t.Fatalf("no limits under %q", heading)
	}
	return fmt.Sprintf(`{"rules": [{"name": %q, "key": %s, "limits": %s}]}`, name, key, example[1])
}

// stored gives a configuration a Redis, and windows that do not end meanwhile.
func stored(text string) string {
	text = strings.NewReplacer(`"1m"`, `"366d"`, `"1s"`, `"366d"`).Replace(text)
	return strings.Replace(text, "{", "{"+patient+bothHeaders, 1)
}

// TestLevels: a member who is refused takes nothing from anybody, and each level holds.
func TestLevels(t *testing.T) {
	t.Parallel()
	limits := reference(t, "Levels", "by-org", `[{"header": "x-org", "default": "none"}]`)
	s := start(t, stored(limits), envoytest.Options{})
	member := func(team, user string) []string {
		return []string{"x-org: acme", "x-team: " + team, "x-user: " + user}
	}
	got := burst(t, 60, 8, []string{s.URL}, member("blue", "ann")...)
	expectTally(t, "one member", got, tally{http.StatusOK: 20, http.StatusTooManyRequests: 40})
	r := get(t, s.URL, member("blue", "bob")...)
	expectHeaders(t, r, map[string]string{"x-ratelimit-limit": "200", "x-ratelimit-remaining": "179"})
	for _, member := range []string{`"org";r=979;`, `"team";r=179;`, `"user";r=19;`} {
		if shown := r.header.Get("ratelimit"); !strings.Contains(shown, member) {
			t.Errorf("ratelimit is %s, want %s in it", shown, member)
		}
	}
	r = get(t, s.URL, "x-org: acme")
	expectHeaders(t, r, map[string]string{"x-ratelimit-limit": "1000", "x-ratelimit-remaining": "978"})
	for i := range 12 {
		burst(t, 20, 8, []string{s.URL}, member("blue", fmt.Sprint("more-", i))...)
	}
	r = get(t, s.URL, member("blue", "late")...)
	testenv.Same(t, "status beyond the team's limit", r.status, http.StatusTooManyRequests)
	if want := `"violated-policies":["team"]`; !strings.Contains(r.body, want) {
		t.Errorf("the body is %s, want %s in it", r.body, want)
	}
	r = get(t, s.URL, member("red", "ann")...)
	testenv.Same(t, "status of another team", r.status, http.StatusOK)
	keys := s.client.Keys(ctx, "rl:{by-org|acme}:*").Val()
	for _, want := range []string{
		"rl:{by-org|acme}:gcra:366d", "rl:{by-org|acme}:gcra:366d:per:team|blue",
		"rl:{by-org|acme}:gcra:366d:per:user|red|ann",
	} {
		if !strings.Contains(" "+strings.Join(keys, " ")+" ", " "+want+" ") {
			t.Errorf("the keys are %q, want %s among them", keys, want)
		}
	}
}

// awaitAdmitted waits until as many requests have reached the upstream. A request that Envoy has
// received may still wait for Redis, where one of another worker overtakes it.
func awaitAdmitted(t *testing.T, upstream *envoytest.Upstream, want int) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		if got := upstream.Count(); got != want {
			return fmt.Errorf("%d requests at the upstream, want %d", got, want)
		}
		return nil
	})
}

// TestCeilings: bulk requests stop at four fifths, critical ones at the limit.
func TestCeilings(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	upstream := envoytest.NewUpstream(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-open }))
	s := start(t, stored(cookbook(t, "Critical and bulk")), envoytest.Options{Upstream: upstream.Addr})
	var group sync.WaitGroup
	hold := func(n int, headers ...string) {
		for range n {
			group.Go(func() { get(t, s.URL, headers...) })
		}
	}
	hold(40)
	awaitAdmitted(t, upstream, 40)
	r := get(t, s.URL)
	testenv.Same(t, "status of bulk", r.status, http.StatusTooManyRequests)
	expectHeaders(t, r, map[string]string{"x-ratelimit-limit": "40", "x-ratelimit-remaining": "0"})
	hold(10, "x-priority: critical")
	awaitAdmitted(t, upstream, 50)
	r = get(t, s.URL, "x-priority: critical")
	testenv.Same(t, "status of critical", r.status, http.StatusTooManyRequests)
	expectHeaders(t, r, map[string]string{"x-ratelimit-limit": "50"})
	close(open)
	group.Wait()
}

// TestGuarantees: a flooder gets the pool, and each tenant its guarantee all the same.
func TestGuarantees(t *testing.T) {
	t.Parallel()
	s := start(t, stored(reference(t, "Guarantees", "fleet", "[]")), envoytest.Options{})
	got := burst(t, 300, 16, []string{s.URL}, "x-tenant: flooder")
	expectTally(t, "the flooder", got, tally{http.StatusOK: 200, http.StatusTooManyRequests: 100})
	for n := range 9 {
		got = burst(t, 25, 4, []string{s.URL}, fmt.Sprint("x-tenant: honest-", n))
		expectTally(t, "a tenant", got, tally{http.StatusOK: 20, http.StatusTooManyRequests: 5})
	}
	r := get(t, s.URL)
	testenv.Same(t, "status without a tenant", r.status, http.StatusTooManyRequests)
	expectHeaders(t, r, map[string]string{"ratelimit-policy": `"pool";q=200;w=6324480`})
}

// TestSlotsOfUsers: a tenant's users have slots of their own, and give them back.
func TestSlotsOfUsers(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	release := sync.OnceFunc(func() { close(open) })
	upstream := envoytest.NewUpstream(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-open }))
	t.Cleanup(release) // the upstream waits for its requests, also if the test fails
	s := start(t, stored(`{"rules": [{"name": "in-flight", "key": [{"header": "x-tenant"}], "limits": [
		{"name": "tenant", "algorithm": "concurrency", "limit": 40},
		{"name": "user", "algorithm": "concurrency", "limit": 4, "per": [{"header": "x-user"}]}]}]}`),
		envoytest.Options{Upstream: upstream.Addr})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { get(t, s.URL, "x-tenant: t", "x-user: ann") })
	}
	awaitAdmitted(t, upstream, 4)
	r := get(t, s.URL, "x-tenant: t", "x-user: ann")
	testenv.Same(t, "status of the fifth", r.status, http.StatusTooManyRequests)
	group.Go(func() { get(t, s.URL, "x-tenant: t", "x-user: bob") })
	awaitAdmitted(t, upstream, 5)
	held := func(key string) int64 { return s.client.ZCard(ctx, "rl:{in-flight|t}:concurrency"+key).Val() }
	testenv.Same(t, "slots of the tenant", held(":per:tenant|"), 0)
	testenv.Same(t, "slots of the tenant", held(""), 5)
	testenv.Same(t, "slots of ann", held(":per:user|ann"), 4)
	release()
	group.Wait()
	testenv.Wait(t, patience, func() error {
		if n := held("") + held(":per:user|ann") + held(":per:user|bob"); n != 0 {
			return fmt.Errorf("%d slots are held", n)
		}
		return nil
	})
}
