package rule

import (
	"regexp"
	"testing"

	"github.com/sluiceproxy/sluice/plugin/config"
)

func op(op config.MatchOp, value string) *config.StringMatch {
	m := &config.StringMatch{Op: op, Value: value}
	if op == config.Regex {
		m.Regexp = regexp.MustCompile(value)
	}
	return m
}

func isPresent(want bool) *config.StringMatch {
	return &config.StringMatch{Op: config.Present, Present: want}
}

func header(name string, m *config.StringMatch) config.Match {
	return config.Match{Headers: []config.HeaderMatch{{Name: name, Match: *m}}}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	path := func(m *config.StringMatch) config.Match { return config.Match{Path: m} }
	host := func(m *config.StringMatch) config.Match { return config.Match{Host: m} }
	req := get("/x/..//%61pi/a?q=1", "x-plan", " pro\t", "x-plan", "free", "x-empty", "")
	req.headers[2][1] = "API.example.com.:8080"
	for _, tt := range []struct {
		name  string
		match config.Match
		want  bool
	}{
		{"everything", config.Match{}, true},

		{"path exact", path(op(config.Exact, "/api/a")), true},
		{"path exact prefix", path(op(config.Exact, "/api")), false},
		{"path exact raw", path(op(config.Exact, "/x/..//%61pi/a")), false},
		{"path exact in another spelling", path(op(config.Exact, "/api/%61")), true},
		{"path prefix", path(op(config.Prefix, "/api/")), true},
		{"path prefix raw", path(op(config.Prefix, "/x/")), false},
		{"path suffix", path(op(config.Suffix, "pi/a")), true},
		{"path suffix with query", path(op(config.Suffix, "q=1")), false},
		{"path contains", path(op(config.Contains, "pi/")), true},
		{"path contains not", path(op(config.Contains, "x")), false},
		{"path regex", path(op(config.Regex, "^/(api|v[0-9]+)/")), true},
		{"path regex anywhere", path(op(config.Regex, "p.")), true},
		{"path regex not", path(op(config.Regex, "^api")), false},
		{"path present", path(isPresent(true)), true},
		{"path absent", path(isPresent(false)), false},

		{"host exact", host(op(config.Exact, "api.example.com")), true},
		{"host exact, fully qualified", host(op(config.Exact, "api.example.com.")), true},
		{"host exact not", host(op(config.Exact, "example.com")), false},
		{"host prefix", host(op(config.Prefix, "api.")), true},
		{"host suffix", host(op(config.Suffix, ".example.com")), true},
		{"host regex", host(op(config.Regex, `^[a-z.]+$`)), true},

		{"method", config.Match{Methods: []string{"POST", "GET"}}, true},
		{"other method", config.Match{Methods: []string{"POST"}}, false},
		{"method in another case", config.Match{Methods: []string{"get"}}, false},

		{"header exact", header("x-plan", op(config.Exact, "pro")), true},
		{"header exact, second value", header("x-plan", op(config.Exact, "free")), false},
		{"header present", header("x-plan", isPresent(true)), true},
		{"header not absent", header("x-plan", isPresent(false)), false},
		{"empty header present", header("x-empty", isPresent(true)), true},
		{"empty header exact", header("x-empty", op(config.Exact, "")), true},
		{"missing header present", header("x-none", isPresent(true)), false},
		{"missing header absent", header("x-none", isPresent(false)), true},
		{"missing header exact", header("x-none", op(config.Exact, "")), false},
		{"missing header regex", header("x-none", op(config.Regex, "")), false},

		{"not", config.Match{Not: &config.Match{Path: op(config.Prefix, "/api")}}, false},
		{"not other", config.Match{Not: &config.Match{Path: op(config.Prefix, "/v2")}}, true},
		{"not not", config.Match{Not: &config.Match{Not: &config.Match{Methods: []string{"GET"}}}}, true},
		{"not all", config.Match{Not: &config.Match{Methods: []string{"GET"}, Path: op(config.Prefix, "/v2")}}, true},
		{"both", config.Match{Methods: []string{"GET"}, Path: op(config.Prefix, "/api")}, true},
		{"first only", config.Match{Methods: []string{"GET"}, Path: op(config.Prefix, "/v2")}, false},
		{"second only", config.Match{Methods: []string{"PUT"}, Path: op(config.Prefix, "/api")}, false},
		{"match but not", config.Match{Methods: []string{"GET"}, Not: &config.Match{Path: op(config.Prefix, "/api")}}, false},
	} {
		r := counted("r")
		r.Match = tt.match
		if got := len(tags(compile(t, r), req)) == 1; got != tt.want {
			t.Errorf("%s: matches %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestMatchNonASCIIPath(t *testing.T) {
	t.Parallel()
	r := counted("r")
	r.Match.Path = op(config.Prefix, "/caf\xc3\xa9/")
	set := compile(t, r)
	for _, target := range []string{"/caf\xc3\xa9/x", "/caf%C3%A9/x", "/caf%c3%a9/x"} {
		if len(tags(set, get(target))) != 1 {
			t.Errorf("%q does not match", target)
		}
	}
}

func TestMatchWithoutPseudoHeaders(t *testing.T) {
	t.Parallel()
	for _, m := range []config.Match{
		{Path: op(config.Contains, "")},
		{Host: op(config.Contains, "")},
		{Methods: []string{""}},
	} {
		r := counted("r")
		r.Match = m
		if got := tags(compile(t, r), &request{}); got != nil {
			t.Errorf("%+v matches a request that has none", m)
		}
	}
}
