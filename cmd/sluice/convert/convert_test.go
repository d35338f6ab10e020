package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// TestExamples converts each directory of testdata.
func TestExamples(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob("testdata/*")
	if err != nil || len(dirs) < 10 {
		t.Fatal(dirs, err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			files := map[string]File{} // those that the example has
			for _, name := range []string{"ratelimit.yaml", "envoy.yaml", "gateway.yaml", "local.yaml"} {
				if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
					files[name] = File{name, text}
				}
			}
			convert := func() (Result, error) { return RateLimit(files["ratelimit.yaml"], files["envoy.yaml"]) }
			if local, ok := files["local.yaml"]; ok {
				convert = func() (Result, error) { return Local(local) }
			} else if gateway, ok := files["gateway.yaml"]; ok {
				convert = func() (Result, error) { return Gateway(gateway) }
			}
			result, err := convert()
			testenv.SameError(t, lines(result.Differences), err, nil)
			if _, err := config.Parse(result.JSON); err != nil {
				t.Error(err)
			}
			if strings.Contains(string(result.JSON), "hunter2") {
				t.Error("the configuration has a secret")
			}
			testenv.Golden(t, filepath.Join(dir, "want.json"), string(result.JSON))
			testenv.Golden(t, filepath.Join(dir, "differences.txt"), lines(result.Differences))
		})
	}
}

func lines(differences []Difference) string {
	var s strings.Builder
	last := ""
	for _, d := range differences {
		if group := d.Group(); group != last {
			s.WriteString(group + "\n")
			last = group
		}
		s.WriteString("  " + d.Kind + ": " + d.Place() + ": " + d.Text + "\n")
	}
	return s.String()
}

const oneLimit = "domain: a\ndescriptors: [{key: a, rate_limit: {unit: second, requests_per_unit: 1}}]"

// TestRefused holds what is said of files that cannot be converted.
func TestRefused(t *testing.T) {
	t.Parallel()
	const other, loop = "rate_limits: [{actions: [{remote_address: {}}]}]", "domain: d\ndescriptors: &a\n- descriptors: *a"
	byRoutes := func(service string) func(File) (Result, error) {
		return func(routes File) (Result, error) { return RateLimit(File{"r", []byte(service)}, routes) }
	}
	for _, c := range []struct {
		name, text string
		convert    func(File) (Result, error)
		error      string
	}{
		{"not the service's file", "", byRoutes("a: 1"), `want "domain" and "descriptors"`},
		{"no YAML", "[", byRoutes(oneLimit), "neither YAML nor JSON"},
		{"an alias that leads into itself", "", byRoutes(loop), "aliases lead into themselves"},
		{"no rate_limits", "a: 1", byRoutes(oneLimit), "no rate_limits in Envoy's file that can be converted"},
		{"other descriptors", other, byRoutes(oneLimit), "nothing in it can be converted"},
		{"no local limits", "a: 1", Local, "no local_ratelimit with a token_bucket"},
		{"not Envoy Gateway's", "a: 1", Gateway, "no BackendTrafficPolicy with a rateLimit"},
	} {
		if _, err := c.convert(File{"f", []byte(c.text)}); err == nil || !strings.Contains(err.Error(), c.error) {
			t.Errorf("%s: error %v, want one with %s", c.name, err, c.error)
		}
	}
}

// routed are requests, by the name of their route, and the rules that apply.
var routed = []struct {
	name, example string
	route         string
	headers       []string
	want          string
}{
	{name: "an unlimited route", example: "routes", route: "health", headers: []string{"x-service: s"}},
	{name: "a limited route", example: "routes", route: "api", headers: []string{"x-service: s"}, want: "service-2"},
	{
		name: "the same limit on another", example: "routes", route: "rest", headers: []string{"x-service: s"},
		want: "service-2",
	},
	{name: "a wildcard", example: "routes", route: "rest", headers: []string{"x-service: web1"}, want: "service"},
	{name: "a value in shadow", example: "routes", route: "rest", headers: []string{"x-service: legacy"}, want: "legacy"},
	{name: "an unlimited value", example: "routes", route: "rest", headers: []string{"x-service: batch"}},
	{name: "another host's route", example: "routes", route: "rest-2", headers: []string{"x-service: s"}},
	{name: "a limit of its own", example: "overlapping", route: "admin", want: "admin"},
	{name: "the virtual host's own limits", example: "overlapping", route: "rest", want: "all"},
	{name: "a host without limits", example: "overlapping", route: "free"},
	{name: "a route without a name", example: "overlapping"},
	{name: "all other hosts", example: "overlapping", route: "rest-2", want: "all"},
	{
		name: "a VIP's key", example: "vip", route: "v1", headers: []string{"x-api-key: vip-7"},
		want: "global api_key",
	},
	{
		name: "an unlimited key", example: "vip", route: "v1", headers: []string{"x-api-key: internal-batch"},
		want: "global",
	},
	{name: "another key", example: "vip", route: "rest", headers: []string{"x-api-key: k"}, want: "api_key-2"},
	{
		name: "an unlimited key where only keys are limited", example: "vip", route: "rest",
		headers: []string{"x-api-key: internal-batch"},
	},
	{name: "a route's own limit", example: "vip", route: "infer", headers: []string{"x-api-key: k"}, want: "infer"},
	{
		name: "the virtual host's limit alone", example: "vip", route: "health", headers: []string{"x-api-key: k"},
		want: "global",
	},
	{name: "a bucket of all routes without their own", example: "local_envoy", route: "rest", want: "all"},
	{name: "a route whose bucket is off", example: "local_envoy", route: "off"},
	{name: "a bucket in front of a workload", example: "local_istio", want: "http_local_rate_limiter"},
}

// TestRoutes sends requests to the rules that routes became, see TestExamples.
func TestRoutes(t *testing.T) {
	t.Parallel()
	for _, c := range routed {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := config.Parse(testenv.Read(t, "testdata/"+c.example+"/want.json"))
			testenv.OK(t, err)
			expressions := &explain.Expressions{}
			set, err := rule.Compile(cfg, expressions)
			testenv.OK(t, err)
			r, err := explain.NewRequest("GET", "http://h/")
			testenv.OK(t, err)
			r.Use(expressions)
			for _, header := range c.headers {
				testenv.OK(t, r.AddHeader(header))
			}
			testenv.OK(t, r.SetProperty("xds.route_name="+c.route))
			var m rule.Matcher
			applied, _, _ := set.Apply(r, &m)
			var got []string
			for _, a := range applied {
				got = append(got, a.Rule.Name)
			}
			testenv.Same(t, "the rules", strings.Join(got, " "), c.want)
		})
	}
}

// TestRoutesOfOneName: a rule cannot tell a limited route from another one of its name.
func TestRoutesOfOneName(t *testing.T) {
	t.Parallel()
	const limits = "rate_limits: [{actions: [{generic_key: {descriptor_value: x}}]}]"
	const routes = `virtual_hosts: [{name: v, domains: ["*"], routes: [
  {name: a, match: {prefix: /a}, route: {cluster: c, ` + limits + `}},
  {name: "it's", match: {prefix: /b}, route: {cluster: c, ` + limits + `}},
  {name: a, match: {prefix: /}, route: {cluster: c}}]}]`
	const service = "domain: a\ndescriptors: [{key: generic_key, value: x, " +
		"rate_limit: {unit: second, requests_per_unit: 1}}]"
	result, err := RateLimit(File{"r", []byte(service)}, File{"e", []byte(routes)})
	testenv.OK(t, err)
	const match = `"match": {"expr": "xds.route_name == 'it\\'s'"}`
	testenv.Same(t, "that "+string(result.JSON)+" has "+match, strings.Contains(string(result.JSON), match), true)
	const missing = `another route without this limit is named "a", too`
	said := lines(result.Differences)
	testenv.Same(t, "that "+said+" has "+missing, strings.Contains(said, missing), true)
}
