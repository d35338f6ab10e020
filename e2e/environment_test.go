package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
)

// environmentRules are rules by name, with the identities that requests by acme
// and beta to /api/cart have.
var environmentRules = map[string]struct {
	members    string
	identities []string
}{
	"tenant-and-path": {
		members:    `"key": [{"header": "x-tenant"}, {"path": {"segments": 2}}]`,
		identities: []string{"acme|/api/cart", "beta|/api/cart"},
	},
	"tenant": {
		members:    `"mode": "shadow", "key": [{"header": "x-tenant"}]`,
		identities: []string{"acme", "beta"},
	},
	"hashed": {
		members:    `"key": [{"header": "x-tenant", "hash": true}]`,
		identities: []string{"822b33ad87c148a0a20a5ba7cd5ebcaa68d36a18", "f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f2"},
	},
	"everyone": {members: `"key": []`, identities: []string{""}},
}

// environmentConfig is a configuration with these rules in this order, laid out
// over many lines.
func environmentConfig(keyPrefix string, rules ...string) string {
	var list []string
	for _, name := range rules {
		list = append(list, fmt.Sprintf(`    {
      "name": "%s",
      "match": {"path": {"prefix": "/api"}},
      %s,
      "limits": [{"algorithm": "gcra", "limit": 3, "window": "366d"}]
    }`, name, environmentRules[name].members))
	}
	return fmt.Sprintf(`{
  "redis": {
    "cluster": "redis",
    "timeout": "2s",
    "password_env": "REDIS_PASSWORD",
    "key_prefix": "%s"
  },
  "failure": {"mode": "deny"},
  "rules": [
%s
  ]
}`, keyPrefix, strings.Join(list, ",\n"))
}

// environmentOrders are rules in several orders, each for a listener of its own.
// The first is the main listener's.
var environmentOrders = map[string][]string{
	"shop":    {"tenant-and-path", "tenant"},
	"swapped": {"tenant", "tenant-and-path"},
	"four":    {"hashed", "tenant-and-path", "tenant", "everyone"},
	"back":    {"everyone", "tenant", "tenant-and-path", "hashed"},
}

// TestSecretsFromTheEnvironment: a password of any length, among ten other
// variables, leaves alone what the plugin has in memory: each rule counts each
// tenant under the key that is its own.
func TestSecretsFromTheEnvironment(t *testing.T) {
	for _, size := range []int{6, 17, 64, 200, 1000} {
		for _, others := range []int{0, 10} {
			t.Run(fmt.Sprintf("%d characters, %d other variables", size, others), func(t *testing.T) {
				t.Parallel()
				checkSecret(t, strings.Repeat("s3cret-", size/7+1)[:size], others)
			})
		}
	}
}

func checkSecret(t *testing.T, secret string, others int) {
	t.Helper()
	server := redistest.Start(t, "--requirepass", secret)
	variables := map[string]any{"REDIS_PASSWORD": secret}
	for n := range others {
		variables[fmt.Sprintf("VARIABLE_%d", n)] = strings.Repeat("x", n*n*10)
	}
	options := envoytest.Options{
		Redis: []string{server.Addr}, Workers: 1, Beside: map[string]string{},
		Edit: func(c *envoyconf.Config) {
			c.Set(envoyconf.Limiter+"/vm_config/environment_variables", map[string]any{"key_values": variables})
		},
	}
	var want []string
	for prefix, rules := range environmentOrders {
		if prefix != "shop" {
			options.Beside[prefix] = environmentConfig(prefix, rules...)
		}
		for _, name := range rules {
			for _, identity := range environmentRules[name].identities {
				want = append(want, prefix+":{"+name+"|"+identity+"}")
			}
		}
	}
	s := start(t, environmentConfig("shop", environmentOrders["shop"]...), options)
	for prefix, rules := range environmentOrders {
		url := s.URL
		if prefix != "shop" {
			url = s.Beside[prefix]
		}
		checkTenants(t, prefix, url, slices.Contains(rules, "everyone"))
	}
	expectKeys(t, server, secret, want)
}

// checkTenants wants a limit of 3 for each tenant, or for both together.
func checkTenants(t *testing.T, prefix, url string, together bool) {
	t.Helper()
	for n := range 4 {
		for k, tenant := range []string{"acme", "beta"} {
			before := n // requests that count against the same limit
			if together {
				before = n*2 + k
			}
			want := http.StatusOK
			if before >= 3 {
				want = http.StatusTooManyRequests
			}
			if r := get(t, url+"/api/cart/7", "x-tenant: "+tenant); r.status != want {
				t.Errorf("%s, tenant %s: request %d has status %d, want %d", prefix, tenant, n+1, r.status, want)
				return
			}
		}
	}
}

// expectKeys wants these keys in Redis, up to the end of their hash tags.
func expectKeys(t *testing.T, server *redistest.Server, password string, want []string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Password: password})
	t.Cleanup(func() { client.Close() })
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		keys[i] = key[:strings.Index(key, "}")+1]
	}
	for _, key := range keys {
		if !slices.Contains(want, key) {
			t.Errorf("Redis has the key %s, which belongs to no rule and tenant", key)
		}
	}
	for _, key := range want {
		if !slices.Contains(keys, key) {
			t.Errorf("Redis lacks the key %s", key)
		}
	}
	if len(keys) != len(want) {
		t.Errorf("%d keys, want %d", len(keys), len(want))
	}
}
