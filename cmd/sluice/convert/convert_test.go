package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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
			result := convertExample(t, dir)
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

// convertExample converts the files of a directory.
func convertExample(t *testing.T, dir string) (result Result) {
	t.Helper()
	var err error
	service, envoy := read(t, dir, "ratelimit.yaml"), read(t, dir, "envoy.yaml")
	higress, gateway, local := read(t, dir, "higress.yaml"), read(t, dir, "gateway.yaml"), read(t, dir, "local.yaml")
	switch {
	case higress.Text != nil:
		result, err = Higress(higress)
	case local.Text != nil:
		result, err = Local(local)
	case gateway.Text != nil:
		result, err = Gateway(gateway)
	default:
		result, err = RateLimit(service, envoy)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, lines(result.Differences))
	}
	return result
}

// read returns a file of an example; nil if it has none of the name.
func read(t *testing.T, dir, name string) File {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return File{name, text}
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

// refused are files that cannot be converted, and what is said of each.
var refused = []struct {
	name  string
	run   func() (Result, error)
	error string
}{
	{
		name:  "not the service's file",
		run:   func() (Result, error) { return RateLimit(File{"r", []byte("a: 1")}, File{}) },
		error: `want "domain" and "descriptors"`,
	},
	{
		name:  "no YAML",
		run:   func() (Result, error) { return RateLimit(File{"r", []byte(oneLimit)}, File{"e", []byte("[")}) },
		error: "neither YAML nor JSON",
	},
	{
		name: "an alias that leads into itself",
		run: func() (Result, error) {
			return RateLimit(File{"r", []byte("domain: d\ndescriptors: &a\n- descriptors: *a")}, File{})
		},
		error: "aliases lead into themselves",
	},
	{
		name:  "no rate_limits",
		run:   func() (Result, error) { return RateLimit(File{"r", []byte(oneLimit)}, File{"e", []byte("a: 1")}) },
		error: "no rate_limits in Envoy's file that can be converted",
	},
	{
		name: "other descriptors",
		run: func() (Result, error) {
			return RateLimit(File{"r", []byte(oneLimit)}, File{"e", []byte("rate_limits: [{actions: [{remote_address: {}}]}]")})
		},
		error: "nothing in it can be converted",
	},
	{
		name:  "not Higress'",
		run:   func() (Result, error) { return Higress(File{"f", []byte("a: 1")}) },
		error: `want "rule_items" or "global_threshold"`,
	},
	{
		name:  "no local limits",
		run:   func() (Result, error) { return Local(File{"f", []byte("a: 1")}) },
		error: "no local_ratelimit with a token_bucket",
	},
	{
		name:  "not Envoy Gateway's",
		run:   func() (Result, error) { return Gateway(File{"f", []byte("a: 1")}) },
		error: "no BackendTrafficPolicy with a rateLimit",
	},
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := c.run(); err == nil || !strings.Contains(err.Error(), c.error) {
				t.Errorf("error %v, want one with %s", err, c.error)
			}
		})
	}
}

// request is a request as rules see it.
type request map[string]string

func (r request) Header(name string) (string, bool) {
	value, ok := r[name]
	return value, ok
}

func (r request) Fields(m *rule.Matcher) {
	for name, value := range r {
		m.Field(name, value)
	}
}

func (r request) Evaluate(uint32) ([]byte, bool)        { return nil, false }
func (r request) Property(path []string) ([]byte, bool) { return nil, false }

var routed = []struct {
	name, example string
	host, path    string
	role          string // the header x-role
	service       string // the header x-service
	key           string // the header x-api-key
	want          string // the rules that apply, and the exempt one
}{
	{
		name: "an unlimited route before limited ones", example: "routes", host: "a.example.com", path: "/healthz",
		service: "s", want: "exempt unlimited-healthz",
	},
	{
		name: "a limited route", example: "routes", host: "a.example.com:80", path: "/api/x", service: "s",
		want: "service-2",
	},
	{
		name: "the same limit on another route", example: "routes", host: "A.example.com", path: "/x", service: "s",
		want: "service-2",
	},
	{name: "a wildcard", example: "routes", host: "a.example.com", path: "/x", service: "web1", want: "service"},
	{name: "a value in shadow", example: "routes", host: "a.example.com", path: "/x", service: "legacy", want: "legacy"},
	{name: "an unlimited value", example: "routes", host: "a.example.com", path: "/x", service: "batch", want: ""},
	{name: "another host", example: "routes", host: "b.example.com", path: "/x", service: "s", want: ""},
	{name: "a path with a separator", example: "overlapping", host: "one.example.com", path: "/admin/x", want: "admin"},
	{
		name: "an inverted header", example: "overlapping", host: "one.example.com", path: "/admin",
		role: "OPS", want: "all",
	},
	{name: "a regular expression", example: "overlapping", host: "x.one.example.com", path: "/api/v1/x", want: "api"},
	{name: "the virtual host's own limits", example: "overlapping", host: "one.example.com", path: "/x", want: "all"},
	{
		name: "a host without limits", example: "overlapping", host: "free.example.com", path: "/x",
		want: "exempt unlimited",
	},
	{name: "two limits of one route", example: "overlapping", host: "one.example.com", path: "/v3/x", want: "api all"},
	{name: "a VIP's key", example: "vip", host: "a", path: "/v1/x", key: "vip-7", want: "global api_key"},
	{name: "an unlimited key", example: "vip", host: "a", path: "/v1/x", key: "internal-batch", want: "global"},
	{name: "another key", example: "vip", host: "a", path: "/x", key: "k", want: "api_key-2"},
	{
		name: "an unlimited key where only keys are limited", example: "vip", host: "a", path: "/x",
		key: "internal-batch", want: "",
	},
	{
		name: "a key where a route has a limit of its own", example: "vip", host: "a", path: "/v1/infer",
		key: "k", want: "infer",
	},
	{name: "the virtual host's limit alone", example: "vip", host: "a", path: "/healthz", key: "k", want: "global"},
	{
		name: "a bucket of all routes without their own", example: "local_envoy", host: "api.example.com",
		path: "/x", want: "all",
	},
	{name: "a route whose bucket is off", example: "local_envoy", host: "api.example.com", path: "/off", want: ""},
	{
		name: "a bucket in front of a workload", example: "local_istio", host: "h", path: "/",
		want: "http_local_rate_limiter",
	},
	{name: "all other hosts", example: "overlapping", host: "two.example.com", path: "/admin", want: "all"},
}

// TestRoutes sends requests to the rules that routes became.
func TestRoutes(t *testing.T) {
	t.Parallel()
	for _, c := range routed {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := config.Parse(convertExample(t, "testdata/"+c.example).JSON)
			if err != nil {
				t.Fatal(err)
			}
			set, err := rule.Compile(cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			r := request{":method": "GET", ":path": c.path, ":authority": c.host}
			for name, value := range map[string]string{"x-role": c.role, "x-service": c.service, "x-api-key": c.key} {
				if value != "" {
					r[name] = value
				}
			}
			var m rule.Matcher
			applied, exempt := set.Apply(r, &m)
			var got []string
			for _, a := range applied {
				got = append(got, a.Rule.Name)
			}
			if exempt != nil {
				got = append(got, "exempt "+exempt.Name)
			}
			if joined := strings.Join(got, " "); joined != c.want {
				t.Errorf("%q applies, want %q", joined, c.want)
			}
		})
	}
}
