package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

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
func charge(t testing.TB, client redis.Cmdable, plugin string, req *explain.Request, name string, cost int) {
	t.Helper()
	cfg, err := input.Load([]byte(plugin))
	testenv.OK(t, err)
	set, err := rule.Compile(cfg, nil)
	testenv.OK(t, err)
	var m rule.Matcher
	applied, _, _ := set.Apply(req, &m)
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
		testenv.OK(t, client.Eval(context.Background(), a.Limits.Plan.Script().Source, keys, args...).Err())
		return
	}
	t.Fatalf("rule %q does not apply", name)
}

// request makes a request with headers, "name: value".
func request(t testing.TB, target string, headers ...string) *explain.Request {
	t.Helper()
	req, err := explain.NewRequest("GET", target)
	testenv.OK(t, err)
	for _, h := range headers {
		testenv.OK(t, req.AddHeader(h))
	}
	testenv.OK(t, req.SetClientIP("192.0.2.7"))
	return req
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
	testenv.OK(s.t, err)
	set, err := rule.Compile(cfg, nil)
	testenv.OK(s.t, err)
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
	testenv.OK(s.t, s.client.Eval(context.Background(), plan.Script().Source, keys, args...).Err())
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
	testenv.OK(t, w.client.Del(context.Background(), "edge:{watched|a}:override").Err())
	do("get watched a -o json", `"for_micros"`)
	do("unblock watched a", "its limits are in force again")
	do("unblock watched a", "there was no override and no penalty")
	for _, value := range []string{"nonsense", "list"} {
		err := w.client.Set(context.Background(), "edge:{watched|a}:override", value, 0).Err()
		if value == "list" {
			w.client.Del(context.Background(), "edge:{watched|a}:override")
			err = w.client.RPush(context.Background(), "edge:{watched|a}:override", "block").Err()
		}
		testenv.OK(t, err)
		do("get watched a", ", which is not valid and is ignored.")
	}
}

// TestTLSAndACL is a user of Redis who may do what docs/cli.md says, and no more.
func TestTLSAndACL(t *testing.T) {
	t.Parallel()
	page := testenv.Read(t, testenv.Root(t)+"/docs/cli.md")
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
