package advice

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// TestPatterns: what "matches" is given is one text that Envoy compiles quickly, or a mistake.
func TestPatterns(t *testing.T) {
	t.Parallel()
	const rule = `{"rules": [{"name": "r", "match": {"expr": %},
		"limits": [{"algorithm": "gcra", "limit": 10, "window": "1s"}]}]}`
	for _, c := range []struct {
		expr string
		want []string
	}{
		{`"request.path.matches('^/v[0-9]+/')"`, nil},
		{
			`"request.headers['x-a'].matches('a.{0,900}b') || matches(request.path, r'(')"`,
			[]string{
				`sluice: rules[0].match.expr: matches("a.{0,900}b"): the regular expression is too large (want one with fewer or ` +
					`smaller repetitions and alternatives) (mistake 1 of 2)`,
				"sluice: rules[0].match.expr: matches(\"(\"): it is not a regular expression: missing closing ): `(` (want RE2 " +
					`syntax, such as '^/v[0-9]+/') (mistake 2 of 2)`,
			},
		},
		{
			`"request.path.matches(request.headers['x-a'])"`,
			[]string{`sluice: rules[0].match.expr: the pattern of "matches" is not one text in quotes, so that nothing bounds ` +
				`the time it takes (want one such as matches('^/v[0-9]+/'))`},
		},
		{
			`"request.path.matches('.{300}')"`,
			[]string{`sluice: rules[0].match.expr: matches(".{300}"): compiled with each evaluation, the regular expression ` +
				`takes too long (want one with fewer or smaller repetitions, or classes of fewer characters beyond ASCII)`},
		},
	} {
		cfg, err := config.Parse([]byte(strings.Replace(rule, "%", c.expr, 1)))
		testenv.OK(t, err)
		testenv.SameList(t, c.expr, Patterns(cfg).Lines(), c.want)
	}
}

func TestReadsPath(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want bool
	}{
		{text: `request.path == '/a'`, want: true},
		{text: `request . path == '/a'`, want: true},
		{text: `request.url_path.startsWith('/a')`, want: true},
		{text: `request["path"] == '/a'`, want: true},
		{text: `request.headers[":path"] == '/a'`, want: true},
		{text: `request.method == 'GET'`, want: false},
		{text: `request.headers['path'] == 'a'`, want: false},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			if got := reads(tt.text, pathAttributes); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// Rules whose identity is an expression, which %s is.
const (
	byKey = `{"name": "e", "key": [{"expr": %s}], "limits": [{"algorithm": "gcra", "limit": 1, "window": "1s"}]}`
	byPer = `{"name": "e", "key": [], "limits": [
		{"algorithm": "gcra", "limit": 1, "window": "1s", "name": "each", "per": [{"expr": %s}]}]}`
	byPerOfTier = `{"name": "e", "key": [], "limits_by": {"source": {"header": "x-plan"}, "values": {"pro": [
		{"algorithm": "gcra", "limit": 1, "window": "1s", "name": "each", "per": [{"expr": %s}]}]}}}`
)

// TestQuotaByExpression: a note names a rule that may show another identity's quota.
func TestQuotaByExpression(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		expr, rule string
		told       bool
	}{
		{"request.path", byKey, true},
		{`request["method"] + '-'`, byKey, true},
		{"request.query", byKey, true},
		{"request.headers[':method']", byKey, true},
		{"request.headers['x-a']", byKey, false},
		{"request.path", byPer, true},
		{"request.headers['x-a']", byPer, false},
		{"request.path", byPerOfTier, true},
		{"request.headers['x-a']", byPerOfTier, false},
	} {
		expr, _ := json.Marshal(tc.expr)
		cfg, err := config.Parse(fmt.Appendf(nil, `{"quota": {"path": "/q", "rules": ["e"]}, "rules": [%s]}`,
			fmt.Sprintf(tc.rule, expr)))
		testenv.OK(t, err)
		told, reads := 0, 0
		for _, note := range Notes(cfg) {
			if note.Path == "quota.rules[0]" {
				told++
			}
			if strings.Contains(note.Problem, ": reads the path as the client wrote it") {
				reads++
			}
		}
		testenv.Same(t, tc.expr, told == 1, tc.told)
		testenv.Same(t, tc.expr+" reads the path", reads == 1, tc.expr == "request.path")
	}
}
