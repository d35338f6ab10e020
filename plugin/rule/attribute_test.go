package rule

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
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
	sub := fromMetadata("jwt", "sub")
	plan := fromProperty("jwt", "plan")
	withDefault := sub
	withDefault.HasDefault = true
	header := fromHeader("x-none")
	onlyPost := counted("post", sub)
	onlyPost.Match.Methods = []string{"POST"}
	for _, tt := range []struct {
		name  string
		rules []config.Rule
		want  []string
	}{
		{
			name: "metadata", want: []string{"first"},
			rules: []config.Rule{counted("first", sub), counted("second", sub)},
		},
		{name: "a property", rules: []config.Rule{counted("r", plan)}, want: []string{"r"}},
		{name: "a tier's source", rules: []config.Rule{tiered(plan, "")}, want: []string{"r"}},
		{name: "with a default", rules: []config.Rule{counted("r", withDefault)}},
		{
			name: "with a default, and without", want: []string{"second"},
			rules: []config.Rule{counted("first", withDefault), counted("second", sub)},
		},
		{name: "no request came", rules: []config.Rule{onlyPost}},
		{name: "a header", rules: []config.Rule{counted("r", header)}},
		{
			name: "two", want: []string{"first", "second"},
			rules: []config.Rule{counted("first", sub), counted("second", plan)},
		},
	} {
		var m Matcher
		testenv.SameList(t, tt.name, warnings(compile(t, tt.rules...), &m, 5*absentRequests, get("/")), tt.want)
	}
}

// An attribute that a request had once is not missing.
func TestSeenOnce(t *testing.T) {
	t.Parallel()
	set := compile(t, counted("r", fromMetadata("jwt", "sub")))
	had := get("/")
	had.properties = map[string]string{"metadata.filter_metadata.jwt.sub": "alice"}
	var m Matcher
	got := warnings(set, &m, absentRequests-1, get("/"))
	got = append(got, warnings(set, &m, 1, had)...)
	got = append(got, warnings(set, &m, 5*absentRequests, get("/"))...)
	testenv.SameList(t, "missing in the rules", got, nil)
}
