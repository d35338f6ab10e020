package advice

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// TestMayLack names, for the first rule, the components that requests may lack.
func TestMayLack(t *testing.T) {
	t.Parallel()
	const limits = `"limits": [{"algorithm": "gcra", "limit": 1, "window": "1s"}]`
	for _, c := range []struct {
		what, rule, others string
		want               int
	}{
		{"no key", `"key": []`, "", 0},
		{"a header", `"key": [{"header": "x-a"}]`, "", 1},
		{"with a default", `"key": [{"header": "x-a", "default": "b"}]`, "", 0},
		{
			"several", `"key": [{"cookie": "a"}, {"query": "b"}, {"metadata": ["c", "d"]}, {"property": ["e"]}, {"expr": "f"}]`,
			"", 5,
		},
		{"what every request has", `"key": [{"client_ip": true}, {"path": true}, {"method": true}, {"host": true}, ` +
			`{"constant": "a"}]`, "", 0},
		{
			"a header that the match demands", `"match": {"headers": {"x-a": {"prefix": "b"}}}, "key": [{"header": "X-A"}]`,
			"", 0,
		},
		{
			"a parameter that the match demands", `"match": {"query": {"a": {"present": true}}}, "key": [{"query": "a"}]`,
			"", 0,
		},
		{"a cookie of that name in the match", `"match": {"cookies": {"a": "b"}}, "key": [{"query": "a"}]`, "", 1},
		{
			"a rule for those without the cookie", `"key": [{"cookie": "a"}]`,
			`{"name": "none", "match": {"cookies": {"a": {"present": false}}}, ` + limits + `}`, 0,
		},
		{"another header in the match", `"match": {"headers": {"x-b": "b"}}, "key": [{"header": "x-a"}]`, "", 1},
		{"a rule that is off", `"mode": "off", "key": [{"header": "x-a"}]`, "", 0},
		{
			"a rule for those without it", `"key": [{"header": "x-a"}]`,
			`{"name": "none", "match": {"headers": {"x-a": {"present": false}}}, ` + limits + `}`, 0,
		},
		{
			"such a rule in shadow", `"key": [{"header": "x-a"}]`,
			`{"name": "none", "mode": "shadow", "match": {"headers": {"x-a": {"present": false}}}, ` + limits + `}`, 1,
		},
		{
			"a rule for those with it", `"key": [{"header": "x-a"}]`,
			`{"name": "some", "match": {"headers": {"x-a": {"present": true}}}, ` + limits + `}`, 1,
		},
	} {
		text := fmt.Sprintf(`{"rules": [{"name": "r", %s, %s}`, c.rule, limits)
		if c.others != "" {
			text += ", " + c.others
		}
		cfg, err := config.Parse([]byte(text + "]}"))
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if got := len(mayLack(cfg, &cfg.Rules[0])); got != c.want {
			t.Errorf("%s: %d components, want %d", c.what, got, c.want)
		}
	}
}
