package rule

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// valued is a GET whose expressions, by their wrapped text, have these values.
func valued(values map[string]string) *request {
	req := get("/")
	req.values = values
	return req
}

func TestTierByExpression(t *testing.T) {
	t.Parallel()
	set := compile(t, tiered(byExpression("e"), ""))
	testenv.Same(t, "per second", units(set, valued(map[string]string{"string(e\n)": "pro"})), 100)
	testenv.Same(t, "per second without a value", units(set, get("/")), noRule)
}

func TestCostByExpression(t *testing.T) {
	t.Parallel()
	r := counted("r")
	r.Cost = config.Amount{Expr: "e", Default: 3, Max: 100}
	for _, tt := range []struct {
		name  string
		value string
		want  int64
	}{
		{"whole", double(7), 7},
		{"rounded down", double(7.99), 7},
		{"less than 1", double(0.5), 0},
		{"0", double(0), 0},
		{"-0", double(math.Copysign(0, -1)), 0},
		{"max", double(100), 100},
		{"above max", double(100.5), 100},
		{"far above max", double(1e300), 100},
		{"negative", double(-0.1), 3},
		{"infinite", double(math.Inf(1)), 3},
		{"minus infinite", double(math.Inf(-1)), 3},
		{"no number", double(math.NaN()), 3},
		{"too short", "7", 3},
	} {
		testenv.Same(t, tt.name, only(t, r, valued(map[string]string{"double(e\n)": tt.value})).Cost, tt.want)
	}
	testenv.Same(t, "without a value", only(t, r, get("/")).Cost, 3)
}

// Each text is compiled once a set for what it is used as, and evaluated at most
// once a request.
func TestExpressionsAreShared(t *testing.T) {
	t.Parallel()
	first, second := counted("first", byExpression("e")), counted("second", byExpression("e"))
	first.Match.Expr, second.Match.Expr = "e", "e"
	second.Cost = config.Amount{Expr: "e", Max: 10}
	created := &fakeExpressions{}
	set, err := Compile(&config.Config{Rules: []config.Rule{first, second}}, created)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"(e\n) == true", "string(e\n)", "double(e\n)"}; !slices.Equal(created.created, want) {
		t.Errorf("compiled %q, want %q", created.created, want)
	}
	req := valued(map[string]string{"(e\n) == true": "\x01", "string(e\n)": "k"})
	var m Matcher
	if applied, _, _ := set.Apply(req, &m); len(applied) != 2 {
		t.Fatalf("%d rules apply, want 2", len(applied))
	}
	want := map[string]int{"(e\n) == true": 1, "string(e\n)": 1, "double(e\n)": 1}
	if !reflect.DeepEqual(req.reads, want) {
		t.Errorf("evaluated %v, want %v", req.reads, want)
	}
}

// TestWhatDoesNotCompile has rules that no parser lets through, too: they are an error all the same.
func TestWhatDoesNotCompile(t *testing.T) {
	t.Parallel()
	inMatch, inNot, inCost, inLimit := counted("r"), counted("r"), counted("r"), counted("r")
	inMatch.Match.Expr, inCost.Cost.Expr = "bad", "bad"
	inNot.Match = not(byExpr("bad"))
	inLimit.Limits[0].UnitsFrom = &config.Amount{Expr: "bad"}
	unread, unknown, unlimited := counted("r"), counted("r"), counted("r")
	unread.Match.Path = regex("(")
	unknown.Limits[0].Calendar = &config.Calendar{Zone: "Europe/Nowhere"}
	unlimited.Limits[0].Algorithm = 0
	for _, tt := range []struct {
		rule config.Rule
		want string // after the rule's place
	}{
		{inMatch, "it is bad"},
		{inNot, "it is bad"},
		{inCost, "it is bad"},
		{inLimit, "it is bad"},
		{tiered(byExpression("bad"), ""), "it is bad"},
		{counted("r", byExpression("bad")), "it is bad"},
		{unread, "error parsing regexp"},
		{unknown, `limits[0].timezone: "Europe/Nowhere" is not a time zone`},
		{unlimited, "algorithm 0 (want 1 to 7)"},
	} {
		_, err := Compile(&config.Config{Rules: []config.Rule{tt.rule}}, &fakeExpressions{})
		if err == nil || !strings.HasPrefix(err.Error(), "rules[0]: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("the error is %v, want one with %q", err, tt.want)
		}
	}
}

// Without Expressions, as in the command line, expressions have no value.
func TestWithoutExpressions(t *testing.T) {
	t.Parallel()
	r := counted("r", byExpression("e"))
	set, err := Compile(&config.Config{Rules: []config.Rule{r}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	testenv.SameList(t, "tags", tags(set, &static{}), nil)
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
	var rules []config.Rule
	for n := range 16 {
		r := counted(fmt.Sprint(n))
		r.Match.Expr = "e"
		rules = append(rules, r)
	}
	set := compile(b, rules...)
	var m Matcher
	req := &static{}
	for b.Loop() {
		set.Apply(req, &m)
	}
}
