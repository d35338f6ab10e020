package rule

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// warnings returns what Missing says over so many requests: the names of the rules.
func warnings(s *Set, m *Matcher, n int, req *request) (rules []string) {
	for range n {
		s.Apply(req, m)
		if a := m.Missing(); a != nil {
			rules = append(rules, a.Rule.Name)
		}
	}
	return rules
}

func TestMissing(t *testing.T) {
	t.Parallel()
	const sub, plan, defaulted = `"key": [{"metadata": ["jwt", "sub"]}]`, `"key": [{"property": ["jwt", "plan"]}]`,
		`"key": [{"metadata": ["jwt", "sub"], "default": ""}]`
	for _, tt := range []struct {
		name  string
		rules []string
		want  []string
	}{
		{"metadata", []string{`"name": "first", ` + sub, `"name": "second", ` + sub}, []string{"first"}},
		{"a property", []string{plan}, []string{"r"}},
		{"a tier's source", []string{tieredBy(`{"property": ["jwt", "plan"]}`, "", "")}, []string{"r"}},
		{"with a default", []string{defaulted}, nil},
		{
			"with a default, and without",
			[]string{`"name": "first", ` + defaulted, `"name": "second", ` + sub},
			[]string{"second"},
		},
		{"no request came", []string{`"match": {"methods": ["POST"]}, ` + sub}, nil},
		{"a header", []string{`"key": [{"header": "x-none"}]`}, nil},
		{"two", []string{`"name": "first", ` + sub, `"name": "second", ` + plan}, []string{"first", "second"}},
	} {
		var m Matcher
		testenv.SameList(t, tt.name, warnings(compile(t, tt.rules...), &m, 5*absentRequests, get("/")), tt.want)
	}
}

// An attribute that a request had once is not missing.
func TestSeenOnce(t *testing.T) {
	t.Parallel()
	set := compile(t, `"key": [{"metadata": ["jwt", "sub"]}]`)
	had := get("/", "metadata.filter_metadata.jwt.sub", "alice")
	var m Matcher
	got := warnings(set, &m, absentRequests-1, get("/"))
	got = append(got, warnings(set, &m, 1, had)...)
	got = append(got, warnings(set, &m, 5*absentRequests, get("/"))...)
	testenv.SameList(t, "missing in the rules", got, nil)
}
