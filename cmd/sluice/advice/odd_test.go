package advice

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// odd are rules, and where the table finds something; "": nowhere.
var odd = []struct{ rule, at, says string }{
	{`"match": {"path": "/api/*"}`, "match.path", `"*" is a plain character`},
	{`"match": {"path": {"prefix": "/api/*"}}`, "match.path", `"*" is a plain character`},
	{`"match": {"path": {"regex": "^/search\\?q="}}`, "match.path", "without its query"},
	{`"match": {"path": {"regex": "^/a%2fb"}}`, "match.path", "in upper case"},
	{`"match": {"path": {"regex": "(?i)^/a%2fb"}}`, "", ""},
	{`"match": {"host": "*.example.com"}`, "match.host", `"*" is a plain character`},
	{`"match": {"host": {"regex": "^a\\.b:8080$"}}`, "match.host", "without its port"},
	{`"match": {"host": {"regex": "^API\\."}}`, "match.host", "in lower case"},
	{`"match": {"host": {"regex": "^(?i)API\\.\\S[A-Z]"}}`, "", ""},
	{`"match": {"headers": {"x-plan": " free "}}`, `match.headers["x-plan"]`, "without blanks around it"},
	{`"match": {"expr": "false"}`, "match.expr", "never holds"},
	{`"match": {"expr": "'a'"}`, "match.expr", "no condition"},
	{`"match": {"expr": "request.headers['x-plan']"}`, "match.expr", "no boolean"},
	{`"match": {"expr": "request.header['x-plan'] == 'a'"}`, "match.expr", `no attribute "header"`},
	{`"match": {"expr": "request.method == 'post'"}`, "match.expr", "upper case"},
	{`"match": {"not": {"expr": "request.method == \"post\""}}`, "match.not[0].expr", "upper case"},
	{`"match": {"expr": "request.headers['x-plan'] == 'a' && request.method == 'POST'"}`, "", ""},
	{`"match": {"path": "/a", "not": {"path": {"prefix": "/"}}}`, "match.not", "excludes all"},
	{`"match": {"path": {"prefix": "/"}, "not": {"path": "/a"}}`, "", ""},
	{`"match": {"headers": {"x-a": {"present": false}}}, "key": [{"header": "x-a"}]`, "key[0]", "never applies"},
	{`"match": {"headers": {"x-a": {"present": false}}}, "key": [{"header": "x-a", "default": "-"}]`, "", ""},
	{`"match": {"query": {"a": {"present": false}}}, "key": [{"query": "a"}]`, "key[0]", "never applies"},
	{`"match": {"cookies": {"a": {"present": false}}}, "key": [{"cookie": "a"}]`, "key[0]", "never applies"},
	{`"match": {"cookies": {"a": {"present": false}}}, "key": [{"query": "a"}]`, "", ""},
	{`"key": [{"property": ["source", "port"]}]`, "key[0]", "nobody is limited"},
	{`"key": [{"property": ["request", "id"]}]`, "key[0]", "nobody is limited"},
	{`"key": [{"property": ["connection", "id"]}]`, "key[0]", "nobody is limited"},
	{`"key": [{"property": ["request", "time"]}]`, "key[0]", "nobody is limited"},
	{`"key": [{"expr": "request.id"}]`, "key[0]", "nobody is limited"},
	{`"key": [{"query": "q="}]`, "key[0]", "no name of a query parameter"},
	{`"cost": 0`, "cost", "charges nothing"},
	{`"key": [{"header": "authorization", "hash": false}]`, "key[0]", "a credential"},
	{`"key": [{"header": "x-api-key"}]`, "key[0]", "a credential"},
	{`"key": [{"query": "access_token"}]`, "key[0]", "a credential"},
	{`"key": [{"header": "x-api-key", "hash": true}, {"header": "x-user"}]`, "", ""},
}

// oddPers are whole rules with a "per" that the table finds something about, wherever it stands.
var oddPers = []struct{ rule, at, says string }{
	{`"limits": [` + perOf(`"header": "x-api-key"`) + `]`, "limits[0].per[0]", "a credential"},
	{
		`"limits_by": {"source": {"header": "x-plan"}, "default": "pro", "values": {"free": "unlimited", "pro": [` +
			perOf(`"header": "x-user"`) + `, ` + strings.Replace(perOf(`"expr": "request.id"`), "1m", "1h", 1) + `]}}`,
		"limits_by.values.pro[1].per[0]", "nobody is limited",
	},
	{
		`"limits_by": {"source": {"header": "x-plan"}, "default": "a b", "values": {"a b": [` +
			perOf(`"header": "x-user"}, {"query": "access_token"`) + `]}}`,
		`limits_by.values["a b"][0].per[1]`, "a credential",
	},
	{
		limit + `, "over": {"limits": [` + perOf(`"property": ["connection", "id"]`) + `]}`,
		"over.limits[0].per[0]", "nobody is limited",
	},
}

// perOf is a limit that counts for each value of a component.
func perOf(component string) string {
	return `{"name": "of ` + fmt.Sprint(len(component)) +
		`", "algorithm": "gcra", "limit": 5, "window": "1m", "per": [{` + component + `}]}`
}

// exempts are matches of exempt rules.
var exempts = []struct{ rule, at, says string }{
	{`"match": {"path": {"prefix": "/"}}`, "match", "exempts every request"},
	{`"match": {"client_ip": ["0.0.0.0/0", "::/0"]}`, "match", "exempts every request"},
	{`"match": {"client_ip": ["0.0.0.0/0"]}`, "", ""},
	{`"match": {"query": {"a": "b"}}`, "", ""},
	{`"match": {"cookies": {"a": "b"}}`, "", ""},
	{`"match": {"headers": {"user-agent": "probe"}}`, "match.headers", "clients choose"},
}

// TestOdd holds what the table says of each rule.
func TestOdd(t *testing.T) {
	t.Parallel()
	for more, rules := range map[string][]struct{ rule, at, says string }{
		", " + limit: odd, "": oddPers, `, "exempt": true`: exempts,
	} {
		for _, c := range rules {
			cfg, err := config.Parse([]byte(`{"rules": [{"name": "r", ` + c.rule + more + `}]}`))
			testenv.OK(t, err)
			all := Warnings(cfg)
			if c.at == "" {
				testenv.Same(t, c.rule+": findings", len(all), 0)
				continue
			}
			if len(all) != 1 {
				t.Errorf("%s: %v, want one finding", c.rule, all)
				continue
			}
			testenv.Same(t, c.rule+": where", all[0].Path, "rules[0]."+c.at)
			says := strings.Contains(all[0].Problem, c.says)
			testenv.Same(t, c.rule+": that it says "+c.says+": "+all[0].Problem, says, true)
		}
	}
}
