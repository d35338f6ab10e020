package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// levelled is organisation, team and user, in classes.
const levelled = `{"redis": {"cluster": "redis"}, "rules": [{"name": "o", "key": [{"header": "x-org"}], "limits": [
	{"algorithm": "fixed_window", "limit": 100, "window": "1d", "name": "all",
		"ceiling": {"source": {"header": "x-class"}, "values": {"critical": 100, "bulk": 50}, "default": "bulk"}},
	{"algorithm": "fixed_window", "limit": 10, "window": "1d", "name": "team", "per": [{"header": "x-team"}]},
	{"algorithm": "fixed_window", "limit": 5, "window": "1d", "name": "user",
		"per": [{"header": "x-team"}, {"header": "x-user"}]}]}]}`

// TestExplainLevels: the limits that apply, with whose counters they are and what their classes leave.
func TestExplainLevels(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, headers, want string
	}{
		{"all levels, critical", "x-org: acme|x-team: ops|x-user: ann|x-class: critical", `
RULE  APPLIES  IDENTITY  COST  LIMIT                   KEY IN REDIS
o     yes      acme      1     fixed_window 100 in 1d  rl:{o|acme}:fixed_window:1d
                               fixed_window 10 in 1d   rl:{o|acme}:fixed_window:1d:per:team|ops
                               fixed_window 5 in 1d    rl:{o|acme}:fixed_window:1d:per:user|ops|ann
`},
		{"a team, in bulk", "x-org: acme|x-team: ops|x-class: bulk", `
RULE  APPLIES  IDENTITY  COST  LIMIT                                            KEY IN REDIS
o     yes      acme      1     fixed_window 100 in 1d, 50 for its class (50 %)  rl:{o|acme}:fixed_window:1d
                               fixed_window 10 in 1d                            rl:{o|acme}:fixed_window:1d:per:team|ops
`},
		{"a user without a team, of no class", "x-org: acme|x-user: ann", `
RULE  APPLIES  IDENTITY  COST  LIMIT                                            KEY IN REDIS
o     yes      acme      1     fixed_window 100 in 1d, 50 for its class (50 %)  rl:{o|acme}:fixed_window:1d
`},
	} {
		args := []string{"explain", "-c", "-", "http://h/"}
		for h := range strings.SplitSeq(tc.headers, "|") {
			args = append(args, "-H", h)
		}
		testenv.Same(t, tc.name, execute(t, levelled, args...).out, strings.TrimLeft(tc.want, "\n"))
	}
}

// TestGetFindsValues: without --per get finds the values that Redis has by a SCAN, and says so; with it
// it asks about these alone, and about none by as many values as are given.
func TestGetFindsValues(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Protocol: 2})
	t.Cleanup(func() { client.Close() })
	for _, user := range []string{"ann", "b*b", "bxb"} {
		team := map[bool]string{true: "x-team: red", false: "x-team: ops"}[user == "bxb"]
		charge(t, client, levelled, request(t, "http://h/", "x-org: acme", team, "x-user: "+user), "o", 2)
	}
	plugin := write(t, "plugin.json", levelled)
	for _, tc := range []struct {
		name, args, want string
		says             bool
	}{
		{
			"found", "get o acme",
			"all 6, team of ops 4, team of red 2, user of ops|ann 2, user of ops|b*b 2, user of red|bxb 2", true,
		},
		{"of a team", "get o acme --per ops", "all 6, team of ops 4", false},
		{"of a user", "get o acme --per ops --per b*b", "all 6, team of ops 4, user of ops|b*b 2", false},
		{"of another user", "get o acme --per red --per ann", "all 6, team of red 2, user of red|ann 0", false},
	} {
		args := append(strings.Fields(tc.args), "-c", plugin, "--redis", server.Addr)
		out := execute(t, "", args...).out
		testenv.Same(t, tc.name, usedIn(out), tc.want)
		testenv.Same(t, tc.name+": that it says so", strings.Contains(out, "by a SCAN"), tc.says)
	}
}

// usedIn reads the columns LIMIT and USED of a table of get.
func usedIn(table string) string {
	var used []string
	for _, row := range counterRow.FindAllStringSubmatch(table, -1) {
		used = append(used, row[1]+" "+row[2])
	}
	return strings.Join(used, ", ")
}

var counterRow = regexp.MustCompile(`(?m)^((?:all|team|user)(?: of \S+)?) +(\d+)`)
