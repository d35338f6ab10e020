package rule

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

func TestTierByExpression(t *testing.T) {
	t.Parallel()
	set := compile(t, tieredBy(`{"expr": "e"}`, "", ""))
	testenv.Same(t, "per second", units(set, get("/", "string(e\n)", "pro")), 100)
	testenv.Same(t, "per second without a value", units(set, get("/")), noRule)
}

func TestCostByExpression(t *testing.T) {
	t.Parallel()
	const r = `"cost": {"expr": "e", "default": 3, "max": 100}`
	for _, tt := range []struct {
		name  string
		value string
		want  int64
	}{
		{"whole", testenv.Doubles(7), 7},
		{"rounded down", testenv.Doubles(7.99), 7},
		{"less than 1", testenv.Doubles(0.5), 0},
		{"0", testenv.Doubles(0), 0},
		{"-0", testenv.Doubles(math.Copysign(0, -1)), 0},
		{"max", testenv.Doubles(100), 100},
		{"above max", testenv.Doubles(100.5), 100},
		{"far above max", testenv.Doubles(1e300), 100},
		{"negative", testenv.Doubles(-0.1), 3},
		{"infinite", testenv.Doubles(math.Inf(1)), 3},
		{"minus infinite", testenv.Doubles(math.Inf(-1)), 3},
		{"no number", testenv.Doubles(math.NaN()), 3},
		{"too short", "7", 3},
	} {
		testenv.Same(t, tt.name, only(t, r, get("/", "double(e\n)", tt.value)).Cost, tt.want)
	}
	testenv.Same(t, "without a value", only(t, r, get("/")).Cost, 3)
}

// Each text is compiled once a set for what it is used as, and evaluated at most
// once a request.
func TestExpressionsAreShared(t *testing.T) {
	t.Parallel()
	const r = `"key": [{"expr": "e"}], "match": {"expr": "e"}`
	created := &fakeExpressions{}
	set, err := Compile(parse(t, `"name": "first", `+r, `"name": "second", "cost": {"expr": "e", "max": 10}, `+r), created)
	if err != nil {
		t.Fatal(err)
	}
	testenv.SameList(t, "compiled", created.created, []string{"(e\n) == true", "string(e\n)", "double(e\n)"})
	req := get("/", "(e\n) == true", "\x01", "string(e\n)", "k", "double(e\n)", testenv.Doubles(2))
	req.reads = map[string]int{}
	testenv.SameList(t, "tags", tags(set, req), []string{"first|k", "second|k"})
	for _, text := range created.created {
		testenv.Same(t, text+": it is evaluated", req.reads[fmt.Sprint(tokenOf(text))], 1)
	}
}

// TestWhatDoesNotCompile has rules that no parser lets through, too: they are an error all the same.
func TestWhatDoesNotCompile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule  string
		spoil func(r *config.Rule) // nil: not
		want  string               // after the rule's place
	}{
		{`"match": {"expr": "bad"}`, nil, "it is bad"},
		{`"match": {"not": {"expr": "bad"}}`, nil, "it is bad"},
		{`"cost": {"expr": "bad", "max": 9}`, nil, "it is bad"},
		{
			`"limits": [{"algorithm": "gcra", "limit": {"expr": "bad", "default": 1, "max": 9}, "window": "1s"}]`, nil,
			"it is bad",
		},
		{tieredBy(`{"expr": "bad"}`, "", ""), nil, "it is bad"},
		{`"key": [{"expr": "bad"}]`, nil, "it is bad"},
		{`"match": {"path": {"regex": "a"}}`, func(r *config.Rule) { r.Match.Path.Value = "(" }, "error parsing regexp"},
		{
			"", func(r *config.Rule) { r.Limits[0].Calendar = &config.Calendar{Zone: "Europe/Nowhere"} },
			`limits[0].timezone: "Europe/Nowhere" is not a time zone`,
		},
		{"", func(r *config.Rule) { r.Limits[0].Algorithm = 0 }, "algorithm 0 (want 1 to 7)"},
	} {
		cfg := parse(t, tt.rule)
		if tt.spoil != nil {
			tt.spoil(&cfg.Rules[0])
		}
		_, err := Compile(cfg, &fakeExpressions{})
		if err == nil || !strings.HasPrefix(err.Error(), "rules[0]: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("the error is %v, want one with %q", err, tt.want)
		}
	}
}

// Without Expressions, as in the command line, expressions have no value.
func TestWithoutExpressions(t *testing.T) {
	t.Parallel()
	set, err := Compile(parse(t, `"key": [{"expr": "e"}]`), nil)
	if err != nil {
		t.Fatal(err)
	}
	testenv.SameList(t, "tags", tags(set, get("/")), nil)
}

func TestAttributeTexts(t *testing.T) {
	t.Parallel()
	metadata := func(path ...string) string { return amountText(&config.Amount{Metadata: path}) }
	property := func(path ...string) string { return amountText(&config.Amount{Property: path}) }
	for got, want := range map[string]string{
		metadata("envoy.filters.http.jwt_authn", "payload", "the limit"): `'envoy.filters.http.jwt_authn' in ` +
			`metadata.filter_metadata ? metadata.filter_metadata['envoy.filters.http.jwt_authn']['payload']['the limit']` +
			` : metadata.typed_filter_metadata['envoy.filters.http.jwt_authn'].payload['the limit']`,
		quoted(`it's a\b`):                    `'it\'s a\\b'`,
		quoted("a\n\x7fb"):                    `'a\x0a\x7fb'`,
		quoted("é"):                           `'é'`,
		property("connection", "tls_version"): `connection.tls_version`,
		property("filter_state", "a.b"):       `filter_state['a.b']`,
		property("filter_state", "in"):        `filter_state['in']`,
		property("filter_state", "1a"):        `filter_state['1a']`,
	} {
		testenv.Same(t, "the text", got, want)
	}
}

// BenchmarkExpressions measures what a match by expression takes of the plugin, without
// Envoy's part.
func BenchmarkExpressions(b *testing.B) {
	var rules []string
	for n := range 16 {
		rules = append(rules, fmt.Sprintf(`"name": "%d", "match": {"expr": "e"}`, n))
	}
	set := compile(b, rules...)
	var m Matcher
	req := get("/")
	for b.Loop() {
		set.Apply(req, &m)
	}
}
