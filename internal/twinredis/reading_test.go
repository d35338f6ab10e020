package twinredis

import (
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// recipe reads the packed numbers of a check that MONITOR or SLOWLOG has shown.
const recipe = `EVAL "local n = {} for i = 1, #ARGV[1], 8 do ` +
	`n[#n + 1] = tostring((struct.unpack('<d', ARGV[1], i))) end return n" 0 `

// escaped is a text that Redis shows with escapes.
var escaped = regexp.MustCompile(`"[^"\n]*\\x00[^"\n]*"`)

// TestNumbersAreReadable does what docs/internals.md says of the check that stands there.
func TestNumbersAreReadable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	if err := client.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err(); err != nil {
		t.Fatal(err)
	}
	plan, err := algo.NewPlan([]algo.Limit{
		{Algorithm: algo.GCRA, Units: 1, WindowMicros: 1e6, Burst: 5},
		{Algorithm: algo.SlidingWindowCounter, Units: 100, WindowMicros: 3600e6},
	})
	if err != nil {
		t.Fatal(err)
	}
	var args []any
	for _, a := range plan.CheckArgs(0, algo.Over{}, plan.Each(1)) {
		args = append(args, a)
	}
	if err := client.Eval(t.Context(), plan.Script().Source, []string{"rl:{a}:a", "rl:{a}:b"}, args...).Err(); err != nil {
		t.Fatal(err)
	}
	numbers := escaped.FindString(redisCLI(t, server, "SLOWLOG GET"))
	testenv.Same(t, "what the recipe says", redisCLI(t, server, recipe+numbers),
		"1) \"1000000\"\n2) \"5000000\"\n3) \"100\"\n4) \"3600000000\"\n")
	testenv.Shows(t, "docs/internals.md", fmt.Sprintf("EVALSHA %s 2\n", plan.Script().SHA1))
	testenv.Shows(t, "docs/internals.md", "  "+numbers+"\n")
	testenv.Shows(t, "docs/internals.md", recipe)
	perAddress := algo.Limit{Algorithm: algo.TokenBucket, Units: 10, WindowMicros: 1e6, Burst: 20}
	if plan, err = algo.NewPlan([]algo.Limit{perAddress}); err != nil {
		t.Fatal(err)
	}
	testenv.Shows(t, "docs/internals.md", fmt.Sprintf("EVALSHA %s 1\n", plan.Script().SHA1))
}

// redisCLI gives redis-cli a line, as somebody who types it.
func redisCLI(t *testing.T, server *redistest.Server, line string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), testenv.Tool(t, "redis-cli"), "-p", port, "--no-raw")
	command.Stdin = strings.NewReader(line + "\n")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
