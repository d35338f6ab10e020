package main

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/convert"
)

const strictRoutes = "rate_limits: [{actions: [{remote_address: {}}]}]\n"

// strictly are files of which something is not translated, and how --strict names it.
var strictly = []struct {
	name, service, routes string
	code                  int
	errors                string
}{
	{
		name: "nothing is lost", service: "domain: a\ndescriptors:\n- {key: remote_address, rate_limit: {unit: second, " +
			"requests_per_unit: 1}}\n",
		routes: strictRoutes, code: console.Done,
		errors: "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
	},
	{
		name: "a field of the service's file",
		service: "domain: a\ndescriptors:\n- {key: remote_address, rate_limit: {unit: second, requests_per_unit: 1,\n  " +
			"burst: 5}}\n",
		routes: strictRoutes, code: console.Refused,
		errors: "rule \"remote_address\"\n  missing: SERVICE:4: descriptors[0].rate_limit.burst: \"burst\" is not known " +
			"and has no effect",
	},
	{
		name: "in ConfigMaps",
		service: "kind: ConfigMap\ndata:\n  config.yaml: |\n    domain: a\n    descriptors:\n    - key: remote_address\n  " +
			"    tier: gold\n" +
			"      rate_limit: {unit: second, requests_per_unit: 1}\n",
		routes: "kind: ConfigMap\ndata: {envoy.yaml: \"" + strings.TrimSpace(strictRoutes) + "\"}\n", code: console.Refused,
		errors: "  missing: SERVICE:7: descriptors[0].tier: \"tier\" is not known",
	},
	{
		name:    "a share of the requests",
		service: "domain: a\ndescriptors:\n- {key: remote_address, rate_limit: {unit: second, requests_per_unit: 1}}\n",
		routes: strictRoutes + "filter:\n  \"@type\": " +
			"type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit\n  domain: a\n" +
			"  filter_enabled: {default_value: {numerator: 50}}\n", code: console.Refused,
		errors: "filter.filter_enabled: Envoy asks the service about 50 % of all requests: here every request is counted " +
			"and limited",
	},
}

// TestConvertStrict holds that whatever is not translated can be made an error, and is named.
func TestConvertStrict(t *testing.T) {
	t.Parallel()
	for _, c := range strictly {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			service, routes := write(t, "service.yaml", c.service), write(t, "envoy.yaml", c.routes)
			args := []string{"convert", "--ratelimit", service, "--envoy", routes}
			r := execute(t, "", append(args, "--strict")...)
			if r.code != c.code {
				t.Errorf("exit code %d, want %d", r.code, c.code)
			}
			if want := strings.ReplaceAll(c.errors, "SERVICE", service); !strings.Contains(r.errors, want) {
				t.Errorf("%s\nwant\n%s", r.errors, want)
			}
			if !strings.Contains(r.out, `"key": [{"client_ip": true}]`) {
				t.Errorf("no configuration: %s", r.out)
			}
			lax := execute(t, "", append(args, "-o", "json")...)
			if lax.code != console.Done {
				t.Errorf("without --strict: exit code %d", lax.code)
			}
			differences := decode[struct{ Differences []convert.Difference }](t, lax).Differences
			if len(differences) < 2 {
				t.Errorf("differences %+v", differences)
			}
		})
	}
}
