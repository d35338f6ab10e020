package rule

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/worstcase"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// overlong is more than may be looked at, whatever is done with it.
var overlong = strings.Repeat("a", requestUnits+1)

func not(m ...config.Match) config.Match { return config.Match{Not: m} }

func both(a, b config.Match) config.Match {
	a.Methods = append(a.Methods, b.Methods...)
	a.Headers = append(a.Headers, b.Headers...)
	a.Query = append(a.Query, b.Query...)
	a.Cookies = append(a.Cookies, b.Cookies...)
	if b.Path != nil {
		a.Path = b.Path
	}
	a.Not = append(a.Not, b.Not...)
	return a
}

// What cannot be known makes a rule apply, and an exemption not, wherever in the
// match it stands.
func TestLongValuesInMatches(t *testing.T) {
	t.Parallel()
	var (
		unknown   = header("x-long", op(config.Regex, "b"))
		contained = header("x-long", op(config.Contains, "b"))
		holds     = config.Match{Methods: []string{"GET"}}
		holdsNot  = header("x-none", op(config.Exact, "a"))
	)
	for _, tt := range []struct {
		name    string
		match   config.Match
		limited bool // the rule applies if it limits
		exempt  bool // and exempts if it is exempt
	}{
		{name: "unknown", match: unknown, limited: true},
		{name: "unknown, a text", match: contained, limited: true},
		{name: "unknown, not", match: not(unknown), limited: true},
		{name: "unknown, not not", match: not(not(unknown)), limited: true},
		{name: "unknown and holds", match: both(unknown, holds), limited: true},
		{name: "unknown and holds not", match: both(unknown, holdsNot)},
		{name: "unknown and not holds", match: both(unknown, not(holds))},
		{name: "unknown and not holds not", match: both(unknown, not(holdsNot)), limited: true},
		{name: "not (unknown and holds)", match: not(both(unknown, holds)), limited: true},
		{name: "not (unknown and holds not)", match: not(both(unknown, holdsNot)), limited: true, exempt: true},
		{name: "none of unknown and holds not", match: not(unknown, holdsNot), limited: true},
		{name: "none of unknown and holds", match: not(unknown, holds)},
		{name: "none of holds and unknown", match: not(holds, unknown)},
		{name: "two unknowns", match: both(unknown, not(contained)), limited: true},
		// What takes no look at all of the value is known.
		{name: "prefix", match: header("x-long", op(config.Prefix, "aa")), limited: true, exempt: true},
		{name: "suffix", match: header("x-long", op(config.Suffix, "b"))},
		{name: "exact", match: header("x-long", op(config.Exact, "a"))},
		{name: "present", match: header("x-long", isPresent(true)), limited: true, exempt: true},
		{name: "not present", match: header("x-long", isPresent(false))},
		{name: "the beginning decides, yes", match: header("x-long", op(config.Regex, "^aa")), limited: true, exempt: true},
		{name: "the beginning decides, no", match: header("x-long", op(config.Regex, "^b"))},
		{name: "after what takes all units", match: both(unknown, header("x-short", op(config.Regex, "b"))), limited: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := get("/", "x-long", overlong, "x-short", "b")
			r := counted("r")
			r.Match = tt.match
			if got := len(tags(compile(t, r), req)) == 1; got != tt.limited {
				t.Errorf("a rule applies: %v, want %v", got, tt.limited)
			}
			var m Matcher
			_, exempt := compile(t, config.Rule{Name: "e", Exempt: true, Match: tt.match}).Apply(req, &m)
			if got := exempt != nil; got != tt.exempt {
				t.Errorf("an exempt rule exempts: %v, want %v", got, tt.exempt)
			}
		})
	}
}

func TestLongPathsAndHosts(t *testing.T) {
	t.Parallel()
	path := get("/" + overlong)
	host := get("/")
	host.headers[2][1] = overlong
	for _, tt := range []struct {
		name    string
		match   config.Match
		req     *request
		limited bool
		exempt  bool
	}{
		{name: "path", match: config.Match{Path: op(config.Prefix, "/b")}, req: path, limited: true},
		{name: "not path", match: not(config.Match{Path: op(config.Prefix, "/b")}), req: path, limited: true},
		{name: "path present", match: config.Match{Path: isPresent(true)}, req: path, limited: true},
		{name: "path absent", match: config.Match{Path: isPresent(false)}, req: path},
		{name: "host", match: config.Match{Host: op(config.Exact, "b")}, req: host, limited: true},
		{name: "host present", match: config.Match{Host: isPresent(true)}, req: host, limited: true, exempt: true},
		{name: "path of another", match: config.Match{Path: op(config.Prefix, "/b")}, req: host},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := counted("r")
			r.Match = tt.match
			if got := len(tags(compile(t, r), tt.req)) == 1; got != tt.limited {
				t.Errorf("a rule applies: %v, want %v", got, tt.limited)
			}
			var m Matcher
			_, exempt := compile(t, config.Rule{Name: "e", Exempt: true, Match: tt.match}).Apply(tt.req, &m)
			if got := exempt != nil; got != tt.exempt {
				t.Errorf("an exempt rule exempts: %v, want %v", got, tt.exempt)
			}
		})
	}
}

// Values that are too long to be looked at share one identity.
func TestLongValuesInKeys(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("a", requestUnits/unitsToHash*3/4)
	xID := config.Component{Source: config.FromHeader, Name: "x-id"}
	hashedID, defaultID := xID, xID
	hashedID.Hash, defaultID.HasDefault = true, true
	long := get("/", "x-id", overlong)
	for _, tt := range []struct {
		name string
		key  []config.Component
		req  *request
		want string
	}{
		{name: "header", key: []config.Component{xID}, req: long, want: "r|%long"},
		{name: "hashed header", key: []config.Component{hashedID}, req: long, want: "r|%long"},
		{name: "with a default", key: []config.Component{defaultID}, req: long, want: "r|%long"},
		{
			name: "query", want: "r|%long",
			key: []config.Component{{Source: config.FromQuery, Name: "user"}}, req: get("/?" + overlong + "&user=a"),
		},
		{
			name: "cookie", want: "r|%long",
			key: []config.Component{{Source: config.FromCookie, Name: "sid"}}, req: get("/", "cookie", overlong+"; sid=a"),
		},
		{name: "path", key: []config.Component{{Source: config.FromPath}}, req: get("/" + overlong), want: "r|%long"},
		{
			name: "segment", want: "r|%long",
			key: []config.Component{{Source: config.FromPath, Segments: 1}}, req: get("/a/" + overlong),
		},
		{name: "beside another", key: []config.Component{{Source: config.FromMethod}, xID}, req: long, want: "r|GET|%long"},
		{name: "a value that says so", key: []config.Component{xID}, req: get("/", "x-id", "%long"), want: "r|%25long"},
		{
			name: "an identity that is too long to be hashed", want: "r|%long",
			key: []config.Component{xID}, req: get("/", "x-id", half),
		},
		{
			name: "a digest is made once", want: "r|" + sha(half)[:40],
			key: []config.Component{hashedID}, req: get("/", "x-id", half),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := tags(compile(t, counted("r", tt.key...), counted("s", tt.key...)), tt.req)
			if len(got) != 2 {
				t.Fatalf("%d rules apply, want 2", len(got))
			}
			if got[0] != tt.want {
				t.Errorf("the first tag is %q, want %q", got[0], tt.want)
			}
			if want := "s" + tt.want[1:]; got[1] != want {
				t.Errorf("the second tag is %q, want %q", got[1], want)
			}
		})
	}
}

// A client cannot leave its identity by a long value of anything else.
func TestLongValuesElsewhere(t *testing.T) {
	t.Parallel()
	const regex = `(?i)bot|crawl|spider|slurp|curl|wget|python|scrapy`
	beyondASCII := "é" + strings.Repeat("b", 2000) // uses up what a request has for patterns
	allButLittle := "/" + strings.Repeat("a", requestUnits/unitsToNormalise-10)
	for _, tt := range []struct {
		name      string
		component config.Component
		want      string
	}{
		{
			name: "address", component: config.Component{Source: config.FromClientIP, V4Prefix: 32, V6Prefix: 128},
			want: "192.0.2.7",
		},
		{name: "header", component: config.Component{Source: config.FromHeader, Name: "x-id"}, want: "me"},
		{
			name: "hashed header", component: config.Component{Source: config.FromHeader, Name: "x-id", Hash: true},
			want: sha("me")[:40],
		},
		{name: "cookie", component: config.Component{Source: config.FromCookie, Name: "sid"}, want: "mine"},
		{name: "host", component: config.Component{Source: config.FromHost}, want: "api.example.com"},
		{name: "method", component: config.Component{Source: config.FromMethod}, want: "GET"},
		{
			name: "claim of 400 bytes", want: sha(strings.Repeat("c", 400)),
			component: config.Component{Source: config.FromMetadata, Path: []string{"jwt", "sub"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			patterned, reading, keyed := counted("patterned"), counted("reading"), counted("r", tt.component)
			patterned.Match = header("user-agent", op(config.Regex, regex))
			reading.Match = config.Match{Path: op(config.Prefix, "/a")}
			req := get(allButLittle, "user-agent", beyondASCII, "x-id", "me", "cookie", "sid=mine")
			req.properties = map[string]string{
				"source.address": "192.0.2.7:1", "metadata.filter_metadata.jwt.sub": strings.Repeat("c", 400),
			}
			got := tags(compile(t, patterned, reading, keyed), req)
			if want := "r|" + tt.want; len(got) != 3 || got[2] != want {
				t.Errorf("the tags are %q, want the last to be %q", got, want)
			}
		})
	}
}

// A tier that cannot be known has limits, if any has.
func TestLongValuesInTiers(t *testing.T) {
	t.Parallel()
	source := config.Component{Source: config.FromCookie, Name: "plan"}
	unlimitedFirst := tiered(source, "")
	unlimitedFirst.Tiers.Values = []config.Tier{{Value: "staff", Unlimited: true}, {Value: "pro", Limits: perSecond(100)}}
	unlimitedOnly := tiered(source, "staff")
	unlimitedOnly.Tiers.Values = []config.Tier{{Value: "staff", Unlimited: true}}
	for _, tt := range []struct {
		name string
		rule config.Rule
		want int64
	}{
		{name: "the default", rule: tiered(source, "pro"), want: 100},
		{name: "the first that has limits", rule: unlimitedFirst, want: 100},
		{name: "not the default that has none", rule: tiered(source, "staff"), want: 1},
		{name: "unless none has", rule: unlimitedOnly, want: unlimited},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := units(compile(t, tt.rule), get("/", "cookie", overlong+"; plan=staff")); got != tt.want {
				t.Errorf("%d per second, want %d", got, tt.want)
			}
		})
	}
}

func TestLongCost(t *testing.T) {
	t.Parallel()
	r := counted("r")
	r.Cost = config.Amount{Header: "x-cost", Default: 1, Max: 100}
	var m Matcher
	applied, _ := compile(t, r).Apply(get("/", "x-cost", strings.Repeat("0", requestUnits+1)), &m)
	if applied[0].Cost != 100 {
		t.Errorf("cost is %d, want 100", applied[0].Cost)
	}
}

// What one request uses up is there again for the next.
func TestUnitsAreOfARequest(t *testing.T) {
	t.Parallel()
	r := counted("r")
	r.Match = header("x-a", op(config.Regex, "b"))
	set := compile(t, r)
	var m Matcher
	for _, tt := range []struct {
		value string
		want  int
	}{{overlong, 1}, {"a", 0}, {overlong, 1}, {overlong[1:], 0}} {
		if applied, _ := set.Apply(get("/", "x-a", tt.value), &m); len(applied) != tt.want {
			t.Errorf("%d rules apply to a value of %d bytes, want %d", len(applied), len(tt.value), tt.want)
		}
	}
}

// The worst requests take milliseconds at most here, and so in the plugin, which
// BenchmarkWorstCases in package plugin times. Some of these took 200 ms.
func TestWorstCases(t *testing.T) {
	const limit = 20 * time.Millisecond // with the race detector
	for _, c := range worstcase.Cases {
		t.Run(c.Name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			cfg, err := config.Parse([]byte(c.Config()))
			if err != nil {
				t.Fatal(err)
			}
			set, err := Compile(cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			var m Matcher
			req := &request{headers: c.Headers}
			fastest := time.Hour
			for range 5 {
				began := computed(t)
				set.Apply(req, &m)
				fastest = min(fastest, computed(t)-began)
			}
			if fastest > limit {
				t.Errorf("takes %v, want at most %v", fastest, limit)
			}
		})
	}
}

// computed is how long this thread has computed. Waiting for a processor does not count.
func computed(t *testing.T) time.Duration {
	t.Helper()
	const thisThread = 1 // https://man7.org/linux/man-pages/man2/getrusage.2.html
	var usage syscall.Rusage
	if err := syscall.Getrusage(thisThread, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
