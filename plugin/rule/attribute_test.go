package rule

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestMissing holds of which rules Missing warns over many requests. An attribute that a request had once is
// not missing.
func TestMissing(t *testing.T) {
	t.Parallel()
	const sub, plan, defaulted = `"key": [{"metadata": ["jwt", "sub"]}]`, `"key": [{"property": ["jwt", "plan"]}]`,
		`"key": [{"metadata": ["jwt", "sub"], "default": ""}]`
	for _, tt := range []struct {
		name  string
		rules []string
		has   int // the request that has what rules read; 0: none
		want  []string
	}{
		{"metadata", []string{`"name": "first", ` + sub, `"name": "second", ` + sub}, 0, []string{"first"}},
		{"a property", []string{plan}, 0, []string{"r"}},
		{"a tier's source", []string{tieredBy(`{"property": ["jwt", "plan"]}`, "", "")}, 0, []string{"r"}},
		{"with a default", []string{defaulted}, 0, nil},
		{
			"with a default, and without",
			[]string{`"name": "first", ` + defaulted, `"name": "second", ` + sub},
			0,
			[]string{"second"},
		},
		{"no request came", []string{`"match": {"methods": ["POST"]}, ` + sub}, 0, nil},
		{"a header", []string{`"key": [{"header": "x-none"}]`}, 0, nil},
		{"two", []string{`"name": "first", ` + sub, `"name": "second", ` + plan}, 0, []string{"first", "second"}},
		{"seen once", []string{sub}, absentRequests, nil},
		{"seen too late", []string{sub}, absentRequests + 1, []string{"r"}},
	} {
		set := compile(t, tt.rules...)
		var m Matcher
		var warned []string
		for n := range 5 * absentRequests {
			req := get("/")
			if n+1 == tt.has {
				req = get("/", "metadata.filter_metadata.jwt.sub", "alice")
			}
			set.Apply(req, &m)
			if a := m.Missing(); a != nil {
				warned = append(warned, a.Rule.Name)
			}
		}
		testenv.SameList(t, tt.name, warned, tt.want)
	}
}
