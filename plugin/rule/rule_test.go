package rule

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

func TestApplyInOrder(t *testing.T) {
	t.Parallel()
	byKey := counted("by-key", fromHeader("x-api-key"))
	shadow := counted("shadow")
	shadow.Mode = config.Shadow
	off := counted("off")
	off.Mode = config.Off
	health := config.Rule{Name: "health", Exempt: true, Match: config.Match{Path: prefix("/healthz")}}
	offExempt := config.Rule{Name: "off-exempt", Exempt: true, Mode: config.Off}
	set := compile(t, off, counted("first"), offExempt, health, byKey, shadow, counted("last"))

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
	r := counted("r")
	r.Limits = []config.Limit{
		{Limit: algo.Limit{Algorithm: algo.GCRA, Units: 10, Burst: 20, WindowMicros: 1e6}, Name: "r-1s", Window: "1s"},
		{
			Limit: algo.Limit{Algorithm: algo.SlidingWindowCounter, Units: 1000, WindowMicros: 3600e6},
			Name:  "r-1h", Window: "1h",
		},
	}
	l := compile(t, r).LimitSets[0]
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

// readEverything has rules that need each source more than once.
func readEverything(t testing.TB) *Set {
	key := func(name string) config.Rule {
		return counted(
			name,
			hash(fromHeader("x-api-key")),
			fromCookie("sid"),
			fromCookie("theme"),
			fromQuery("user"),
			fromAddress(24, 64),
			source(config.FromPath),
			segments(1),
			source(config.FromMethod),
			source(config.FromHost),
			fromMetadata("jwt", "sub"),
			fromProperty("connection", "id"),
			constant("c"),
			orElse(fromHeader("x-none"), "d"),
		)
	}
	first, second := key("first"), key("second")
	first.Match = config.Match{
		Path: prefix("/api"), Host: exact("api.example.com"), Methods: []string{"GET"},
		Headers: []config.NamedMatch{
			{Name: "x-api-key", Match: *isPresent(true)},
			{Name: "x-none", Match: *isPresent(false)},
		},
	}
	second.Match = config.Match{
		Path: regex("^/(api|v[0-9]+)/[a-z]+$"),
		Not:  []config.Match{{Host: suffix(".org")}},
	}
	second.Cost = config.Amount{Header: "x-cost", Default: 1, Max: 10}
	tiers := tiered(fromMetadata("jwt", "plan"), "free")
	tiers.Key = first.Key
	return compile(t, first, second, tiers)
}

func everything() *request {
	req := get("/x/../api/a?user=u%20v", "x-api-key", "secret", "cookie", `sid="a%20b"; theme=dark`, "x-cost", "7")
	req.properties = map[string]string{
		"source.address":                    "[2001:db8::1]:443",
		"metadata.filter_metadata.jwt.sub":  "alice",
		"metadata.filter_metadata.jwt.plan": double(-7),
		"connection.id":                     "\x2a\x00\x00\x00\x00\x00\x00\x00",
	}
	return req
}

func TestEachThingIsReadOnce(t *testing.T) {
	t.Parallel()
	req := everything()
	var m Matcher
	if applied, _, _ := readEverything(t).Apply(req, &m); len(applied) != 3 {
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
	post := counted("post", fromHeader("x-api-key"),
		fromCookie("sid"))
	post.Match = config.Match{Methods: []string{"POST"}, Path: prefix("/")}
	post.Cost = config.Amount{Header: "x-cost"}
	keyed := counted("keyed", fromHeader("x-none"),
		source(config.FromClientIP))
	keyed.Cost = config.Amount{Header: "x-cost"}
	req := everything()
	var m Matcher
	compile(t, post, keyed, counted("global")).Apply(req, &m)
	if want := map[string]int{"fields": 1}; !reflect.DeepEqual(req.reads, want) {
		t.Errorf("read %v, want %v", req.reads, want)
	}
}

// TestForesight: a configuration that reads a header has all of them read at once. If request after request
// needs its path alone, the path is read alone, and then one that needs more makes no difference.
func TestForesight(t *testing.T) {
	t.Parallel()
	health := config.Rule{Name: "health", Match: config.Match{Path: exact("/healthz")}, Exempt: true}
	set := compile(t, health, counted("r", fromHeader("x-api-key")))
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
		set.Apply(req, &m)
		if got := strings.Join(slices.Sorted(maps.Keys(req.reads)), " "); got != step.reads {
			t.Errorf("request %d, for %s: read %q, want %q", i, step.path, got, step.reads)
		}
	}
	alone := compile(t, health)
	req := get("/a")
	if alone.Apply(req, &m); req.reads["fields"] > 0 {
		t.Errorf("where no rule reads a header: read %v, want the path alone", req.reads)
	}
}

// static is a Request whose reading allocates nothing.
type static struct {
	headers    [][2]string
	properties map[string][]byte // by the last element of the path
}

func (s *static) Header(name string) (string, bool) {
	i := slices.IndexFunc(s.headers, func(h [2]string) bool { return h[0] == name })
	if i < 0 {
		return "", false
	}
	return s.headers[i][1], true
}

func (s *static) Fields(m *Matcher) {
	for i := range s.headers {
		m.Field(s.headers[i][0], s.headers[i][1])
	}
}

func (s *static) Evaluate(uint32) ([]byte, bool) { return nil, false }

func (s *static) Property(path []string) ([]byte, bool) {
	value, ok := s.properties[path[len(path)-1]]
	return value, ok
}

// Not parallel, as it counts allocations.
func TestApplyAllocatesNothing(t *testing.T) {
	from := everything()
	req := &static{headers: from.headers, properties: map[string][]byte{}}
	for path, value := range from.properties {
		req.properties[path[strings.LastIndexByte(path, '.')+1:]] = []byte(value)
	}
	set := readEverything(t)
	var m Matcher
	var r Request = req
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
	small := compile(t, counted("r", fromHeader("x-api-key")))
	large := readEverything(t)
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
	place := compile(t, counted("r", source(config.FromHost), source(config.FromPath)))
	for _, want := range []string{"a", "b"} {
		req := get("/" + want)
		req.headers[2][1] = want
		if applied, _, _ := place.Apply(req, &m); string(applied[0].Tag) != "r|"+want+"|/"+want {
			t.Errorf("tag is %q of %q", applied[0].Tag, want)
		}
	}
}

// FuzzApply reads hostile requests: whatever they hold, tags have no byte that
// is ambiguous, identities are bounded and costs are in range.
func FuzzApply(f *testing.F) {
	f.Add("/x/../api/a?user=u", "api.example.com", "secret", "sid=1; theme=2", "192.0.2.1:1", "alice", "7")
	f.Add("\x00", "\xff\xfe", strings.Repeat("k", 8192), strings.Repeat("sid=\x00;", 1000), "[::]:", "\x01",
		strings.Repeat("9", 10_000))
	f.Add("http://%zz/%", "[::", "{}|%", `sid="`, ":", "\x00\x00\x00\x00\x00\x00\xf8\x7f", "-1")
	set := readEverything(f)
	f.Fuzz(func(t *testing.T, target, authority, key, cookie, source, claim, cost string) {
		req := &request{
			headers: [][2]string{
				{":method", "GET"},
				{":path", target},
				{":authority", authority},
				{"x-api-key", key},
				{"cookie", cookie},
				{"x-cost", cost},
			},
			properties: map[string]string{
				"source.address": source, "connection.id": claim,
				"metadata.filter_metadata.jwt.sub": claim, "metadata.filter_metadata.jwt.plan": claim,
			},
		}
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
