package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
)

func mustParse(t *testing.T, kind, part string) *Config {
	t.Helper()
	text, ok := whole(kind, []byte(part))
	if !ok {
		t.Fatalf("%s is not of kind %s", part, kind)
	}
	c, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", part, err)
	}
	return c
}

func check[T any](t *testing.T, part string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\ngot  %+v\nwant %+v", part, got, want)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	const text = `{"redis": {"cluster": "c"}, "rules": [{"name": "r", "limits": [` + aLimit + `]}]}`
	check(t, text, mustParse(t, "config", text), &Config{
		Redis: &Redis{Cluster: "c", KeyPrefix: "rl", TimeoutMicros: 50_000},
		Failure: Failure{
			Breaker:    Breaker{Failures: 5, MinOpenMicros: 100_000, MaxOpenMicros: 10_000_000},
			MaxPending: 4096,
		},
		Headers:       Headers{XRateLimit: true},
		DenyCacheSize: 4096,
		Rules: []Rule{{
			Name: "r",
			Cost: Cost{Default: 1, Max: 1_000_000},
			Limits: []Limit{{
				Limit:  algo.Limit{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1_000_000},
				Policy: "r", Window: "1s",
			}},
		}},
	})
}

func TestBridge(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"role": "bridge"}`, `{"r\u006fle": "bridg\u0065"}`} {
		check(t, text, mustParse(t, "config", text), &Config{Bridge: true})
	}
}

func TestTopLevelFields(t *testing.T) {
	t.Parallel()
	if got := mustParse(t, "limit", aLimit); got.Redis != nil || got.Response != nil || got.TopOffenders != nil {
		t.Errorf("got %+v", got)
	}
	full := mustParse(t, "fields", `{
		"role": "limiter",
		"redis": {"cluster": "c", "key_prefix": "p:x", "timeout": "1m", "username": "u", "password": "p", "password_env": "", "database": 2147483647},
		"failure": {"mode": "local", "breaker": {"failures": 1, "min_open": "1ms", "max_open": "1d"}, "max_pending": 1000000000},
		"deny_cache": {"size": 0},
		"top_offenders": {"size": 7, "interval": "1s"}}`)
	check(t, "redis", full.Redis, &Redis{
		Cluster: "c", KeyPrefix: "p:x", TimeoutMicros: 60_000_000,
		Username: "u", Password: "p", Database: 2147483647,
	})
	check(t, "failure", full.Failure, Failure{
		Mode: FailLocal, MaxPending: 1_000_000_000,
		Breaker: Breaker{Failures: 1, MinOpenMicros: 1_000, MaxOpenMicros: 86_400_000_000},
	})
	check(t, "deny_cache", full.DenyCacheSize, 0)
	check(t, "top_offenders", full.TopOffenders, &TopOffenders{Size: 7, IntervalMicros: 1_000_000})
	check(t, "top_offenders", mustParse(t, "fields", `{"top_offenders": {}}`).TopOffenders, &TopOffenders{Size: 100, IntervalMicros: 60_000_000})
	check(t, "deny", mustParse(t, "fields", `{"failure": {"mode": "deny"}}`).Failure.Mode, FailDeny)
}

func TestAnswerFields(t *testing.T) {
	t.Parallel()
	responses := map[string]*Response{
		`{"response": {}}`:                          {Status: 429},
		`{"response": {"status": 400, "body": ""}}`: {Status: 400, HasBody: true},
		`{"response": {"status": 599, "content_type": "a/b", "body": "\u00e9"}}`: {Status: 599, ContentType: "a/b", Body: "é", HasBody: true},
		`{"response": {"headers": {"X-B": "1", "x-a": "\t2"}}}`:                  {Status: 429, Headers: [][2]string{{"x-b", "1"}, {"x-a", "\t2"}}},
	}
	for part, want := range responses {
		check(t, part, mustParse(t, "fields", part).Response, want)
	}
	headers := map[string]Headers{
		`{"headers": []}`:                          {},
		`{"headers": ["draft"]}`:                   {Draft: true},
		`{"headers": ["draft", "x-ratelimit"]}`:    {Draft: true, XRateLimit: true},
		`{"reset": "unix"}`:                        {XRateLimit: true, ResetUnix: true},
		`{"headers": ["draft"], "reset": "delta"}`: {Draft: true},
	}
	for part, want := range headers {
		check(t, part, mustParse(t, "fields", part).Headers, want)
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	tests := map[string]Match{
		`{}`:                              {},
		`{"path": "/a"}`:                  {Path: &StringMatch{Op: Exact, Value: "/a"}},
		`{"path": {"exact": "/a"}}`:       {Path: &StringMatch{Op: Exact, Value: "/a"}},
		`{"path": {"suffix": ".php"}}`:    {Path: &StringMatch{Op: Suffix, Value: ".php"}},
		`{"path": {"contains": "admin"}}`: {Path: &StringMatch{Op: Contains, Value: "admin"}},
		`{"host": "API.Example.COM"}`:     {Host: &StringMatch{Op: Exact, Value: "api.example.com"}},
		`{"host": {"suffix": ".Com"}}`:    {Host: &StringMatch{Op: Suffix, Value: ".com"}},
		`{"host": {"present": false}}`:    {Host: &StringMatch{Op: Present}},
		`{"methods": ["PUT", "GET"]}`:     {Methods: []string{"PUT", "GET"}},
		`{"headers": {"X-B": "V", "x-a": {"present": true}}}`: {Headers: []HeaderMatch{
			{Name: "x-b", Match: StringMatch{Value: "V"}},
			{Name: "x-a", Match: StringMatch{Op: Present, Present: true}},
		}},
		`{"not": {"methods": ["GET"], "not": {"path": "/a"}}}`: {Not: &Match{
			Methods: []string{"GET"},
			Not:     &Match{Path: &StringMatch{Value: "/a"}},
		}},
	}
	for part, want := range tests {
		check(t, part, mustParse(t, "match", part).Rules[0].Match, want)
	}
	got := mustParse(t, "match", `{"path": {"regex": "^/v[0-9]+/"}}`).Rules[0].Match.Path
	if got.Op != Regex || got.Value != "^/v[0-9]+/" || !got.Regexp.MatchString("/v12/x") || got.Regexp.MatchString("/x/v1/") {
		t.Errorf("got %+v", got)
	}
}

func TestComponents(t *testing.T) {
	t.Parallel()
	tests := map[string]Component{
		`{"header": "X-API-Key", "hash": true}`:              {Source: FromHeader, Name: "x-api-key", Hash: true},
		`{"cookie": "Session", "default": ""}`:               {Source: FromCookie, Name: "Session", HasDefault: true},
		`{"query": "Key", "default": "none", "hash": false}`: {Source: FromQuery, Name: "Key", HasDefault: true, Default: "none"},
		`{"client_ip": true}`:                                {Source: FromClientIP},
		`{"path": true}`:                                     {Source: FromPath},
		`{"path": {"segments": 2}}`:                          {Source: FromPath, Segments: 2},
		`{"method": true}`:                                   {Source: FromMethod},
		`{"host": true}`:                                     {Source: FromHost},
		`{"metadata": ["a", "b"]}`:                           {Source: FromMetadata, Path: []string{"a", "b"}},
		`{"property": ["connection", "id"]}`:                 {Source: FromProperty, Path: []string{"connection", "id"}},
		`{"constant": "a\u0000|b"}`:                          {Source: FromConstant, Value: "a\x00|b"},
	}
	for part, want := range tests {
		want.V4Prefix, want.V6Prefix = 32, 128
		check(t, part, mustParse(t, "component", part).Rules[0].Key, []Component{want})
	}
	prefixes := map[string]Component{
		`{"client_ip": {}}`:                                 {Source: FromClientIP, V4Prefix: 32, V6Prefix: 128},
		`{"client_ip": {"v4_prefix": 0}}`:                   {Source: FromClientIP, V4Prefix: 0, V6Prefix: 128},
		`{"client_ip": {"v6_prefix": 64, "v4_prefix": 24}}`: {Source: FromClientIP, V4Prefix: 24, V6Prefix: 64},
	}
	for part, want := range prefixes {
		check(t, part, mustParse(t, "component", part).Rules[0].Key, []Component{want})
	}
}

func TestCosts(t *testing.T) {
	t.Parallel()
	tests := map[string]Cost{
		`0`:                    {Default: 0, Max: 1_000_000},
		`7`:                    {Default: 7, Max: 1_000_000},
		`{"header": "X-Cost"}`: {Header: "x-cost", Default: 1, Max: 1_000_000},
		`{"header": "x-cost", "default": 0, "max": 5}`: {Header: "x-cost", Default: 0, Max: 5},
	}
	for part, want := range tests {
		check(t, part, mustParse(t, "cost", part).Rules[0].Cost, want)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	base := algo.Limit{Units: 10, WindowMicros: 60_000_000}
	with := func(algorithm algo.Algorithm, change func(*Limit)) Limit {
		l := Limit{Limit: base, Policy: "r", Window: "1m"}
		l.Algorithm = algorithm
		change(&l)
		return l
	}
	tests := []struct {
		fields string
		want   Limit
	}{
		{`"fixed_window"`, with(algo.FixedWindow, func(*Limit) {})},
		{`"fixed_window", "anchor": "clock"`, with(algo.FixedWindow, func(*Limit) {})},
		{`"fixed_window", "anchor": "first_request"`, with(algo.FixedWindow, func(l *Limit) { l.FromFirstRequest = true })},
		{`"sliding_window_log"`, with(algo.SlidingWindowLog, func(*Limit) {})},
		{`"sliding_window_counter"`, with(algo.SlidingWindowCounter, func(*Limit) {})},
		{`"sliding_window_counter", "sub_windows": 60`, with(algo.SlidingWindowCounter, func(l *Limit) { l.SubWindows = 60 })},
		{`"token_bucket", "burst": 30`, with(algo.TokenBucket, func(l *Limit) { l.Burst = 30 })},
		{`"leaky_bucket"`, with(algo.LeakyBucket, func(*Limit) {})},
		{`"leaky_bucket", "overflow": "reject"`, with(algo.LeakyBucket, func(*Limit) {})},
		{`"leaky_bucket", "overflow": "queue"`, with(algo.LeakyBucket, func(l *Limit) { l.Queue, l.MaxDelayMicros = true, 30_000_000 })},
		{`"leaky_bucket", "overflow": "queue", "max_delay": "5s"`, with(algo.LeakyBucket, func(l *Limit) { l.Queue, l.MaxDelayMicros = true, 5_000_000 })},
		{`"gcra", "name": "a b"`, with(algo.GCRA, func(l *Limit) { l.Policy = "a b" })},
		{`"gcra", "lease": {"units": 10, "ttl": "200ms"}`, with(algo.GCRA, func(l *Limit) { l.Lease = &Lease{Units: 10, TTLMicros: 200_000} })},
	}
	for _, tt := range tests {
		part := fmt.Sprintf(`{"limit": 10, "window": "60s", "algorithm": %s}`, tt.fields)
		check(t, part, mustParse(t, "limit", part).Rules[0].Limits, []Limit{tt.want})
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "config", `{"rules": [
		{"name": "a", "exempt": true},
		{"name": "b", "exempt": false, "mode": "enforce", "key": [{"host": true}], "limits": [`+aLimit+`]},
		{"name": "c", "mode": "shadow", "limits": [`+aLimit+`]},
		{"name": "d", "mode": "off", "limits": [`+aLimit+`]}]}`)
	want := []struct {
		exempt bool
		mode   Mode
		key    int
		limits int
	}{{true, Enforce, 0, 0}, {false, Enforce, 1, 1}, {false, Shadow, 0, 1}, {false, Off, 0, 1}}
	for i, rule := range c.Rules {
		if w := want[i]; rule.Exempt != w.exempt || rule.Mode != w.mode || len(rule.Key) != w.key || len(rule.Limits) != w.limits {
			t.Errorf("rule %d: got %+v, want %+v", i, rule, w)
		}
	}
}

func TestPolicyNames(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "config", `{"rules": [
		{"name": "one", "limits": [{"algorithm": "gcra", "limit": 1, "window": "60s"}]},
		{"name": "many", "limits": [
			{"algorithm": "gcra", "limit": 1, "window": "60s"},
			{"algorithm": "gcra", "limit": 1, "window": "1d", "name": "daily"},
			{"algorithm": "gcra", "limit": 1, "window": "1m30s"}]},
		{"name": "tiers", "limits_by": {"source": {"header": "p"}, "values": {
			"a": [{"algorithm": "gcra", "limit": 1, "window": "1m"}],
			"b": [{"algorithm": "gcra", "limit": 1, "window": "1h"}, {"algorithm": "gcra", "limit": 1, "window": "1m", "name": "tiers"}]}}}]}`)
	var got []string
	for _, rule := range c.Rules {
		for _, limit := range rule.Limits {
			got = append(got, limit.Policy+" "+limit.Window)
		}
	}
	for _, tier := range c.Rules[2].Tiers.Values {
		for _, limit := range tier.Limits {
			got = append(got, limit.Policy+" "+limit.Window)
		}
	}
	check(t, "policies", got, []string{
		"one 1m",
		"many-60s 1m", "daily 1d", "many-1m30s 1m30s",
		"tiers 1m",
		"tiers-1h 1h", "tiers 1m",
	})
}

func TestTiers(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "rule", `{"name": "r", "limits_by": {
		"source": {"header": "X-Plan", "default": "pro"},
		"values": {"pro": [`+aLimit+`], "free": "unlimited"},
		"default": "free"}}`)
	check(t, "tiers", c.Rules[0].Tiers, &Tiers{
		Source: Component{Source: FromHeader, Name: "x-plan", V4Prefix: 32, V6Prefix: 128, HasDefault: true, Default: "pro"},
		Values: []Tier{
			{Value: "pro", Limits: []Limit{{
				Limit:  algo.Limit{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1_000_000},
				Policy: "r", Window: "1s",
			}}},
			{Value: "free", Unlimited: true},
		},
		HasDefault: true, Default: "free",
	})
	if c.Rules[0].Limits != nil {
		t.Errorf("limits beside tiers: %+v", c.Rules[0].Limits)
	}
}

func TestDuplicateFields(t *testing.T) {
	t.Parallel()
	const twice = "appears twice in one object (want it once)"
	tests := []struct{ kind, part, path string }{
		{"fields", `{"reset": "unix", "reset": "unix"}`, "reset"},
		{"fields", `{"reset": "unix", "r\u0065set": "unix"}`, "reset"},
		{"config", `{"role": "bridge", "role": "bridge"}`, "role"},
		{"limit", `{"algorithm": "gcra", "limit": 1, "limit": 2, "window": "1s"}`, "rules[0].limits[0].limit"},
		{"match", `{"headers": {"x-a": "1", "x-a": "2"}}`, "rules[0].match.headers.x-a"},
		{"rule", `{"name": "r", "limits_by": {"source": {"host": true}, "values": {"a b": "unlimited", "a b": "unlimited"}}}`, `rules[0].limits_by.values["a b"]`},
	}
	for _, tt := range tests {
		text, _ := whole(tt.kind, []byte(tt.part))
		check(t, tt.part, mistakeLines(text), []string{tt.path + ": " + twice})
	}
}

// TestSecretsAreNotShown puts a password wherever a mistaken user might.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	const secret = "31415926535897"
	for _, part := range []string{
		`{"redis": "redis://:31415926535897@redis:6379"}`,
		`{"redis": 31415926535897}`,
		`{"redis": {"cluster": 31415926535897}}`,
		`{"redis": {"cluster": "c", "password": 31415926535897}}`,
		`{"redis": {"cluster": "c", "password": ["31415926535897"]}}`,
		`{"redis": {"cluster": "c", "pasword": "31415926535897"}}`,
		`{"redis": {"cluster": "c", "password": "31415926535897", "password": "31415926535897"}}`,
		`{"redis": {"cluster": "c", "password": "31415926535897", "password_env": "X"}}`,
		`{"redis": {"cluster": "c", "password_env": "X=31415926535897"}}`,
		`{"redis": {"cluster": "c", "username": "31415926535897"}}`,
		`{"redis": {"cluster": "c", "username": 31415926535897}}`,
		`{"redis": {"cluster": "c", "password": "31415926535897" "database": 0}}`,
		`{"redis": {"cluster": "c", "password": "31415926535897\x"}}`,
		`{"redis": {"cluster": "c", "password": "31415926535897}}`,
	} {
		text, _ := whole("fields", []byte(part))
		_, err := Parse(text)
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", part, err)
		}
	}
}

func TestManyMistakes(t *testing.T) {
	t.Parallel()
	text := `{"rules": [` + strings.Repeat("1, ", 100_000) + `1]}`
	_, err := Parse([]byte(text))
	var mistakes Mistakes
	if !errors.As(err, &mistakes) || len(mistakes) != maxMistakes+1 {
		t.Fatalf("%d mistakes", len(mistakes))
	}
	check(t, "the last", mistakes[maxMistakes].String(), "sluice: and 99001 more mistakes")
}

func TestErrorStyle(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte(`{"rules": [{"name": "a", "exempt": true}, {"name": "b", "limits": [{"algorithm": "gcra", "limit": 0, "window": "10x"}]}]}`))
	const want = `sluice: rules[1].limits[0].limit: 0 is out of bounds (want 1 to 1000000000)
sluice: rules[1].limits[0].window: "10x" is not a duration (want one such as "500ms", "1s", "1m", "1h", "1d")`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
