package rule

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// valued is a GET whose expressions, by their wrapped text, have these values.
func valued(values map[string]string) *request {
	req := get("/")
	req.values = values
	return req
}

func TestMatchByExpression(t *testing.T) {
	t.Parallel()
	holds := map[string]string{"(e\n) == true": "\x01", "(no\n) == true": "\x00", "(other\n) == true": "true"}
	for _, tt := range []struct {
		name  string
		match config.Match
		want  bool
	}{
		{name: "true", match: config.Match{Expr: "e"}, want: true},
		{name: "false", match: config.Match{Expr: "no"}},
		{name: "no bool", match: config.Match{Expr: "other"}},
		{name: "no value", match: config.Match{Expr: "error"}},
		{name: "not true", match: not(config.Match{Expr: "e"})},
		{name: "not false", match: not(config.Match{Expr: "no"}), want: true},
		{name: "not without a value", match: not(config.Match{Expr: "error"}), want: true},
		{name: "beside what holds", match: config.Match{Expr: "e", Methods: []string{"GET"}}, want: true},
		{name: "beside what does not", match: config.Match{Expr: "e", Methods: []string{"PUT"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := counted("r")
			r.Match = tt.match
			if got := len(tags(compile(t, r), valued(holds))) == 1; got != tt.want {
				t.Errorf("applies: %v, want %v", got, tt.want)
			}
		})
	}
}

// byExpression is a component.
func byExpression(text string) config.Component {
	return config.Component{Source: config.FromExpr, Expr: text}
}

func TestKeyByExpression(t *testing.T) {
	t.Parallel()
	withDefault, hashed := byExpression("none"), byExpression("e")
	withDefault.HasDefault, withDefault.Default, hashed.Hash = true, "d", true
	for _, tt := range []struct {
		name string
		c    config.Component
		want []string
	}{
		{name: "text", c: byExpression("e"), want: []string{"r|a%20b"}},
		{name: "hashed", c: hashed, want: []string{"r|" + sha("a b")[:40]}},
		{name: "no value", c: byExpression("none")},
		{name: "default", c: withDefault, want: []string{"r|d"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := tags(compile(t, counted("r", tt.c)), valued(map[string]string{"string(e\n)": "a b"}))
			if !slices.Equal(got, tt.want) {
				t.Errorf("tags are %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTierByExpression(t *testing.T) {
	t.Parallel()
	set := compile(t, tiered(byExpression("e"), ""))
	if got := units(set, valued(map[string]string{"string(e\n)": "pro"})); got != 100 {
		t.Errorf("%d per second, want 100", got)
	}
	if got := units(set, get("/")); got != noRule {
		t.Errorf("%d per second without a value, want no rule", got)
	}
}

func TestCostByExpression(t *testing.T) {
	t.Parallel()
	r := counted("r")
	r.Cost = config.Amount{Expr: "e", Default: 3, Max: 100}
	set := compile(t, r)
	for _, tt := range []struct {
		name  string
		value string
		want  int64
	}{
		{name: "whole", value: double(7), want: 7},
		{name: "rounded down", value: double(7.99), want: 7},
		{name: "less than 1", value: double(0.5), want: 0},
		{name: "0", value: double(0), want: 0},
		{name: "-0", value: double(math.Copysign(0, -1)), want: 0},
		{name: "max", value: double(100), want: 100},
		{name: "above max", value: double(100.5), want: 100},
		{name: "far above max", value: double(1e300), want: 100},
		{name: "negative", value: double(-0.1), want: 3},
		{name: "infinite", value: double(math.Inf(1)), want: 3},
		{name: "minus infinite", value: double(math.Inf(-1)), want: 3},
		{name: "no number", value: double(math.NaN()), want: 3},
		{name: "too short", value: "7", want: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var m Matcher
			applied, _ := set.Apply(valued(map[string]string{"double(e\n)": tt.value}), &m)
			if got := applied[0].Cost; got != tt.want {
				t.Errorf("cost is %d, want %d", got, tt.want)
			}
		})
	}
	var m Matcher
	if applied, _ := set.Apply(get("/"), &m); applied[0].Cost != 3 {
		t.Errorf("cost without a value is %d, want 3", applied[0].Cost)
	}
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
	if applied, _ := set.Apply(req, &m); len(applied) != 2 {
		t.Fatalf("%d rules apply, want 2", len(applied))
	}
	want := map[string]int{"(e\n) == true": 1, "string(e\n)": 1, "double(e\n)": 1}
	if !reflect.DeepEqual(req.reads, want) {
		t.Errorf("evaluated %v, want %v", req.reads, want)
	}
}

func TestExpressionsThatDoNotCompile(t *testing.T) {
	t.Parallel()
	inMatch, inNot, inCost, inLimit := counted("r"), counted("r"), counted("r"), counted("r")
	inMatch.Match.Expr = "bad"
	inNot.Match = not(config.Match{Expr: "bad"})
	inCost.Cost.Expr = "bad"
	inLimit.Limits[0].UnitsFrom = &config.Amount{Expr: "bad"}
	for name, r := range map[string]config.Rule{
		"match": inMatch, "not": inNot, "cost": inCost, "limit": inLimit, "tier": tiered(byExpression("bad"), ""),
		"key": counted("r", byExpression("bad")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile(&config.Config{Rules: []config.Rule{r}}, &fakeExpressions{})
			for _, want := range []string{"rules[0]: ", "it is bad"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %v, want one with %q", err, want)
				}
			}
		})
	}
}

// Without Expressions, as in the command line, expressions have no value.
// TestWhatDoesNotCompile has rules that no parser lets through: they are an error here, too.
func TestWhatDoesNotCompile(t *testing.T) {
	t.Parallel()
	unread, unknown, unlimited := counted("r"), counted("r"), counted("r")
	unread.Match.Path = op(config.Regex, "(")
	unknown.Limits[0].Calendar = &config.Calendar{Zone: "Europe/Nowhere"}
	unlimited.Limits[0].Algorithm = 0
	for want, r := range map[string]config.Rule{
		"rules[0]: error parsing regexp":                                    unread,
		`rules[0]: limits[0].timezone: "Europe/Nowhere" is not a time zone`: unknown,
		"rules[0]: algorithm 0 (want 1 to 7)":                               unlimited,
	} {
		_, err := Compile(&config.Config{Rules: []config.Rule{r}}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}

func TestWithoutExpressions(t *testing.T) {
	t.Parallel()
	r := counted("r", byExpression("e"))
	set, err := Compile(&config.Config{Rules: []config.Rule{r}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var m Matcher
	if applied, _ := set.Apply(&static{}, &m); len(applied) != 0 {
		t.Errorf("%d rules apply, want none", len(applied))
	}
}

func TestAttributeTexts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		got  string
		want string
	}{
		{
			name: "metadata", got: amountText(&config.Amount{Metadata: []string{"envoy.filters.http.jwt_authn", "payload", "the limit"}}),
			want: `'envoy.filters.http.jwt_authn' in metadata.filter_metadata` +
				` ? metadata.filter_metadata['envoy.filters.http.jwt_authn']['payload']['the limit']` +
				` : metadata.typed_filter_metadata['envoy.filters.http.jwt_authn'].payload['the limit']`,
		},
		{name: "quotes", got: quoted(`it's a\b`), want: `'it\'s a\\b'`},
		{name: "controls", got: quoted("a\n\x7fb"), want: `'a\x0a\x7fb'`},
		{name: "beyond ASCII", got: quoted("é"), want: `'é'`},
		{name: "property", got: amountText(&config.Amount{Property: []string{"connection", "tls_version"}}), want: `connection.tls_version`},
		{name: "property with a key", got: amountText(&config.Amount{Property: []string{"filter_state", "a.b"}}), want: `filter_state['a.b']`},
		{
			name: "property with a reserved word", got: amountText(&config.Amount{Property: []string{"filter_state", "in"}}),
			want: `filter_state['in']`,
		},
		{name: "property with a digit first", got: amountText(&config.Amount{Property: []string{"filter_state", "1a"}}), want: `filter_state['1a']`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.got != tt.want {
				t.Errorf("the text is %s, want %s", tt.got, tt.want)
			}
		})
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
