package advice

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

const limit = `"limits": [{"algorithm": "gcra", "limit": 5, "window": "1s"}]`

// followed are pairs of rules, and whether the first hides the second.
var followed = []struct {
	name   string
	first  string // the fields of the rule before
	second string // the match of the rule after it
	hidden bool
}{
	{"everything is exempt", `"exempt": true`, `{}`, true},
	{
		"an exempt prefix", `"exempt": true, "match": {"path": {"prefix": "/a"}}`, `{"path": "/a/b", "methods": ["GET"]}`,
		true,
	},
	{
		"an exempt prefix of others", `"exempt": true, "match": {"path": {"prefix": "/a"}}`,
		`{"path": {"prefix": "/"}}`, false,
	},
	{"a narrower exemption", `"exempt": true, "match": {"path": "/a", "methods": ["GET"]}`, `{"path": "/a"}`, false},
	{"exempt methods", `"exempt": true, "match": {"methods": ["GET", "PUT"]}`, `{"methods": ["PUT"]}`, true},
	{"an exempt suffix", `"exempt": true, "match": {"host": {"suffix": ".b"}}`, `{"host": "a.b"}`, true},
	{
		"an exempt header", `"exempt": true, "match": {"headers": {"x-a": {"present": true}}}`,
		`{"headers": {"x-a": "1"}}`, true,
	},
	{
		"an absent header", `"exempt": true, "match": {"headers": {"x-a": {"present": false}}}`,
		`{"headers": {"x-a": "1"}}`, false,
	},
	{
		"an exempt cookie", `"exempt": true, "match": {"cookies": {"a": {"prefix": "1"}}}`, `{"cookies": {"a": "12"}}`, true,
	},
	{
		"another cookie", `"exempt": true, "match": {"cookies": {"a": {"prefix": "1"}}}`, `{"query": {"a": "12"}}`, false,
	},
	{"an exempt query", `"exempt": true, "match": {"query": {"a": "1"}}`, `{"query": {"b": "2", "a": "1"}}`, true},
	{"another query", `"exempt": true, "match": {"query": {"a": "1"}}`, `{"query": {"a": "2"}}`, false},
	{
		"an exempt network", `"exempt": true, "match": {"client_ip": ["10.0.0.0/8"]}`,
		`{"client_ip": ["10.1.0.0/16"]}`, true,
	},
	{
		"another network", `"exempt": true, "match": {"client_ip": ["10.0.0.0/8"]}`,
		`{"client_ip": ["11.1.0.0/16"]}`, false,
	},
	{"an exemption's exception", `"exempt": true, "match": {"not": {"path": "/a"}}`, `{"path": "/a"}`, false},
	{
		"the same exception", `"exempt": true, "match": {"not": {"path": "/a"}}`, `{"not": {"path": {"prefix": "/"}}}`,
		true,
	},
	{"an expression", `"exempt": true, "match": {"expr": "true"}`, `{"path": "/a"}`, false},
	{"nothing is admitted", `"limits": [{"algorithm": "fixed_window", "limit": 0, "window": "1d"}]`, `{}`, true},
	{
		"nothing of some is admitted",
		`"key": [{"header": "x"}], "limits": [{"algorithm": "fixed_window", "limit": 0, "window": "1d"}]`, `{}`, false,
	},
	{
		"nothing is admitted, in shadow",
		`"mode": "shadow", "limits": [{"algorithm": "fixed_window", "limit": 0, "window": "1d"}]`, `{}`, false,
	},
	{
		"operators may free some", `"overrides": true, "limits": [{"algorithm": "fixed_window", "limit": 0, "window": "1d"}]`,
		`{}`, false,
	},
	{"a limit", limit, `{}`, false},
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, c := range followed {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := config.Parse([]byte(`{"redis": {"cluster": "r"}, "rules": [{"name": "first", ` + c.first +
				`}, {"name": "second", "match": ` + c.second + `, ` + limit + `}]}`))
			testenv.OK(t, err)
			var found list
			found.reach("rules[1]", cfg, &cfg.Rules[1], cfg.Rules[:1])
			if (len(found) == 1) != c.hidden {
				t.Errorf("%v, want some: %t", found, c.hidden)
			}
			if c.hidden && found[0].Path != "rules[1]" {
				t.Errorf("at %s", found[0].Path)
			}
		})
	}
}

func TestEvasions(t *testing.T) {
	const perBearer = `[{"name": "a", "algorithm": "gcra", "limit": 9, "window": "1s", "per": [{"bearer": true}]}]`
	t.Parallel()
	for _, tt := range []struct {
		rule string // its fields but for the limits
		want []string
	}{
		{`"key": [{"bearer": true}, {"header": "x"}]`, []string{"rules[0].key", "rules[0].key[0].bearer"}},
		{`"mode": "off", "key": [{"bearer": true}]`, nil},
		{`"limits": ` + perBearer, []string{"rules[0].limits", "rules[0].limits[0].per[0].bearer"}},
		{
			`"limits_by": {"source": {"header": "p"}, "values": {"pro": ` + perBearer + `}}`,
			[]string{"rules[0].limits_by.values.pro", "rules[0].limits_by.values.pro[0].per[0].bearer"},
		},
		{`"match": {"methods": ["POST"]}, "settle": {"status": ["401", "5xx"]}`, []string{"rules[0].settle.status"}},
		{`"match": {"methods": ["POST"]}, "settle": {"status": ["4xx", "200"]}`, nil},
		{`"match": {"methods": ["POST"]}, "settle": {"status": ["301-499"]}`, nil},
		{`"match": {"methods": ["GET"]}, "settle": {"status": ["401"]}`, nil},
		{`"match": {"path": {"regex": "^/a%3Ab$"}}`, []string{"rules[0].match.path.regex"}},
		{
			`"match": {"path": {"regex": "%2f|%2F|%0A|%25|%C3"}}`,
			[]string{"rules[0].match.path.regex", "rules[0].match.path.regex"},
		},
		{`"match": {"not": [{"path": "/a"}, {"path": {"regex": "%61"}}]}`, []string{"rules[0].match.not[1].path.regex"}},
		{`"match": {"host": {"regex": "%61"}}`, nil},
		{`"settle": {"cost": {"header": "x", "max": 9}, "missing": "release"}`, []string{"rules[0].settle.missing"}},
		{`"settle": {"cost": {"header": "x", "max": 9}, "missing": {"cost": 9}}`, nil},
		{`"settle": {"status": ["401"], "missing": "release"}`, nil},
	} {
		rule := `{"name": "r", ` + tt.rule
		if !strings.Contains(rule, `"limits`) {
			rule += ", " + limit
		}
		cfg, err := config.Parse([]byte(`{"rules": [` + rule + `}]}`))
		testenv.SameError(t, tt.rule, err, nil)
		var got []string
		for _, note := range Notes(cfg) {
			got = append(got, note.Path)
		}
		testenv.SameList(t, tt.rule, got, tt.want)
	}
}
