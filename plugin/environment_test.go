package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	t.Parallel()
	const text = "A=1\x00EMPTY=\x00AB=2\x00TWICE=first\x00TWICE=second\x00EQUAL=x=y=\x00NO\x00LAST=9\x00"
	for _, test := range []struct {
		name, environment, variable string
		value                       string
		ok                          bool
	}{
		{name: "first", environment: text, variable: "A", value: "1", ok: true},
		{name: "begins like another", environment: text, variable: "AB", value: "2", ok: true},
		{name: "last", environment: text, variable: "LAST", value: "9", ok: true},
		{name: "empty value", environment: text, variable: "EMPTY", ok: true},
		{name: "value with =", environment: text, variable: "EQUAL", value: "x=y=", ok: true},
		{name: "twice", environment: text, variable: "TWICE", value: "first", ok: true},
		{name: "absent", environment: text, variable: "B"},
		{name: "part of a name", environment: text, variable: "E"},
		{name: "without =", environment: text, variable: "NO"},
		{name: "no environment", variable: "A"},
		{name: "no NUL at the end", environment: "A=1", variable: "A", value: "1", ok: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			value, ok := lookup([]byte(test.environment), test.variable)
			if value != test.value {
				t.Errorf("value %q, want %q", value, test.value)
			}
			if ok != test.ok {
				t.Errorf("ok is %v, want %v", ok, test.ok)
			}
		})
	}
}

// envRules are rules, each with another kind of key, and the identities that they
// make of acme and beta.
var envRules = []struct {
	name, fields string
	identities   []string
}{
	{
		name: "tenant-and-path", fields: `"key": [{"header": "x-tenant"}, {"path": {"segments": 2}}]`,
		identities: []string{"acme|/api/cart", "beta|/api/cart"},
	},
	{
		name: "tenant", fields: `"mode": "shadow", "key": [{"header": "x-tenant"}]`,
		identities: []string{"acme", "beta"},
	},
	{
		name: "hashed", fields: `"key": [{"header": "x-tenant", "hash": true}]`,
		identities: []string{ // sha256sum, cut to 40 digits
			"822b33ad87c148a0a20a5ba7cd5ebcaa68d36a18", "f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f2",
		},
	},
	{name: "everyone", fields: `"key": []`, identities: []string{""}},
}

// A password from the environment, of any length and among other variables,
// leaves alone what the plugin keeps on its heap: each rule counts each identity
// under the key that is its own.
func TestSecretsFromTheEnvironment(t *testing.T) {
	t.Parallel()
	orders := [][]int{{0, 1}, {1, 0}, {2, 0, 1, 3}, {3, 1, 0, 2}, {0}, {1, 2, 3, 0}}
	for _, size := range []int{6, 17, 64, 200, 1000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				password := strings.Repeat("s3cret-", size/7+1)[:size]
				w.Env["REDIS_PASSWORD"] = password
				for n := range 10 {
					w.Env[fmt.Sprintf("VARIABLE_%d", n)] = strings.Repeat("x", n*n*10)
				}
				r := w.startRedis()
				r.Password = password
				for _, order := range orders {
					w := w.sibling()
					var rules, want []string
					for _, n := range order {
						rules = append(rules, fmt.Sprintf(`    {
      "name": "%s",
      "match": {"path": {"prefix": "/api"}},
      %s,
      "limits": [{"algorithm": "gcra", "limit": 100, "window": "1h"}]
    }`, envRules[n].name, envRules[n].fields))
						for _, identity := range envRules[n].identities { // of acme and beta
							want = append(want, "shop:{"+envRules[n].name+"|"+identity+"}")
						}
					}
					slices.Sort(want)
					i := w.load(fmt.Sprintf(`{
  "redis": {
    "cluster": "redis",
    "timeout": "50ms",
    "password_env": "REDIS_PASSWORD",
    "key_prefix": "shop"
  },
  "rules": [
%s
  ]
}`, strings.Join(rules, ",\n")))
					for range 20 {
						for _, tenant := range []string{"acme", "beta"} {
							x := i.get("/api/cart/7", "x-tenant", tenant)
							r.settle()
							if got := x.end(); !strings.HasPrefix(got, "200 allowed ") {
								w.t.Errorf("rules %v, tenant %s: %s, want 200 allowed", order, tenant, got)
							}
						}
					}
					got := r.keys("")
					for i, key := range got {
						got[i] = key[:strings.Index(key, "}")+1]
					}
					slices.Sort(got)
					if !slices.Equal(got, want) {
						w.t.Errorf("rules %v: keys %q, want %q", order, got, want)
					}
					r.Restart()
				}
			})
		})
	}
}
