package algo

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// lua54 collects calls of scripts, which then run under Lua 5.4 in one go, on a stand-in for Redis.
type lua54 struct {
	program bytes.Buffer
	loaded  map[string]bool
	checks  []func(reply *redis.Cmd)
}

func (l *lua54) call(_ testing.TB, s Script, nowMicros int64, keys []string, args []any, check func(reply *redis.Cmd)) {
	if !l.loaded[s.SHA1] {
		l.loaded[s.SHA1] = true
		fmt.Fprintf(&l.program, "load('%s', [==[\n%s]==])\n", s.SHA1, s.Source)
	}
	fmt.Fprintf(&l.program, "run('%s', %d, {", s.SHA1, nowMicros)
	for _, k := range keys {
		fmt.Fprintf(&l.program, "%q,", k)
	}
	l.program.WriteString("}, {")
	for _, a := range args {
		l.program.WriteByte('\'')
		for _, b := range []byte(fmt.Sprint(a)) {
			fmt.Fprintf(&l.program, `\%03d`, b)
		}
		l.program.WriteString("',")
	}
	l.program.WriteString("})\n")
	l.checks = append(l.checks, check)
}

// flush runs the program.
func (l *lua54) flush(t testing.TB) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Tool(t, "lua5.4"), "-")
	cmd.Stdin = strings.NewReader(string(testenv.Read(t, "testdata/redis.lua")) + l.program.String())
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil || len(lines) != len(l.checks) {
		t.Fatalf("%d replies to %d calls, %v: %s", len(lines), len(l.checks), err, lines[len(lines)-1])
	}
	for i, line := range lines {
		numbers, alone := strings.CutPrefix(line, "integer ")
		var values []any
		for _, text := range strings.Fields(numbers) {
			v, err := strconv.ParseInt(text, 10, 64)
			testenv.OK(t, err)
			values = append(values, v)
		}
		var reply any = values
		if alone {
			reply = values[0]
		}
		l.checks[i](redis.NewCmdResult(reply, nil))
	}
	*l = lua54{loaded: map[string]bool{}}
}

// TestLua54OnTheClockOfAKey: where Redis refuses TIME the clock goes by the millisecond. Numbers are packed in
// the second and third of the plans.
func TestLua54OnTheClockOfAKey(t *testing.T) {
	t.Parallel()
	all := append(everyLimit, hours)
	for n, limits := range [][]Limit{all, all[:maxPacked], all[len(all)-maxPacked:]} {
		l := &lua54{loaded: map[string]bool{}}
		w := newTwins(t, l, mustPlan(t, limits...), fmt.Sprint("clock-", n))
		w.withoutTime()
		for now := int64(epoch); now < epoch+200*777_000; now += 777_000 {
			w.forget(t, now)
			a, want := costing(w.Each(1)...), make([]Decision, len(w.keys))
			a.costs[0] = now / 777_000 % 2
			w.Decide(w.states, now, a.costs, want)
			l.call(t, w.Script(), now+999, slices.Concat(w.keys, w.clock), w.args(a), func(reply *redis.Cmd) {
				r, got, _, err := parseReply(w.Plan, reply)
				testenv.SameError(t, fmt.Sprint("at ", now), err, nil)
				testenv.Same(t, "the time", r.AtMicros, now)
				testenv.SameList(t, fmt.Sprintf("the reply at %d", now), got, want)
			})
		}
		l.flush(t)
	}
}
