package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/cmd/sluice/live"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
	wire "github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

const stateful = `{
  "redis": {"cluster": "redis", "key_prefix": "edge"},
  "rules": [
    {"name": "per key", "match": {"path": "/x"}, "mode": "shadow",
     "key": [{"header": "x-key", "hash": true}, {"constant": "c"}, {"query": "q"}, {"cookie": "k", "hash": false},
     	{"client_ip": {"v4_prefix": 24}}],
     "limits": [{"algorithm": "sliding_window_log", "limit": 3, "window": "1h"},
     	{"algorithm": "fixed_window", "limit": 100, "window": "1d"}]},
    {"name": "plain", "key": [{"header": "x-key"}],
    	"limits": [{"algorithm": "gcra", "limit": 10, "window": "1h", "burst": 20}]},
    {"name": "tiered", "key": [{"header": "x-user"}], "limits_by": {"source": {"header": "x-plan"},
       "values": {"free": [{"algorithm": "fixed_window", "limit": 5, "window": "1d"}],
       	"pro": [{"algorithm": "fixed_window", "limit": 50, "window": "1d"}], "staff": "unlimited"}}},
    {"name": "by value", "key": [{"header": "x-user"}], "limits_by": {"source": {"header": "x-user"},
       "values": {"root": [{"algorithm": "fixed_window", "limit": 7, "window": "1d"}],
       	"rest": [{"algorithm": "fixed_window", "limit": 2, "window": "1d"}]}, "default": "rest"}},
    {"name": "flight", "key": [{"header": "x-key"}], "limits": [{"algorithm": "concurrency", "limit": 8, "ttl": "1h"}]},
    {"name": "health", "match": {"path": "/healthz"}, "exempt": true},
    {"name": "parts", "key": [{"path": {"segments": 1}}, {"method": true}, {"host": true}, {"metadata": ["jwt", "sub"]},
    	{"property": ["connection", "id"]}],
     "limits": [{"algorithm": "gcra", "limit": 10, "window": "1h"}]}
  ]}`

// charge has the plugin's own script charge a request that a rule applies to.
func charge(t *testing.T, client redis.Cmdable, plugin string, req *explain.Request, name string, cost int) {
	t.Helper()
	cfg, err := input.Load([]byte(plugin))
	if err != nil {
		t.Fatal(err)
	}
	set, err := rule.Compile(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	var m rule.Matcher
	applied, _ := set.Apply(req, &m)
	for _, a := range applied {
		if a.Rule.Name != name {
			continue
		}
		var keys []string
		for i, suffix := range a.Limits.KeySuffixes {
			values, _ := a.Limits.ValuesOf(a.Values, i)
			keys = append(keys, string(wire.AppendKey(nil, cfg.Redis.KeyPrefix, a.Tag, suffix))+string(values))
		}
		args := live.Arguments(a.Limits.Plan, 7, a.Limits.Plan.Each(int64(cost)))
		if err := client.Eval(context.Background(), a.Limits.Plan.Script().Source, keys, args...).Err(); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("rule %q does not apply", name)
}

// request makes a request with headers, "name: value".
func request(t *testing.T, target string, headers ...string) *explain.Request {
	t.Helper()
	req, err := explain.NewRequest("GET", target)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		if err := req.AddHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := req.SetClientIP("192.0.2.7"); err != nil {
		t.Fatal(err)
	}
	return req
}

// withinTheHour is the rest of an hour of which a busy machine has taken up to ten minutes.
var withinTheHour = regexp.MustCompile(`\bin 5\dm(\d+s)?`)

// identities are get's answers about those that TestGet has charged.
var identities = []struct {
	name    string
	args    []string
	tag     string
	used    string // of each limit, with its capacity
	summary string
}{
	{
		name: "every kind of value", args: []string{"per key", "secret", "a b", "|", "192.0.2.99"},
		tag:  "per%20key|2bb80d537b1da3e38bd30361aa855686bde0eacd|c|a%20b|%7C|192.0.2.0/24",
		used: "3/3 3/100", summary: `It may go again in 1h, when "per key-1h" has room.`,
	},
	{
		name: "a bucket", args: []string{"plain", "alice"},
		tag: "plain|alice", used: "4/20", summary: "It may go now.",
	},
	{
		name: "what is in flight", args: []string{"flight", "alice"},
		tag: "flight|alice", used: "3/8", summary: "It may go now.",
	},
	{
		name: "no slot", args: []string{"flight", "busy"},
		tag: "flight|busy", used: "8/8",
		summary: `It may go again when one of its requests has ended: "flight" has no slot.`,
	},
	{
		name: "a stranger", args: []string{"plain", "bob"},
		tag: "plain|bob", used: "0/20", summary: "It may go now.",
	},
	{
		name: "an identity as it is shown", args: []string{"plain", "--identity", "alice"},
		tag: "plain|alice", used: "4/20", summary: "It may go now.",
	},
	{
		name: "all tiers", args: []string{"tiered", "u"},
		tag: "tiered|u", used: "5/5 5/50", summary: "Which limits apply depends on its tier: --tier.",
	},
	{
		name: "one tier", args: []string{"tiered", "u", "--tier", "pro"},
		tag: "tiered|u", used: "5/50", summary: "It may go now.",
	},
	{
		name: "an unlimited tier", args: []string{"tiered", "u", "--tier", "staff"},
		tag: "tiered|u", used: "", summary: "It has no limits.",
	},
	{
		name: "the tier that the value chooses", args: []string{"by value", "root"},
		tag: "by%20value|root", used: "1/7", summary: "It may go now.",
	},
	{
		name: "the default tier", args: []string{"by value", "other"},
		tag: "by%20value|other", used: "0/2", summary: "It may go now.",
	},
	{
		name: "the rest of the components", args: []string{"parts", "/a/b", "PUT", "H.example.com:80", "sub", "7"},
		tag: "parts|/a|PUT|h.example.com|sub|7", used: "0/10", summary: "It may go now.",
	},
}

func TestGet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	charge(t, client, stateful, request(t, "http://h/x?q=a%20b", "x-key: secret", "cookie: k=%7C"), "per key", 3)
	charge(t, client, stateful, request(t, "http://h/", "x-key: alice"), "plain", 4)
	charge(t, client, stateful, request(t, "http://h/", "x-key: alice"), "flight", 3)
	charge(t, client, stateful, request(t, "http://h/", "x-key: busy"), "flight", 8)
	charge(t, client, stateful, request(t, "http://h/", "x-user: u", "x-plan: free"), "tiered", 5)
	charge(t, client, stateful, request(t, "http://h/", "x-user: root"), "by value", 1)
	// One after the other, at once: a unit of a bucket comes back in six minutes.
	for _, c := range identities {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"get", "-c", "-", "--redis", server.Addr, "-o", "json"}, c.args...)
			r := execute(t, stateful, args...)
			if r.code != console.Done {
				t.Fatalf("exit code %d: %s", r.code, r.errors)
			}
			got := decode[live.IdentityState](t, r)
			if got.Tag != c.tag {
				t.Errorf("tag %s, want %s", got.Tag, c.tag)
			}
			var used []string
			for _, l := range got.Limits {
				used = append(used, fmt.Sprintf("%d/%d", l.Used, l.Capacity))
			}
			if joined := strings.Join(used, " "); joined != c.used {
				t.Errorf("used %s, want %s", joined, c.used)
			}
			testenv.Same(t, "summary", withinTheHour.ReplaceAllString(got.Summary, "in 1h"), c.summary)
		})
	}
	// Nothing of this has charged anything.
	if r := execute(t, stateful, "get", "-c", "-", "--redis", server.Addr, "plain", "alice"); !strings.Contains(r.out,
		"plain|alice\nLIMIT  USED  REMAINING  RESET IN  WHAT\nplain  4     16") {
		t.Errorf("the table is\n%s", r.out)
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	charge(t, server.Client(), stateful, request(t, "http://h/x?q=q", "x-key: s", "cookie: k=k"), "per key", 1)
	for _, want := range []string{"the state of 2 limits is forgotten\n", "there was nothing to forget\n"} {
		r := execute(t, stateful, "reset", "-c", "-", "--redis", server.Addr, "per key", "s", "q", "k", "192.0.2.1")
		if r.code != console.Done || !strings.HasSuffix(r.out, want) {
			t.Errorf("exit code %d, %s%s; want %s", r.code, r.out, r.errors, want)
		}
	}
}

func TestTop(t *testing.T) {
	t.Parallel()
	single, cluster := redistest.Start(t), redistest.StartCluster(t, 3)
	for name, c := range map[string]struct {
		client redis.Cmdable
		flags  []string
	}{
		"one Redis":       {single.Client(), []string{"--redis", single.Addr}},
		"a Redis Cluster": {cluster.Client(), []string{"--redis", strings.Join(cluster.Addrs(), ","), "--redis-cluster"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range 30 {
				charge(t, c.client, stateful, request(t, "http://h/", fmt.Sprintf("x-key: k%d", i)), "plain", 1+i%20)
				charge(t, c.client, stateful, request(t, "http://h/", fmt.Sprintf("x-user: k%d", i), "x-plan: free"), "tiered", 1)
			}
			args := append([]string{"top", "-c", "-", "-o", "json", "--count", "3", "--step", "5", "plain"}, c.flags...)
			r := execute(t, stateful, args...)
			if r.code != console.Done {
				t.Fatal(r.errors)
			}
			var got []string
			for _, top := range decode[struct{ Identities []live.Top }](t, r).Identities {
				got = append(got, fmt.Sprintf("%s %d", top.Identity, top.Used))
			}
			if joined := strings.Join(got, ", "); joined != "k19 20, k18 19, k17 18" {
				t.Errorf("%s, want k19 20, k18 19, k17 18", joined)
			}
			if r := execute(t, stateful, append([]string{"get", "-c", "-", "plain", "k3"},
				c.flags...)...); r.code != console.Done ||
				!strings.Contains(r.out, "plain  4     16") {
				t.Errorf("get says\n%s%s", r.out, r.errors)
			}
			if r := execute(t, stateful, append([]string{"top", "-c", "-", "--tier", "free", "tiered"},
				c.flags...)...); strings.Count(r.out, "\n") != 11 || strings.Count(r.out, "  5  ") != 10 {
				t.Errorf("top of a tier says\n%s%s", r.out, r.errors)
			}
		})
	}
}

// TestOverrides holds that what no rule would read is refused.
func TestOverrides(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	ctx := context.Background()
	for _, c := range []struct {
		name, args string
		code       int
		errors     string
	}{
		{
			"no such override", "override plain a --to y2", console.Misused,
			`"y2" is not an override (want block, free, a factor such as x2 or x0.5, from x0.001 to x1000, tier:NAME, or `,
		},
		{"too large a factor", "override plain a --to x1001", console.Misused, "is not an override"},
		{"too small a factor", "override plain a --to x0.0001", console.Misused, "is not an override"},
		{"no value", "override plain a", console.Misused, "want one of --to, --tier and --limit"},
		{
			"a negative time", "block plain a --for -2h", console.Misused,
			`invalid argument "-2h" for "--for" flag: "-2h" is not a duration`,
		},
		{"too short a time", "block plain a --for 1us", console.Misused, "--for: want at least 1ms"},
		{
			"a rule that reads none", "override plain a --to x2", console.Misused,
			`rule "plain": the rule does not read overrides (want "overrides": true)`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := execute(t, stateful, append(strings.Fields(c.args), "-c", "-", "--redis", server.Addr)...)
			if r.code != c.code || !strings.Contains(r.errors, c.errors) {
				t.Errorf("exit code %d, %s; want %d, %s", r.code, r.errors, c.code, c.errors)
			}
		})
	}
	if err := client.Set(ctx, "edge:{plain|a}:override", "block", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	if r := execute(t, stateful, "get", "-c", "-", "--redis", server.Addr, "plain", "a"); !strings.Contains(r.out,
		"It is blocked for another 1h.") {
		t.Errorf("a block: %s%s", r.out, r.errors)
	}
	if r := execute(t, stateful, "unblock", "-c", "-", "--redis", server.Addr, "plain", "a"); !strings.Contains(r.out,
		"its limits are in force again") {
		t.Errorf("unblock: %s%s", r.out, r.errors)
	}
	if n, err := client.Exists(ctx, "edge:{plain|a}:override").Result(); n != 0 || err != nil {
		t.Errorf("the block is still there: %d, %v", n, err)
	}
}

// watched is a rule that reads overrides and has a penalty.
const watched = `{"redis": {"cluster": "redis", "key_prefix": "edge"},
	"rules": [{"name": "watched", "key": [{"header": "x-key"}],
	"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 2, "window": "1h"}],
	"overrides": true, "penalty": {"after": 3, "within": "1h", "for": ["2h"]}}]}`

// request lets the plugin's own script decide a request of a rule with terms, as the
// plugin would.
func (s *watch) request(factor string) {
	s.t.Helper()
	cfg, err := input.Load([]byte(watched))
	if err != nil {
		s.t.Fatal(err)
	}
	set, err := rule.Compile(cfg, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	plan := set.LimitSets[0].Plan
	var args []any
	args = append(args, 1)
	for _, a := range append(plan.Args(0), plan.Terms().Penalty.Args()...) {
		args = append(args, a)
	}
	if args = append(args, ""); factor != "" {
		args = append(args, factor)
	}
	tag := cfg.Redis.KeyPrefix + ":{watched|a}"
	keys := []string{tag + set.LimitSets[0].KeySuffixes[0], tag + ":override", tag + ":penalty"}
	if err := s.client.Eval(context.Background(), plan.Script().Source, keys, args...).Err(); err != nil {
		s.t.Fatal(err)
	}
}

type watch struct {
	t      *testing.T
	client redis.Cmdable
}

// TestOverridesAndPenalties goes through all that operators do to an identity, and
// sees what get says of it.
func TestOverridesAndPenalties(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	w := &watch{t, server.Client()}
	do := func(args, want string) {
		t.Helper()
		r := execute(t, watched, append(strings.Fields(args), "-c", "-", "--redis", server.Addr)...)
		if r.code != console.Done || !strings.Contains(r.out, want) {
			t.Errorf("%s: exit code %d, %s%s; want %s", args, r.code, r.out, r.errors, want)
		}
	}
	w.request("")
	do("get watched a", "watched  1     1 ")
	do("override watched a --to x2 --for 1h", "x2 for 1h")
	do("get watched a", "watched  1     3 ")
	do("get watched a", `Override: "x2" for another 1h.`)
	w.request("x2")
	w.request("x2")
	do("unblock watched a", "its limits are in force again")
	w.request("")
	w.request("")
	do("get watched a", "Penalty: 2 of the 3 rejections that earn a block.")
	w.request("")
	do("get watched a", "Its penalty blocks it for another 2h.")
	do("block watched a --for 30m", "block for 30m")
	do("get watched a", "It is blocked for another 30m.")
	do("override watched a --to free", "free, without end")
	do("get watched a", "It is free of limits, without end.")
	if err := w.client.Del(context.Background(), "edge:{watched|a}:override").Err(); err != nil {
		t.Fatal(err)
	}
	do("get watched a -o json", `"for_micros"`)
	do("unblock watched a", "its limits are in force again")
	do("unblock watched a", "there was no override and no penalty")
	for _, value := range []string{"nonsense", "list"} {
		err := w.client.Set(context.Background(), "edge:{watched|a}:override", value, 0).Err()
		if value == "list" {
			w.client.Del(context.Background(), "edge:{watched|a}:override")
			err = w.client.RPush(context.Background(), "edge:{watched|a}:override", "block").Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		do("get watched a", ", which is not valid and is ignored.")
	}
}

func TestRedisIsRefused(t *testing.T) {
	plain, locked := redistest.Start(t), redistest.Start(t, "--requirepass", "hunter2")
	cluster := redistest.StartCluster(t, 3)
	away := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	t.Setenv("SLUICE_TEST_WRONG", "hunter3")
	for _, c := range []struct {
		name, args string
		code       int
		errors     string
	}{
		{"nothing listens", "--redis " + away, console.NoRedis, "connect: connection refused"},
		{"a password is wanted", "--redis " + locked.Addr, console.NoRedis, "it wants a password"},
		{
			"the wrong password", "--redis " + locked.Addr + " --redis-password-env SLUICE_TEST_WRONG", console.NoRedis,
			"look at --redis-user, and at the environment variable",
		},
		{
			"no such variable", "--redis " + locked.Addr + " --redis-password-env SLUICE_TEST_NONE", console.NoRedis,
			"the environment variable SLUICE_TEST_NONE, which has Redis' password, is not set: Redis is asked without one",
		},
		{
			"a variable that is not needed", "--redis " + plain.Addr + " --redis-password-env SLUICE_TEST_NONE plain k1",
			console.Done, "is not set: Redis is asked without one",
		},
		{"no TLS", "--redis " + plain.Addr + " --redis-tls", console.NoRedis, "leave out --redis-tls"},
		{"no cluster", "--redis " + plain.Addr + " --redis-cluster", console.NoRedis, "leave out --redis-cluster"},
		{"a node of a cluster", "--redis " + cluster.Addrs()[0], console.NoRedis, "add --redis-cluster"},
		{"no address", "", console.Misused, `required flag(s) "redis" not set`},
		{
			"no such rule", "--redis " + plain.Addr + " nowhere", console.Misused,
			`no rule "nowhere" (want one of "per key", "plain"`,
		},
		{
			"too few values", "--redis " + plain.Addr + " plain", console.Misused,
			`the key of rule "plain" has 1 value, 0 given (want the header x-key)`,
		},
		{
			"no such tier", "--redis " + plain.Addr + " --tier gold tiered u", console.Misused,
			`rule "tiered" has no tier "gold" (want one of "free", "pro", "staff")`,
		},
		{"no tiers", "--redis " + plain.Addr + " --tier gold plain u", console.Misused, `rule "plain" has no tiers`},
		{"something else than an address", "--redis " + plain.Addr + " per%20key", console.Misused, "no rule"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"get", "-c", "-", "--timeout", "2s"}, strings.Fields(c.args)...)
			if c.code == console.NoRedis {
				args = append(args, "plain", "k1")
			} else if c.args == "" {
				args = append(args, "plain")
			}
			r := execute(t, stateful, args...)
			if r.code != c.code || !strings.Contains(r.errors, c.errors) {
				t.Errorf("exit code %d, %s; want %d, %s", r.code, r.errors, c.code, c.errors)
			}
			if strings.Contains(r.errors+r.out, "hunter") {
				t.Errorf("a password is shown: %s%s", r.out, r.errors)
			}
		})
	}
}

// TestTLSAndACL is a user of Redis who may do what docs/cli.md says, and no more.
func TestTLSAndACL(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(testenv.Root(t) + "/docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "ACL SETUSER ")
	line, _, ok := strings.Cut(rest, "\n")
	if !ok {
		t.Fatal("docs/cli.md does not say which user of Redis is needed")
	}
	cert, certKey := testenv.Certificate(t)
	port := testenv.FreePort(t)
	redistest.Start(t, append(append([]string{"--user"},
		strings.Fields(strings.Replace(line, "PASSWORD", "hunter2", 1))...),
		"--tls-port", fmt.Sprint(port), "--tls-cert-file", cert, "--tls-key-file", certKey, "--tls-auth-clients", "no")...)
	plugin := write(t, "plugin.json",
		strings.Replace(stateful, `"key_prefix": "edge"`, `"username": "sluice-cli", "password": "hunter2"`, 1))
	for _, args := range []string{"get plain a", "reset plain a", "unblock plain a", "top plain"} {
		all := append(strings.Fields(args), "-c", plugin, "--redis", fmt.Sprintf("127.0.0.1:%d", port), "--redis-tls",
			"--redis-ca", cert,
			"--redis-server-name", testenv.CertificateName)
		if r := execute(t, "", all...); r.code != console.Done {
			t.Errorf("%s: exit code %d: %s", args, r.code, r.errors)
		}
	}
}
