package main

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/doctor"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// guarded are rules that need all that doctor tries.
const guarded = `{"redis": {"cluster": "redis", "username": "sluice", "password_env": "SLUICE_DOCTOR_TEST"}, "rules": [
  {"name": "per-key", "key": [{"header": "x-api-key"}], "overrides": true,
  	"penalty": {"after": 3, "within": "1m", "for": ["1h"]},
   "limits": [{"algorithm": "gcra", "limit": 1, "window": "1s"},
   	{"algorithm": "fixed_window", "limit": 1000, "window": "month", "timezone": "Europe/Berlin"}]},
  {"name": "jobs", "key": [], "limits": [{"algorithm": "concurrency", "limit": 1, "ttl": "1h"}]}]}`

// envoyACL is the user that docs/operations.md gives Envoy.
func envoyACL(t *testing.T, prefix string) []string {
	t.Helper()
	page := testenv.File(t, "docs/operations.md")
	_, line, _ := strings.Cut(string(page), "ACL SETUSER sluice on >PASSWORD ")
	line, _, _ = strings.Cut(line, "\n")
	rules := "on >secret " + strings.ReplaceAll(line, "~rl:", "~"+prefix+":")
	var words []string
	for _, part := range strings.SplitAfter(rules, ")") { // a selector in brackets is one rule
		before, selector, found := strings.Cut(part, "(")
		words = append(words, strings.Fields(before)...)
		if found {
			words = append(words, "("+selector)
		}
	}
	return words
}

// startGuarded starts a Redis with the user that the documents set up for a prefix, who may not run
// INFO here.
func startGuarded(t *testing.T, prefix string, more ...string) *redistest.Server {
	t.Helper()
	server := redistest.Start(t, more...)
	args := []any{"ACL", "SETUSER", "sluice"}
	for _, word := range envoyACL(t, prefix) {
		if word == "+info" { // what doctor says without it
			continue
		}
		args = append(args, word)
	}
	testenv.OK(t, server.Client().Do(context.Background(), args...).Err())
	return server
}

// diagnoses are configurations and servers, and one check that doctor makes of each.
var diagnoses = []struct {
	name, plugin string
	flags        string // of the servers GOOD and OTHER
	code         int
	check        string
	status       doctor.Status
	found        string
	advice       string
}{
	{
		"the worked examples", guarded,
		"--redis GOOD",
		console.Done, "vectors", doctor.Pass,
		"43 worked examples of every algorithm", "",
	},
	{
		"the user's rights", guarded,
		"--redis GOOD",
		console.Done, "rules", doctor.Pass,
		"the scripts of all rules, 2,", "",
	},
	{
		"an ACL for another prefix", guarded,
		"--redis OTHER",
		console.Refused, "rules", doctor.Fail, "NOPERM",
		`on keys that begin with "rl"`,
	},
	{
		"a wrong password", strings.Replace(guarded, "_TEST", "_WRONG", 1),
		"--redis GOOD --redis-password-env HOME",
		console.Refused, "redis", doctor.Fail, "WRONGPASS", "the password",
	},
	{
		"no password", strings.Replace(guarded, "_TEST", "_UNSET", 1),
		"--redis GOOD",
		console.Refused,
		"password", doctor.Fail, "SLUICE_DOCTOR_UNSET, which has Redis' password, is not set", "where Envoy starts",
	},
	{
		"what INFO would say", guarded,
		"--redis GOOD",
		console.Done, "maxmemory-policy", doctor.Warn,
		"INFO is refused", "--redis-user",
	},
	{
		"memory", guarded,
		"--redis GOOD --redis-user default",
		console.Done, "maxmemory-policy",
		doctor.Pass, "volatile-lru", "",
	},
	{
		"persistence", guarded,
		"--redis GOOD --redis-user default",
		console.Done, "persistence",
		doctor.Pass, "appendonly is on", "",
	},
	{
		"no persistence", guarded,
		"--redis OTHER --redis-user default",
		console.Done, "persistence",
		doctor.Warn, `begins "per-key-month" anew`, "appendonly yes",
	},
	{
		"no bound", guarded,
		"--redis OTHER --redis-user default",
		console.Done, "memory", doctor.Warn,
		"nothing bounds it", "set maxmemory",
	},
	{
		"how long a check takes", strings.Replace(guarded, `"cluster": "redis"`, `"cluster": "redis", "timeout": "20s"`, 1),
		"--redis GOOD",
		console.Done, "latency", doctor.Pass,
		"redis.timeout is 20s", "",
	},
	{
		"nothing listens", guarded,
		"--redis 127.0.0.1:1",
		console.Refused, "redis", doctor.Fail, "connection refused",
		"whether Redis runs",
	},
}

// TestDoctor looks at servers that fit, and at those that do not: as table and as JSON.
func TestDoctor(t *testing.T) { //nolint:paralleltest // it sets a variable of the environment
	t.Setenv("SLUICE_DOCTOR_TEST", "secret")
	good := startGuarded(t, "rl", "--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru", "--appendonly", "yes")
	other := startGuarded(t, "other")
	servers := strings.NewReplacer("GOOD", good.Addr, "OTHER", other.Addr)
	for _, c := range diagnoses {
		t.Run(c.name, func(t *testing.T) {
			flags := strings.Fields(servers.Replace(c.flags))
			r := execute(t, c.plugin, append([]string{"doctor", "-c", "-", "-o", "json"}, flags...)...)
			if r.code != c.code {
				t.Errorf("exit code %d, want %d: %s", r.code, c.code, r.errors)
			}
			checkDoctor(t, r, doctor.Check{Name: c.check, Status: c.status, Found: c.found, Advice: c.advice})
			if strings.Contains(r.out+r.errors, "secret") {
				t.Errorf("a secret is in\n%s", r.out)
			}
		})
	}
	for _, server := range []*redistest.Server{good, other} {
		if n := server.Client().DBSize(context.Background()).Val(); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	}
}

// checkDoctor holds that a report has a check, whose texts contain those that are wanted.
func checkDoctor(t *testing.T, r result, want doctor.Check) {
	t.Helper()
	for _, c := range decode[doctor.Report](t, r).Checks {
		if c.Name != want.Name {
			continue
		}
		if c.Status != want.Status {
			t.Errorf("%s: %s, want %s", c.Name, c.Status, want.Status)
		}
		if !strings.Contains(c.Found, want.Found) {
			t.Errorf("%s: found %s, want %s", c.Name, c.Found, want.Found)
		}
		if !strings.Contains(c.Advice, want.Advice) {
			t.Errorf("%s: advice %s, want %s", c.Name, c.Advice, want.Advice)
		}
		return
	}
	t.Errorf("no check %q in %s", want.Name, r.out)
}

// TestDoctorServers looks at a Redis Cluster, and at a replica.
func TestDoctorServers(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	r := execute(t, counted, "doctor", "-c", "-", "-o", "json", "--redis", cluster.Addrs()[0], "--redis-cluster")
	if r.code != console.Done {
		t.Errorf("exit code %d: %s", r.code, r.errors)
	}
	checkDoctor(t, r, doctor.Check{Name: "nodes", Status: doctor.Pass, Found: "3 primaries"})
	checkDoctor(t, r, doctor.Check{Name: "vectors", Status: doctor.Pass})
	for _, node := range cluster.Nodes {
		if n := node.Client().DBSize(context.Background()).Val(); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	}
	r = execute(t, counted, "doctor", "-c", "-", "-o", "json", "--redis", cluster.Addrs()[0])
	checkDoctor(t, r, doctor.Check{
		Name: "redis", Status: doctor.Fail, Found: "a node of a Redis Cluster",
		Advice: "add --redis-cluster",
	})

	primary := redistest.Start(t)
	host, port, _ := strings.Cut(primary.Addr, ":")
	replica := redistest.Start(t, "--replicaof", host+" "+port)
	r = execute(t, counted, "doctor", "-c", "-", "-o", "json", "--redis", replica.Addr)
	checkDoctor(t, r, doctor.Check{Name: "redis", Status: doctor.Fail, Found: "a replica", Advice: "at the primary"})
}

// TestDoctorComparesFile: without an Envoy to ask, the cluster in its file is compared with --redis.
func TestDoctorComparesFile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	host, port, _ := strings.Cut(server.Addr, ":")
	shipped := testenv.File(t, "envoy.yaml")
	const there = "address: 127.0.0.1, port_value: 6379"
	testenv.Same(t, "how often envoy.yaml has "+there, strings.Count(string(shipped), there), 1)
	for name, c := range map[string]struct{ address, config, found string }{
		"another port": {there, string(shipped), `the ` +
			`file's cluster "redis" leads to 127.0.0.1:6379, not to --redis, ` + server.Addr},
		"the same": {"address: " + host + ", port_value: " + port, string(shipped), ""},
		"its name": {"address: localhost, port_value: " + port, string(shipped), ""},
		"JSON":     {"", counted, ""},
	} {
		text := strings.Replace(c.config, there, c.address, 1)
		r := execute(t, text, "doctor", "-c", "-", "-o", "json", "--redis", strings.Replace(server.Addr, "127.0.0.1",
			map[bool]string{true: "localhost", false: "127.0.0.1"}[name == "its name"], 1))
		found := ""
		for _, check := range decode[doctor.Report](t, r).Checks {
			if check.Name == "endpoints" {
				testenv.Same(t, name+": the status", check.Status, doctor.Warn)
				found = check.Found
			}
		}
		testenv.Same(t, name+": what is found", found, c.found)
	}
}

// TestDoctorExample runs the example of docs/cli.md.
func TestDoctorExample(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e := readExample(t, "## doctor").with(map[string]string{
		"plugin.json": write(t, "plugin.json", strings.ReplaceAll(counted, "x-api-key", "x-team")),
		"redis:6379":  server.Addr,
	})
	r := execute(t, "", e.args...)
	// How long a check takes, and so whether doctor warns of it, is up to the machine.
	latency := regexp.MustCompile(`(?m)^latency .*\n( +->.*\n)?`)
	got, want := evenly(latency.ReplaceAllString(r.out, "")), evenly(latency.ReplaceAllString(e.out, ""))
	if strings.Count(r.out, "\nlatency ") != 1 {
		t.Errorf("no line about the latency in\n%s", r.out)
	}
	if r.code != console.Done || got != want {
		t.Errorf("exit code %d\n%s%s\nthe page has\n%s", r.code, r.out, r.errors, e.out)
	}
}
