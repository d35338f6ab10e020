package algo

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// lua54 collects calls of scripts, which then run under Lua 5.4 in one go.
type lua54 struct {
	program bytes.Buffer
	loaded  map[string]bool
	checks  []func(values []int64) // of each call, what its reply must be
}

func newLua54(t *testing.T) *lua54 {
	t.Helper()
	stand := testenv.Read(t, "testdata/redis.lua")
	l := &lua54{loaded: map[string]bool{}}
	l.program.Write(stand)
	return l
}

// call queues a call of a script at a time.
func (l *lua54) call(s Script, nowMicros int64, keys []string, args []any, check func(values []int64)) {
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
		l.program.WriteString(quoted54(fmt.Sprint(a)) + ",")
	}
	l.program.WriteString("})\n")
	l.checks = append(l.checks, check)
}

// quoted54 is a text in Lua, whatever its bytes are.
func quoted54(text string) string {
	quoted := []byte{'\''}
	for _, b := range []byte(text) {
		quoted = fmt.Appendf(quoted, `\%03d`, b)
	}
	return string(append(quoted, '\''))
}

// run runs what was queued and checks the replies.
func (l *lua54) run(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testenv.Tool(t, "lua5.4"), "-")
	cmd.Stdin = &l.program
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(lines) != len(l.checks) {
		t.Fatalf("%d replies to %d calls, %v: %s", len(lines), len(l.checks), err, lines[len(lines)-1])
	}
	for i, line := range lines {
		var values []int64
		for _, text := range strings.Fields(line) {
			v, err := strconv.ParseInt(text, 10, 64)
			testenv.OK(t, err)
			values = append(values, v)
		}
		if l.checks[i](values); t.Failed() {
			return
		}
	}
}

// TestLua54 replays random sequences of each algorithm and variant, with sizes that
// change and clocks that jump, under Lua 5.4: the replies are those of the Go.
func TestLua54(t *testing.T) {
	t.Parallel()
	for i, limit := range append(everyLimit(), hours(), lentLimit, slotsOfTwo) {
		t.Run(fmt.Sprintf("%d-%s", i, limit.Algorithm), func(t *testing.T) {
			t.Parallel()
			l, r := newLua54(t), newRandom(1200+uint64(i))
			for n := range 20 {
				other := r.limit(limit.Algorithm)
				limit.Units, limit.TTLMicros = other.Units, other.TTLMicros
				limit.WindowMicros = other.WindowMicros * max(limit.SubWindows, 1)
				if limit.validate() != nil {
					continue
				}
				plain := mustPlan(t, limit)
				key := fmt.Sprintf("rl:{%d}:key", n)
				states, out := make([]State, 1), make([]Decision, 1)
				now, p := epoch+r.Int64N(1e15), plain
				full := plain.Limits()[0]
				for nonce := range int64(60) {
					now += r.step(&full, out[0], now)
					if r.oneIn(20) {
						now = max(now-r.span(1, 2*max(full.WindowMicros, full.TTLMicros)), epoch)
					}
					if r.oneIn(10) {
						p, _ = plain.Sized(new(Plan), []Size{r.size(&full)})
					}
					if full.CalendarID != "" {
						p, _ = plain.Sized(new(Plan), []Size{{Units: p.Limits()[0].Units, Bounds: boundsAround(&full, now)}})
					}
					if states[0] != nil && ceilDiv(p.ExpiresAtMicros(0, states[0]), 1000)*1000 <= now {
						states[0] = nil // the stand-in has dropped it, too
					}
					costs := []int64{r.cost(p.Limits()[0].Capacity())}
					lua := luaPlan{Plan: p, nonce: nonce}
					lua.decide54(t, l, states, now, costs, key, out)
					if full.Algorithm == Concurrency && r.oneIn(5) {
						plain.Renew(states, now, nonce+1000, 2)
						l.call(RenewScript(), now, []string{key}, []any{full.TTLMicros, nonce + 1000, 2}, func([]int64) {})
					}
					if out[0].Allowed && costs[0] > 0 && r.oneIn(4) {
						p.Rebase(states, now)
						p.RefundAs(nonce, states, now, now, costs)
						l.call(p.RefundScript(), now, []string{key}, lua.refundArguments(costs, now), func(values []int64) {
							if !slices.Equal(values, []int64{0}) {
								t.Errorf("a refund answers %v", values)
							}
						})
					}
				}
			}
			l.run(t)
		})
	}
}

func (l *luaPlan) decide54(
	t *testing.T, program *lua54, states []State, now int64, costs []int64, key string, out []Decision,
) {
	t.Helper()
	l.Rebase(states, now)
	wantAllowed, got := l.DecideAs(l.nonce, states, now, costs, out), make([]Decision, 1)
	want := out[0]
	program.call(l.Script(), now, []string{key}, l.arguments(costs), func(values []int64) {
		at, allowed, err := l.ParseReply(values, got)
		what := fmt.Sprintf("%+v, costs %d at %d", l.Limits(), costs, now)
		testenv.SameError(t, what, err, nil)
		testenv.Same(t, what+": the time in Lua 5.4", at, now)
		testenv.Same(t, what+": that it is allowed", allowed, wantAllowed)
		testenv.Same(t, what+": the decision", got[0], want)
	})
}

// TestLua54OfSeveralLimits, and on the clock of a key: it goes by the millisecond. Eight of them have
// their numbers packed.
func TestLua54OfSeveralLimits(t *testing.T) {
	t.Parallel()
	all := append(everyLimit(), hours())
	for _, limits := range [][]Limit{all, all[:maxPacked], all[len(all)-maxPacked:]} {
		p := mustPlan(t, limits...)
		l := newLua54(t)
		var keys []string
		for i := range p.Limits() {
			keys = append(keys, fmt.Sprint("rl:{a}:", i))
		}
		withClock := append(slices.Clone(keys), "rl:{a}"+ClockSuffix)
		states, want := make([]State, len(keys)), make([]Decision, len(keys))
		now := int64(epoch)
		for range 200 {
			now += 777_000
			for i, s := range states {
				if s != nil && p.ExpiresAtMicros(i, s) <= now {
					states[i] = nil
				}
			}
			costs, lua := p.Each(1), luaPlan{Plan: p}
			costs[0] = now / 777_000 % 2
			p.Decide(states, now, costs, want)
			expect, then := slices.Clone(want), now
			l.call(p.ScriptWithoutTime(), now+999, withClock, lua.arguments(costs), func(values []int64) {
				got := make([]Decision, len(keys))
				at, _, err := p.ParseReply(values, got)
				testenv.SameError(t, fmt.Sprint("at ", then), err, nil)
				testenv.Same(t, "the time", at, then)
				testenv.SameList(t, fmt.Sprintf("the reply at %d", then), got, expect)
			})
		}
		l.run(t)
	}
}
