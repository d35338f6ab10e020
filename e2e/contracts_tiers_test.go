package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

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
