package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// tierRules have a source of tiers without a default, and tiers that count for a user, that keep room for
// critical requests, or that have two limits.
const tierRules = `{` + patient + `"headers": ["draft"], "rules": [
	{"name": "t", "key": [{"query": "u"}], "overrides": true, "cost": {"header": "x-cost", "default": 1, "max": 9},
		"limits_by": {"source": {"header": "x-plan"}, "values": {"staff": "unlimited",
		"free": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 5, ` + long + `}],
		"team": [{"algorithm": "gcra", "limit": 100, "window": "300d", "name": "all"},
			{"algorithm": "gcra", "limit": 3, "window": "300d", "name": "user", "per": [{"header": "x-user"}]}],
		"reserve": [{"algorithm": "gcra", "limit": 10, "window": "300d", "name": "room", "ceiling":
			{"source": {"header": "x-class"}, "values": {"critical": 100, "bulk": 50}, "default": "bulk"}}],
		"two": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 50, ` + long + `, "name": "day"},
			{"algorithm": "gcra", "limit": 400, "burst": 20, "window": "300d", "name": "burst"}]}}}]}`

// tierRequests are requests of identities that have a contract, each the first of its own.
var tierRequests = []struct {
	value   string
	headers []string
	want    string // RateLimit, without its times
	status  int    // 200 unless stated
}{
	{value: "tier:team", want: ""}, // the source names no tier: the rule does not apply
	{value: "", headers: []string{"x-plan: two"}, want: `"day";r=49, "burst";r=19`},
	{value: "tier:free", headers: []string{"x-plan: two"}, want: `"t";r=4`},
	{value: "tier:two", headers: []string{"x-plan: staff"}, want: `"day";r=49, "burst";r=19`},
	{value: "tier:staff", headers: []string{"x-plan: free", "x-cost: 9"}, want: ""},

	// What the tier reads of the request.
	{value: "tier:team", headers: []string{"x-plan: free", "x-user: ann"}, want: `"all";r=99, "user";r=2`},
	{value: "tier:team", headers: []string{"x-plan: free", "x-user: bob", "x-cost: 3"}, want: `"all";r=97, "user";r=0`},
	{value: "tier:team", headers: []string{"x-plan: free", "x-cost: 4"}, want: `"all";r=96`},
	{
		value: "tier:team", headers: []string{"x-plan: free", "x-user: ann", "x-cost: 4"},
		want: `"all";r=100, "user";r=3`, status: limitedStatus,
	},
	{value: "tier:reserve", headers: []string{"x-plan: free"}, want: `"room";r=4`},
	{value: "tier:reserve", headers: []string{"x-plan: free", "x-cost: 6"}, want: `"room";r=5`, status: limitedStatus},
	{value: "tier:reserve", headers: []string{"x-plan: free", "x-cost: 6", "x-class: critical"}, want: `"room";r=4`},

	// Numbers are of the tier in force, and leave the others' as they are.
	{value: "limits:day=7", headers: []string{"x-plan: two"}, want: `"day";r=6, "burst";r=19`},
	{value: "limits:burst=30/7", headers: []string{"x-plan: two"}, want: `"day";r=49, "burst";r=6`},
	{value: "limits:burst=30,day=1000000000", headers: []string{"x-plan: two"}, want: `"day";r=999999999, "burst";r=29`},
	{value: "limits:user=9", headers: []string{"x-plan: team", "x-user: ann"}, want: `"all";r=99, "user";r=8`},
	{value: "limits:room=20", headers: []string{"x-plan: reserve"}, want: `"room";r=9`},

	// What is no sense changes nothing.
	{value: "limits:day=7/2", headers: []string{"x-plan: two"}, want: `"day";r=49, "burst";r=19`},
	{value: "limits:burst=30/0", headers: []string{"x-plan: two"}, want: `"day";r=49, "burst";r=19`},
	{value: "limits:day=1000000001", headers: []string{"x-plan: two"}, want: `"day";r=49, "burst";r=19`},
	{value: "limits:day=7,day=7", headers: []string{"x-plan: two"}, want: `"day";r=49, "burst";r=19`},
	{value: "limits:day=7,user=7", headers: []string{"x-plan: two"}, want: `"day";r=49, "burst";r=19`},
	{value: "limits:user=7", headers: []string{"x-plan: two"}, want: `"day";r=49, "burst";r=19`},
}

// TestContractsOfTiers: a tier that an override names counts whatever the source says, where the rule
// applies, and takes of the request what it reads. Numbers are those of the tier in force.
func TestContractsOfTiers(t *testing.T) {
	t.Parallel()
	s := start(t, tierRules, envoytest.Options{})
	times := regexp.MustCompile(`;t=\d+`)
	for i, tc := range tierRequests {
		user := fmt.Sprint(i)
		if tc.value != "" {
			s.contract(t, "t|"+user, tc.value)
		}
		r := get(t, s.URL+"/?u="+user, tc.headers...)
		what := fmt.Sprintf("%s, %q", tc.value, tc.headers)
		testenv.Same(t, what+": status", r.status, max(tc.status, http.StatusOK))
		testenv.Same(t, what+": RateLimit", times.ReplaceAllString(r.header.Get("RateLimit"), ""), tc.want)
	}
}

// directAnswer has Envoy answer in the upstream's place.
func directAnswer(c *envoyconf.Config) {
	c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/all/routes", c.Fragment(`
- {match: {prefix: "/"}, direct_response: {status: 200}}
`))
}

// TestMemoryOfContracts: a worker remembers the overrides of the 10,000 identities that it saw last, or
// a megabyte of them. Those take one call; any other takes two.
func TestMemoryOfContracts(t *testing.T) {
	t.Parallel()
	s := start(t, `{`+patient+`"rules": [{"name": "r", "key": [{"header": "x-user"}], "overrides": true,
		"limits": [{"algorithm": "gcra", "limit": 1000000, `+long+`}]}]}`,
		envoytest.Options{Workers: 1, Edit: directAnswer})
	awaitDecided(t, s)
	m := &manyContracts{t: t, s: s}
	const long = 1000 // bytes
	m.come(1, strings.Repeat("?", long))
	m.calls("the first of 1,000 bytes", 0, 1)
	m.come(1, strings.Repeat("?", long))
	m.calls("one that was seen again", 0, 1)
	m.calls("one that was not", 1, 2)
	m.calls("the last", 1999, 1)

	m.come(4, "x2")
	m.come(4, "x2")
	m.calls("one of 9,000 identities", 1990, 1)
	m.come(3, "x2")
	m.calls("one that was seen again", 1990, 1)
	m.calls("one that was not", 1991, 2)
	m.calls("the last", 12_999, 1)
}

// manyContracts are users who have contracts.
type manyContracts struct {
	t     *testing.T
	s     *setting
	users int // so far
}

// name is of six bytes.
func (m *manyContracts) name(user int) string { return fmt.Sprint("u", 10_000+user) }

// come brings a thousand users on each of some connections, all of whom have a contract. Those of one
// connection come one after the other.
func (m *manyContracts) come(connections int, value string) {
	m.t.Helper()
	first, all := m.users, m.s.client.Pipeline()
	m.users += 1000 * connections
	for user := first; user < m.users; user++ {
		all.Set(ctx, "rl:{r|"+m.name(user)+"}:override", value, 0)
	}
	if _, err := all.Exec(ctx); err != nil {
		m.t.Fatal(err)
	}
	inOneGo(m.t, m.s, connections, func(connection, stream int) string { return m.name(first + 1000*connection + stream) })
}

// calls compares how many calls a user's next request takes.
func (m *manyContracts) calls(what string, user, want int) {
	m.t.Helper()
	before := m.s.evals(m.t)
	get(m.t, m.s.URL, "x-user: "+m.name(user))
	testenv.Same(m.t, what+": calls", m.s.evals(m.t)-before, want)
}
