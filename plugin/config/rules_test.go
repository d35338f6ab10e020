package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
)

func network(text string, bits int) ipaddr.Prefix {
	addr, _ := ipaddr.Parse(text)
	return ipaddr.Prefix{Addr: addr, Bits: bits}
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
		`{"methods": ["Put", "GET"]}`:     {Methods: []string{"PUT", "GET"}},
		`{"headers": {"X-B": "V", "x-a": {"present": true}}}`: {Headers: []NamedMatch{
			{Name: "x-b", Match: StringMatch{Value: "V"}},
			{Name: "x-a", Match: StringMatch{Op: Present, Present: true}},
		}},
		`{"query": {"Plan": "a b", "preview": {"present": false}}, "cookies": {"Sid": {"prefix": "v2."}}}`: {
			Query: []NamedMatch{
				{Name: "Plan", Match: StringMatch{Value: "a b"}}, {Name: "preview", Match: StringMatch{Op: Present}},
			},
			Cookies: []NamedMatch{{Name: "Sid", Match: StringMatch{Op: Prefix, Value: "v2."}}},
		},
		`{"expr": "true"}`: {Expr: "true"},
		`{"client_ip": ["10.0.0.0/8", "0.0.0.0/0", "192.0.2.7", "2001:DB8::/32", "::1"]}`: {ClientIP: []ipaddr.Prefix{
			network("10.0.0.0", 8), network("0.0.0.0", 0), network("192.0.2.7", 32), network("2001:db8::", 32),
			network("::1", 128),
		}},
		`{"path": {"regex": "^/v[0-9]+/"}}`: {Path: &StringMatch{Op: Regex, Value: "^/v[0-9]+/"}},
		`{"not": {"methods": ["GET"], "not": {"path": "/a"}}}`: {Not: []Match{{
			Methods: []string{"GET"},
			Not:     []Match{{Path: &StringMatch{Value: "/a"}}},
		}}},
		`{"not": [{"methods": ["GET"]}, {"expr": "true", "not": [{"path": "/a"}]}]}`: {Not: []Match{
			{Methods: []string{"GET"}},
			{Expr: "true", Not: []Match{{Path: &StringMatch{Value: "/a"}}}},
		}},
	}
	for part, want := range tests {
		check(t, part, mustParse(t, "match", part).Rules[0].Match, want)
	}
}

func TestManyNetworks(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	for i := range maxNetworks {
		fmt.Fprintf(&list, `"10.%d.%d.0/24", `, i/256, i%256)
	}
	part := `{"client_ip": [` + strings.TrimSuffix(list.String(), ", ") + `]}`
	check(t, "networks", len(mustParse(t, "match", part).Rules[0].Match.ClientIP), maxNetworks)
	text, _ := whole("match", []byte(`{"client_ip": [`+list.String()+`"::1"]}`))
	check(t, "one more", mistakeLines(text),
		[]string{"rules[0].match.client_ip: there are 10001 networks (want at most 10000)"})
}

func TestComponents(t *testing.T) {
	t.Parallel()
	tests := map[string]Component{
		`{"header": "X-API-Key", "hash": true}`: {Source: FromHeader, Name: "x-api-key", Hash: true},
		`{"cookie": "Session", "default": ""}`: {
			Source: FromCookie, Name: "Session", Hash: true, HasDefault: true,
		},
		`{"cookie": "Session", "hash": false, "repeated": "first"}`: {Source: FromCookie, Name: "Session", First: true},
		`{"header": "Authorization"}`:                               {Source: FromHeader, Name: "authorization", Hash: true},
		`{"header": "authorization", "hash": false}`:                {Source: FromHeader, Name: "authorization"},
		`{"header": "x-authorization"}`:                             {Source: FromHeader, Name: "x-authorization"},
		`{"bearer": true}`:                                          {Source: FromBearer, Hash: true},
		`{"bearer": true, "hash": false}`:                           {Source: FromBearer},
		`{"query": "Key", "default": "none", "hash": false}`: {
			Source: FromQuery, Name: "Key", HasDefault: true,
			Default: "none",
		},
		`{"client_ip": true}`:                  {Source: FromClientIP},
		`{"path": true}`:                       {Source: FromPath},
		`{"path": {"segments": 2}}`:            {Source: FromPath, Segments: 2},
		`{"method": true}`:                     {Source: FromMethod},
		`{"host": true}`:                       {Source: FromHost},
		`{"bearer": true, "hash": true}`:       {Source: FromBearer, Hash: true},
		`{"metadata": ["a", "b"]}`:             {Source: FromMetadata, Path: []string{"a", "b"}},
		`{"property": ["connection", "id"]}`:   {Source: FromProperty, Path: []string{"connection", "id"}},
		`{"expr": "request.id", "hash": true}`: {Source: FromExpr, Expr: "request.id", Hash: true},
		`{"constant": "a\u0000|b"}`:            {Source: FromConstant, Value: "a\x00|b"},
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
	tests := map[string]Amount{
		`0`:                        {Default: 0, Max: 1_000_000},
		`7`:                        {Default: 7, Max: 1_000_000},
		`{"header": "X-Cost"}`:     {Header: "x-cost", Default: 1, Max: 1_000_000},
		`{"expr": "request.size"}`: {Expr: "request.size", Default: 1, Max: 1_000_000},
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
		l := Limit{Limit: base, Name: "r", Window: "1m"}
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
		{`"sliding_window_counter", "sub_windows": 60`, with(algo.SlidingWindowCounter, func(l *Limit) {
			l.SubWindows = 60
		})},
		{`"token_bucket", "burst": 30`, with(algo.TokenBucket, func(l *Limit) { l.Burst = 30 })},
		{`"leaky_bucket"`, with(algo.LeakyBucket, func(*Limit) {})},
		{`"leaky_bucket", "overflow": "reject"`, with(algo.LeakyBucket, func(*Limit) {})},
		{`"leaky_bucket", "overflow": "queue"`, with(algo.LeakyBucket, func(l *Limit) {
			l.Queue, l.MaxDelayMicros = true, 30_000_000
		})},
		{`"leaky_bucket", "overflow": "queue", "max_delay": "5s"`, with(algo.LeakyBucket, func(l *Limit) {
			l.Queue, l.MaxDelayMicros = true, 5_000_000
		})},
		{`"token_bucket", "refill": "step"`, with(algo.TokenBucket, func(l *Limit) { l.Steps = true })},
		{`"token_bucket", "refill": "continuous"`, with(algo.TokenBucket, func(*Limit) {})},
		{`"token_bucket", "overflow": "queue", "max_wait": "1m"`, with(algo.TokenBucket, func(l *Limit) {
			l.Queue, l.MaxDelayMicros = true, 60_000_000
		})},
		{`"gcra", "overflow": "queue", "max_wait": "1ms"`, with(algo.GCRA, func(l *Limit) {
			l.Queue, l.MaxDelayMicros = true, 1000
		})},
		{`"gcra", "overflow": "reject"`, with(algo.GCRA, func(*Limit) {})},
		{`"gcra", "name": "a b"`, with(algo.GCRA, func(l *Limit) { l.Name = "a b" })},
		{`"gcra", "lease": {"ttl": "200ms"}`, with(algo.GCRA, func(l *Limit) {
			l.Lease, l.LeaseMicros = &Lease{TTLMicros: 200_000}, 400_000
		})},
		{`"gcra", "lease": {"units": 10, "ttl": "200ms"}`, with(algo.GCRA, func(l *Limit) {
			l.Lease, l.LeaseMicros = &Lease{Units: 10, TTLMicros: 200_000}, 400_000
		})},
	}
	for _, tt := range tests {
		part := fmt.Sprintf(`{"limit": 10, "window": "60s", "algorithm": %s}`, tt.fields)
		check(t, part, mustParse(t, "limit", part).Rules[0].Limits, []Limit{tt.want})
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	tests := map[string]*Settle{
		`{"status": ["401", "4xx", "500-599"]}`:  {Status: []StatusRange{{401, 401}, {400, 499}, {500, 599}}},
		`{"expr": "true", "missing": "release"}`: {Expr: "true", Release: true},
		`{"cost": {"header": "x", "max": 9}, "missing": {"cost": 1000000}}`: {
			Cost: &SettleCost{Amount: Amount{Header: "x", Max: 9}, Per: 1}, MissingCost: 1e6,
		},
		`{"cost": {"header": "X-Cost", "max": 9}, "missing": "keep"}`: {
			Cost: &SettleCost{Amount: Amount{Header: "x-cost", Max: 9}, Per: 1},
		},
		`{"status": ["200"], "cost": {"property": ["response", "size"], "per": 1024, "max": 9}}`: {
			Status: []StatusRange{{200, 200}},
			Cost:   &SettleCost{Amount: Amount{Property: []string{"response", "size"}, Max: 9}, Per: 1024},
		},
	}
	for part, want := range tests {
		check(t, part, mustParse(t, "settle", part).Rules[0].Settle, want)
	}
}

func TestPenalties(t *testing.T) {
	t.Parallel()
	const part = `{"after": 5, "within": "1m", "for": ["5m", "1h"]}`
	check(t, part, mustParse(t, "penalty", part).Rules[0].Penalty, &algo.Penalty{
		After: 5, WithinMicros: 60_000_000, ForMicros: []int64{300_000_000, 3_600_000_000},
	})
	c := mustParse(t, "config", `{"redis": {"cluster": "c"}, "rules": [{"name": "r", "overrides": true, "limits": [`+
		aLimit+`]}]}`)
	check(t, "overrides", c.Rules[0].Overrides, true)
}

func TestLimitCosts(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "limits", `[
		{"algorithm": "gcra", "limit": 10, "window": "1s"},
		{"algorithm": "gcra", "limit": 10, "window": "1m", "cost": 0},
		{"algorithm": "gcra", "limit": 10, "window": "1h", "cost": {"header": "x", "max": 5}}]`)
	var got []*Amount
	for _, limit := range c.Rules[0].Limits {
		got = append(got, limit.Cost)
	}
	check(t, "costs", got, []*Amount{nil, {Max: 1_000_000}, {Header: "x", Default: 1, Max: 5}})
}

func TestRequestLimits(t *testing.T) {
	t.Parallel()
	const part = `{"algorithm": "gcra", "window": "1s",
		"limit": {"metadata": ["a", "b"], "default": 0, "max": 7},
		"burst": {"expr": "5", "default": 1, "max": 9}}`
	check(t, part, mustParse(t, "limit", part).Rules[0].Limits, []Limit{{
		Limit:     algo.Limit{Algorithm: algo.GCRA, Units: 7, WindowMicros: 1_000_000, Burst: 9},
		UnitsFrom: &Amount{Metadata: []string{"a", "b"}, Default: 0, Max: 7},
		BurstFrom: &Amount{Expr: "5", Default: 1, Max: 9},
		Name:      "r", Window: "1s",
	}})
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
		testenv.Same(t, rule.Name+": exempt", rule.Exempt, want[i].exempt)
		testenv.Same(t, rule.Name+": the mode", rule.Mode, want[i].mode)
		testenv.Same(t, rule.Name+": the number of components", len(rule.Key), want[i].key)
		testenv.Same(t, rule.Name+": the number of limits", len(rule.Limits), want[i].limits)
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
			"b": [{"algorithm": "gcra", "limit": 1, "window": "1h"},
				{"algorithm": "gcra", "limit": 1, "window": "1m", "name": "tiers"}]}}},
		{"name": "pair", "limits": [
			{"algorithm": "gcra", "limit": 1, "window": "1d"},
			{"algorithm": "fixed_window", "limit": 1, "window": "24h"},
			{"algorithm": "token_bucket", "limit": 1, "window": "1d", "name": "mine"},
			{"algorithm": "concurrency", "limit": 1},
			{"algorithm": "gcra", "limit": 1, "window": "1m"}]},
		{"name": "slots", "limits": [{"algorithm": "concurrency", "limit": 1, "ttl": "5s"}]}]}`)
	var got []string
	for _, rule := range c.Rules[:3] {
		for _, limit := range rule.Limits {
			got = append(got, limit.Name+" "+limit.Window)
		}
	}
	for _, tier := range c.Rules[2].Tiers.Values {
		for _, limit := range tier.Limits {
			got = append(got, limit.Name+" "+limit.Window)
		}
	}
	check(t, "policies", got, []string{
		"one 1m",
		"many-60s 1m", "daily 1d", "many-1m30s 1m30s",
		"tiers 1m",
		"tiers-1h 1h", "tiers 1m",
	})
	got = nil
	for _, limit := range c.Rules[3].Limits {
		got = append(got, limit.Name)
	}
	check(t, "a pair of one window", got,
		[]string{"pair-1d-gcra", "pair-24h-fixed_window", "mine", "pair-concurrency", "pair-1m"})
	slots := []algo.Limit{c.Rules[3].Limits[3].Limit, c.Rules[4].Limits[0].Limit}
	check(t, "slots", slots, []algo.Limit{
		{Algorithm: algo.Concurrency, Units: 1, TTLMicros: 30e6},
		{Algorithm: algo.Concurrency, Units: 1, TTLMicros: 5e6},
	})
	check(t, "the name of slots alone", c.Rules[4].Limits[0].Name, "slots")
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
				Limit: algo.Limit{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1_000_000},
				Name:  "r", Window: "1s",
			}}},
			{Value: "free", Unlimited: true},
		},
		HasDefault: true, Default: "free",
	})
	if c.Rules[0].Limits != nil {
		t.Errorf("limits and tiers: %+v", c.Rules[0].Limits)
	}
}
