package e2e

import (
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// envoyPage has the blocks of docs/envoy.md, in their order.
type envoyPage struct{ filter, cluster, manager, stats, environment any }

func readEnvoyPage(t *testing.T) envoyPage {
	t.Helper()
	found := blocks(t, "docs/envoy.md", "", "yaml")
	if len(found) != 5 {
		t.Fatalf("docs/envoy.md has %d blocks of YAML, want 5", len(found))
	}
	values := make([]any, len(found))
	for i, block := range found {
		testenv.OK(t, yaml.Unmarshal([]byte(block), &values[i]))
	}
	return envoyPage{
		values[0].([]any)[0], values[1].([]any)[0], values[2], values[3].(map[string]any)["stats_config"],
		values[4],
	}
}

// TestEnvoyPageIsTheShippedFile holds what docs/envoy.md has people copy to envoy.yaml,
// but for rules, addresses and paths.
func TestEnvoyPageIsTheShippedFile(t *testing.T) {
	t.Parallel()
	page := readEnvoyPage(t)
	text := testenv.File(t, "envoy.yaml")
	shipped, err := envoyconf.Parse(text)
	testenv.OK(t, err)
	shipped.SetWasm("/etc/envoy/sluice.wasm")
	shipped.Set(envoyconf.Bridge+"/vm_config/code", map[string]any{
		"local": map[string]any{"filename": "/etc/envoy/bridge.wasm"},
	})
	configuration := page.filter.(map[string]any)
	for _, name := range []string{"typed_config", "config", "configuration"} {
		configuration = configuration[name].(map[string]any)
	}
	shipped.SetPlugin(configuration["value"].(string))
	shipped.Set(envoyconf.RedisCluster+"/type", "STRICT_DNS")
	shipped.SetRedis("redis.example.com:6379")
	manager := map[string]any{}
	for name := range page.manager.(map[string]any) {
		manager[name] = shipped.Get(envoyconf.ConnectionManager + "/" + name)
	}
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"the filter", page.filter, shipped.Get(envoyconf.LimiterFilter)},
		{"the cluster", page.cluster, shipped.Get(envoyconf.RedisCluster)},
		{"the connection manager's fields", page.manager, manager},
		{"stats_config", page.stats, shipped.Get("stats_config")},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("docs/envoy.md: %s is\n%v\nenvoy.yaml has\n%v\n(copy it into the page)", c.what, c.got, c.want)
		}
	}
}

// TestEnvoyPageWarns holds that the page says what its settings change for all traffic (shippedListener has Envoy
// answer so), and what becomes of metrics.
func TestEnvoyPageWarns(t *testing.T) {
	t.Parallel()
	text := testenv.File(t, "docs/envoy.md")
	_, section, _ := strings.Cut(string(text), "\n## 3. ")
	settings, rest, _ := strings.Cut(section, "\n## 4. ")
	labels, _, _ := strings.Cut(rest, "\n## ")
	for section, words := range map[string][]string{
		settings: {"**all** traffic", "400", "307", "431"},
		labels:   {"Merge it", "`stats_matcher`", "stands twice"},
	} {
		for _, word := range words {
			testenv.Same(t, word+" is in the section", strings.Contains(section, word), true)
		}
	}
}

// TestEnvoyPageLimits copies the blocks into an Envoy without Sluice.
func TestEnvoyPageLimits(t *testing.T) {
	page := readEnvoyPage(t)
	t.Setenv("REDIS_PASSWORD", password)
	server := redistest.Start(t, "--requirepass", password)
	s := start(t, "", envoytest.Options{Redis: []string{server.Addr}, Edit: func(c *envoyconf.Config) {
		const filters = envoyconf.ConnectionManager + "/http_filters"
		router := c.Get(filters).([]any)[1]
		c.Set(filters, []any{page.filter, router})
		for name, value := range page.manager.(map[string]any) {
			c.Set(envoyconf.ConnectionManager+"/"+name, value)
		}
		c.Set(envoyconf.RedisCluster, page.cluster)
		c.Set("stats_config", page.stats)
		for name, value := range page.environment.(map[string]any) {
			c.Set(envoyconf.Limiter+"/vm_config/"+name, value)
		}
		rules := c.Get(envoyconf.Limiter + "/configuration/value").(string)
		c.SetPlugin(strings.NewReplacer(
			`{"cluster": "redis"}`, `{"cluster": "redis", "password_env": "REDIS_PASSWORD", "timeout": "10s"}`,
			`"window": "1s"`, `"window": "1h"`, // no units come back meanwhile
		).Replace(rules))
		c.SetRedis(server.Addr)
		c.SetWasm(testenv.WasmPath(t))
		c.Set(envoyconf.Bridge+"/vm_config/code/local/filename", filepath.Join(testenv.Root(t), "bridge", "bridge.wasm"))
	}})
	for _, v := range []struct {
		what    string
		path    string
		headers []string
		admits  int
	}{
		{"logins", "/login", []string{":method: POST"}, 5},
		{"calls with a key", "/api/x", []string{"x-api-key: alice"}, 20},
		{"calls without", "/api/x", nil, 5},
	} {
		admitted := 0
		for range 30 {
			r := get(t, s.URL+v.path, v.headers...)
			if r.status == http.StatusTooManyRequests && r.header.Get("Retry-After") != "" {
				break
			}
			admitted++
		}
		testenv.Same(t, v.what+" admitted before the first 429", admitted, v.admits)
	}
}
