package rule

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestApplyInOrder(t *testing.T) {
	t.Parallel()
	set := compile(t, `"name": "off", "mode": "off"`, `"name": "first"`,
		`"name": "health", "exempt": true, "match": {"path": {"prefix": "/healthz"}}`,
		`"name": "by-key", "key": [{"header": "x-api-key"}]`, `"name": "shadow", "mode": "shadow"`, `"name": "last"`)
	for _, tt := range []struct {
		name   string
		req    *request
		want   []string
		exempt string
	}{
		{"all", get("/", "x-api-key", "k"), []string{"first|", "by-key|k", "shadow|", "last|"}, ""},
		{"no key", get("/"), []string{"first|", "shadow|", "last|"}, ""},
		{"exempt", get("/healthz/live", "x-api-key", "k"), []string{"first|"}, "health"},
	} {
		var m Matcher
		applied, exempt, _ := set.Apply(tt.req, &m)
		var got []string
		for _, a := range applied {
			got = append(got, string(a.Tag))
			what := tt.name + ": " + a.Rule.Name
			testenv.Same(t, what+": the cost", a.Cost, 1)
			testenv.Same(t, what+": the rule of its limits", a.Limits.Rule, a.Rule)
			testenv.Same(t, what+": the rule at its index", set.Rules[a.Rule.ID], a.Rule)
			testenv.Same(t, what+": the limits at their index", set.LimitSets[a.Limits.ID], a.Limits)
			testenv.Same(t, what+": that it is a shadow rule", !a.Rule.Enforced, a.Rule.Name == "shadow")
		}
		name := ""
		if exempt != nil {
			name = exempt.Name
		}
		if !reflect.DeepEqual(got, tt.want) || name != tt.exempt {
			t.Errorf("%s: applied %q and exempt %q, want %q and %q", tt.name, got, name, tt.want, tt.exempt)
		}
	}
	for _, r := range set.Rules {
		if strings.HasPrefix(r.Name, "off") {
			t.Errorf("rule %s is off and compiled", r.Name)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	l := compile(t, `"limits": [{"algorithm": "gcra", "limit": 10, "burst": 20, "window": "1s"},
		{"algorithm": "sliding_window_counter", "limit": 1000, "window": "1h"}]`).LimitSets[0]
	if want := []string{":gcra:1s", ":sliding_window_counter:1h"}; !reflect.DeepEqual(l.KeySuffixes, want) {
		t.Errorf("suffixes are %q, want %q", l.KeySuffixes, want)
	}
	if got := l.Labels[0]; got.Name != "r-1s" || got.Capacity != 20 {
		t.Errorf("first policy is %+v", got)
	}
	if got := l.Labels[1]; got.Name != "r-1h" || got.Capacity != 1000 {
		t.Errorf("second policy is %+v", got)
	}
	if got := l.Plan.Limits(); len(got) != 2 || got[1].Algorithm != algo.SlidingWindowCounter {
		t.Errorf("policy is of %+v", got)
	}
}

// everyKey has a component of each source, and of some two.
const everyKey = `"key": [{"header": "x-api-key", "hash": true}, {"cookie": "sid", "hash": false},
	{"cookie": "theme", "hash": false}, {"query": "user"}, {"client_ip": {"v4_prefix": 24, "v6_prefix": 64}},
	{"path": true}, {"path": {"segments": 1}}, {"method": true}, {"host": true}, {"metadata": ["jwt", "sub"]},
	{"property": ["connection", "id"]}, {"constant": "c"}, {"header": "x-none", "default": "d"}]`

// readEverything are rules that need each source more than once.
var readEverything = []string{
	`"name": "first", "match": {"path": {"prefix": "/api"}, "host": "api.example.com", "methods": ["GET"],
		"headers": {"x-api-key": {"present": true}, "x-none": {"present": false}}}, ` + everyKey,
	`"name": "second", "match": {"path": {"regex": "^/(api|v[0-9]+)/[a-z]+$"}, "not": {"host": {"suffix": ".org"}}},
		"cost": {"header": "x-cost", "default": 1, "max": 10}, ` + everyKey,
	`"name": "third", ` + tieredBy(`{"metadata": ["jwt", "plan"]}`, "", "free") + `, ` + everyKey,
}

func everything() *request {
	return get("/x/../api/a?user=u%20v", "x-api-key", "secret", "cookie", `sid="a%20b"; theme=dark`, "x-cost", "7",
		"source.address", "[2001:db8::1]:443",
		"metadata.filter_metadata.jwt.sub", "alice",
		"metadata.filter_metadata.jwt.plan", testenv.Doubles(-7),
		"connection.id", "\x2a\x00\x00\x00\x00\x00\x00\x00")
}

func TestEachThingIsReadOnce(t *testing.T) {
	t.Parallel()
	req := everything()
	req.reads = map[string]int{}
	var m Matcher
	if applied, _, _ := compile(t, readEverything...).Apply(req, &m); len(applied) != 3 {
		t.Fatalf("%d rules apply, want 3", len(applied))
	}
	for name, n := range req.reads {
		if n != 1 {
			t.Errorf("%s is read %d times", name, n)
		}
	}
	if len(req.reads) != 5 {
		t.Errorf("read %v, want 5 things", req.reads)
	}
}

func TestOnlyWhatIsNeededIsRead(t *testing.T) {
	t.Parallel()
	req := everything()
	req.reads = map[string]int{}
	var m Matcher
	compile(t, `"name": "post", "match": {"methods": ["POST"], "path": {"prefix": "/"}}, "cost": {"header": "x-cost"},
		"key": [{"header": "x-api-key"}, {"cookie": "sid"}]`,
		`"name": "keyed", "cost": {"header": "x-cost"}, "key": [{"header": "x-none"}, {"client_ip": true}]`,
		`"name": "global"`).Apply(req, &m)
	if want := map[string]int{"fields": 1}; !maps.Equal(req.reads, want) {
		t.Errorf("read %v, want %v", req.reads, want)
	}
}

// TestForesight: a configuration that reads a header has all of them read at once. If request after request
// needs its path alone, the path is read alone, and then one that needs more makes no difference.
func TestForesight(t *testing.T) {
	t.Parallel()
	const health = `"name": "health", "exempt": true, "match": {"path": "/healthz"}`
	set := compile(t, health, `"key": [{"header": "x-api-key"}]`)
	var m Matcher
	for i, step := range []struct{ path, reads string }{
		{"/healthz", "fields"},
		{"/a", "fields"},
		{"/a", "fields"}, // all at once
		{"/healthz", "fields"},
		{"/a", "fields"},
		{"/healthz", "fields"},
		{"/healthz", "fields"},
		{"/healthz", ":path"},
		{"/healthz", ":path"},
		{"/a", ":path fields"},
		{"/healthz", ":path"}, // one after the other
		{"/a", ":path fields"},
		{"/a", ":path fields"},
		{"/a", "fields"},
	} {
		req := get(step.path)
		req.reads = map[string]int{}
		set.Apply(req, &m)
		if got := strings.Join(slices.Sorted(maps.Keys(req.reads)), " "); got != step.reads {
			t.Errorf("request %d, for %s: read %q, want %q", i, step.path, got, step.reads)
		}
	}
	alone := compile(t, health)
	req := get("/a")
	req.reads = map[string]int{}
	if alone.Apply(req, &m); req.reads["fields"] > 0 {
		t.Errorf("where no rule reads a header: read %v, want the path alone", req.reads)
	}
}

// Not parallel, as it counts allocations.
func TestApplyAllocatesNothing(t *testing.T) {
	set := compile(t, readEverything...)
	var m Matcher
	var r Request = everything()
	allocs := testing.AllocsPerRun(100, func() { set.Apply(r, &m) })
	if applied, _, _ := set.Apply(r, &m); len(applied) != 3 {
		t.Fatalf("%d rules apply, want 3", len(applied))
	}
	if allocs != 0 {
		t.Errorf("%v allocations for a request, want none", allocs)
	}
}

// TestMatcherForgets uses one Matcher for two requests and two Sets.
func TestMatcherForgets(t *testing.T) {
	t.Parallel()
	small := compile(t, `"key": [{"header": "x-api-key"}]`)
	large := compile(t, readEverything...)
	var m Matcher
	large.Apply(everything(), &m)
	if applied, _, _ := small.Apply(get("/"), &m); len(applied) != 0 {
		t.Errorf("a request without a key has the tag %q", applied[0].Tag)
	}
	if applied, _, _ := large.Apply(everything(), &m); len(applied) != 3 {
		t.Errorf("%d rules apply, want 3", len(applied))
	}
	if applied, _, _ := large.Apply(get("/api/a"), &m); len(applied) != 0 {
		t.Errorf("a request without a key has the tag %q", applied[0].Tag)
	}
	place := compile(t, `"key": [{"host": true}, {"path": true}]`)
	for _, want := range []string{"a", "b"} {
		applied, _, _ := place.Apply(get("/"+want, ":authority", want), &m)
		testenv.Same(t, "the tag", string(applied[0].Tag), "r|"+want+"|/"+want)
	}
}

// FuzzApply reads hostile requests: whatever they hold, tags have no byte that
// is ambiguous, identities are bounded and costs are in range.
func FuzzApply(f *testing.F) {
	f.Add("/x/../api/a?user=u", "api.example.com", "secret", "sid=1; theme=2", "192.0.2.1:1", "alice", "7")
	f.Add("\x00", "\xff\xfe", strings.Repeat("k", 8192), strings.Repeat("sid=\x00;", 1000), "[::]:", "\x01",
		strings.Repeat("9", 10_000))
	f.Add("http://%zz/%", "[::", "{}|%", `sid="`, ":", "\x00\x00\x00\x00\x00\x00\xf8\x7f", "-1")
	set := compile(f, readEverything...)
	f.Fuzz(func(t *testing.T, target, authority, key, cookie, source, claim, cost string) {
		req := get(target, ":authority", authority, "x-api-key", key, "cookie", cookie, "x-cost", cost,
			"source.address", source, "connection.id", claim,
			"metadata.filter_metadata.jwt.sub", claim, "metadata.filter_metadata.jwt.plan", claim)
		var m Matcher
		applied, _, _ := set.Apply(req, &m)
		for _, a := range applied {
			_, identity, _ := strings.Cut(string(a.Tag), "|")
			if len(identity) > maxIdentityBytes || strings.ContainsAny(identity, "{} \n\x00") {
				t.Errorf("identity is %q", identity)
			}
			if a.Cost < 0 || a.Cost > 10 {
				t.Errorf("cost is %d", a.Cost)
			}
		}
	})
}
