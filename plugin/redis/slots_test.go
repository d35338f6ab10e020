package redis

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// newSlotRig is a rig whose rule has a window and slots.
func newSlotRig(t testing.TB) *rig {
	t.Helper()
	plan, err := algo.NewPlan([]algo.Limit{
		{Algorithm: algo.FixedWindow, Units: 10, WindowMicros: 60e6},
		{Algorithm: algo.Concurrency, Units: 5, TTLMicros: 30e6},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, testOptions())
	r.script = NewScript(plan, "rl", []string{":fixed_window:1m", ":concurrency"})
	return r
}

const slotsAllowed = "*7\r\n:77\r\n:9\r\n:1000\r\n:0\r\n:0\r\n:3\r\n:0\r\n"

// held is the charge of a check of rig's rule: two slots.
func (r *rig) held(nonce int64) Charge {
	return Charge{
		Script: r.script, Demand: rule.Demand{Tag: []byte("r|a"), Costs: []int64{1, 2}}, Nonce: nonce, AtMicros: 77,
	}
}

// release gives back what held has taken.
func (r *rig) release(nonce int64) {
	r.conn.Release(r.script, []byte("r|a"), Slots{nonce, 2}, r.now)
}

// last are the commands that wait for a reply, without the text of scripts, those with
// EVAL in capitals.
func (r *rig) last() (all []string) {
	for _, c := range r.commands {
		name := ""
		for _, s := range []struct {
			name   string
			script algo.Script
		}{
			{"check", r.script.plan.Script()},
			{"refund", r.script.plan.RefundScript()},
			{"release", algo.ReleaseScript()},
			{"renew", algo.RenewScript()},
			{"renew by key", algo.RenewScriptWithoutTime()},
		} {
			switch c[1] {
			case s.script.SHA1:
				name = s.name
			case s.script.Source:
				name = strings.ToUpper(s.name)
			}
		}
		all = append(all, name+" "+strings.Join(c[2:], " "))
	}
	return all
}

func (r *rig) wantCommands(want ...string) {
	r.t.Helper()
	if got := r.last(); !slices.Equal(got, want) {
		r.t.Errorf("sent\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSlotCommands: a nonce follows the costs where there are slots, and only there; what is given
// back leaves together.
func TestSlotCommands(t *testing.T) {
	t.Parallel()
	r := newSlotRig(t)
	q := r.request("r|a")
	q.flush()
	nonce := r.conn.requests.nonce
	numbers := testenv.Doubles(10, 60000000, 5, 30000000)
	r.wantCommands(fmt.Sprint("check 2 rl:{r|a}:fixed_window:1m rl:{r|a}:concurrency 1 ", nonce, " ", numbers))
	r.answer(slotsAllowed)
	r.release(6)
	r.wantCommands("RELEASE 1 rl:{r|a}:concurrency 6 2") // at once
	r.release(7)
	r.release(8)
	if len(r.commands) != 1 || r.conn.NextTickMicros(r.now) != minTickMicros {
		t.Errorf("sent at once: %q; next tick %d", r.last(), r.conn.NextTickMicros(r.now))
	}
	r.answer(":0\r\n")
	r.wantCommands("release 1 rl:{r|a}:concurrency 7 2 8 2")
	r.release(9)
	r.conn.Tick(r.now)
	r.answer(":1\r\n")
	r.answer(":0\r\n")
	r.conn.Renew(r.script, []byte("r|a"), []Slots{{3, 1}, {4, 2}}, r.now)
	r.conn.Flush(r.now)
	r.release(10)
	r.request("r|b").flush()
	r.wantCommands(
		"RENEW 1 rl:{r|a}:concurrency 30000000 3 1 4 2",
		"release 1 rl:{r|a}:concurrency 10 2",
		fmt.Sprint("check 2 rl:{r|b}:fixed_window:1m rl:{r|b}:concurrency 1 ", nonce+1, " ", numbers),
	)
	r.answer(":1\r\n")
	r.answer(":0\r\n")
	r.answer(slotsAllowed)
	testenv.Same(t, "renewed slots", r.counted[metric.SlotsRenewed], 2)
	testenv.Same(t, "slots that had ended", r.counted[metric.SlotsExpired], 1)
	testenv.Same(t, "that the connection is idle", r.conn.Idle(), true)
}

// releaseOf7 is the command that gives back what newSlotRig's request with nonce 7 holds.
const releaseOf7 = "RELEASE 1 rl:{r|a}:concurrency 7 2"

// lostReleases are ways to lose a release of slots, and the commands that wait for a reply then.
var lostReleases = []struct {
	name string
	do   func(r *rig)
	want []string
}{
	{"the connection was lost before", func(r *rig) {
		r.closeStream()
		r.release(7)
		r.conn.Tick(r.now)
		r.prove()
	}, []string{releaseOf7}},
	{"and after", func(r *rig) {
		r.release(7)
		r.conn.Tick(r.now)
		r.closeStream()
		r.conn.Tick(r.now)
		r.prove()
	}, []string{releaseOf7}},
	{"a refund that was lost", func(r *rig) {
		r.conn.Refund(r.held(7), r.now)
		r.closeStream()
		r.conn.Tick(r.now)
		r.prove()
	}, []string{releaseOf7}},
	{"a refund that could not be sent", func(r *rig) {
		r.closeStream()
		r.conn.Refund(r.held(7), r.now)
		r.conn.Tick(r.now)
		r.prove()
	}, []string{"REFUND 2 rl:{r|a}:fixed_window:1m rl:{r|a}:concurrency 1 10 60000000 2 7 5 30000000 77"}},
	{"an error reply", func(r *rig) {
		r.release(7)
		r.conn.Tick(r.now)
		r.answer("-LOADING Redis is loading the dataset in memory\r\n")
		r.conn.Tick(r.now)
		if len(r.commands) > 0 {
			r.t.Error("it was sent again at once")
		}
		r.pass(refusedMicros)
	}, []string{releaseOf7}},
	{"a refund with an error reply", func(r *rig) {
		r.conn.Refund(r.held(7), r.now)
		r.answer("-LOADING Redis is loading the dataset in memory\r\n")
		r.pass(refusedMicros)
	}, []string{releaseOf7}},
	{"Redis is away for longer than the ttl", func(r *rig) {
		r.closeStream()
		r.release(7)
		r.openErr = errHost
		r.pass(30e6)
		r.openErr = nil
		r.pass(20e6)
	}, nil},
	{"the breaker is open", func(r *rig) {
		r.trip(5)
		r.release(7)
		r.passPause()
		r.answer("+OK\r\n")
		r.conn.Tick(r.now)
	}, []string{releaseOf7}},
	{"no slots", func(r *rig) {
		r.conn.Release(r.script, []byte("r|a"), Slots{7, 0}, r.now)
		r.conn.Tick(r.now)
	}, nil},
}

// TestSlotsAreGivenBackAgain: what is lost with a connection, or refused, is given back
// when Redis is there, and is given up when the slots have ended by themselves.
func TestSlotsAreGivenBackAgain(t *testing.T) {
	t.Parallel()
	for _, c := range lostReleases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newSlotRig(t)
			r.request("r|b").flush()
			r.answer(slotsAllowed)
			c.do(r)
			r.wantCommands(c.want...)
		})
	}
}

// TestLostCheckGivesItsSlotsBack: whether a check that was lost has taken slots is not
// known, and they are given back. It counts as none that had ended.
func TestLostCheckGivesItsSlotsBack(t *testing.T) {
	t.Parallel()
	r := newSlotRig(t)
	r.request("r|a").flush()
	nonce := r.conn.requests.nonce
	r.closeStream()
	r.conn.Tick(r.now + 200*ms)
	r.wantCommands(fmt.Sprintf("RELEASE 1 rl:{r|a}:concurrency %d 1", nonce))
	r.answer(":1\r\n")
	if gone := r.counted[metric.SlotsExpired]; gone != 0 {
		t.Errorf("%d slots had ended", gone)
	}
}

// TestSlotScriptsUnknown: Redis has forgotten them.
func TestSlotScriptsUnknown(t *testing.T) {
	t.Parallel()
	r := newSlotRig(t)
	r.request("r|b").flush()
	r.answer(slotsAllowed)
	for range 2 { // the second time by hash
		r.release(7)
		r.conn.Renew(r.script, []byte("r|a"), []Slots{{3, 1}}, r.now)
		r.conn.Tick(r.now)
		if len(r.commands) != 2 {
			t.Fatalf("sent %q", r.last())
		}
		r.answer(":1\r\n")
		r.answer(":0\r\n")
	}
	r.release(7)
	r.conn.Renew(r.script, []byte("r|a"), []Slots{{3, 1}}, r.now)
	r.conn.Tick(r.now)
	r.wantCommands("release 1 rl:{r|a}:concurrency 7 2", "renew 1 rl:{r|a}:concurrency 30000000 3 1")
	r.answer("-NOSCRIPT No matching script.\r\n")
	r.answer("-NOSCRIPT No matching script.\r\n")
	r.wantCommands("RELEASE 1 rl:{r|a}:concurrency 7 2", "RENEW 1 rl:{r|a}:concurrency 30000000 3 1")
}

// TestRenewalWithoutTime tells the time by a key where TIME is refused.
func TestRenewalWithoutTime(t *testing.T) {
	t.Parallel()
	r := newSlotRig(t)
	r.request("r|b").flush()
	r.answer(slotsAllowed)
	r.conn.Renew(r.script, []byte("r|a"), []Slots{{3, 1}}, r.now)
	r.conn.Flush(r.now)
	r.answer("-ERR This Redis command is not allowed from script\r\n")
	r.wantCommands("RENEW BY KEY 2 rl:{r|a}:concurrency rl:{r|a}:clock 30000000 3 1")
}

// TestRenewalConnects: slots that are held keep a connection, without any request; an
// open breaker does not.
func TestRenewalConnects(t *testing.T) {
	t.Parallel()
	r := newSlotRig(t)
	r.conn.Renew(r.script, []byte("r|a"), []Slots{{3, 1}}, r.now)
	r.conn.Flush(r.now)
	r.wantCommands("RENEW 1 rl:{r|a}:concurrency 30000000 3 1")
	r.answer(":0\r\n")
	r.trip(5)
	r.conn.Renew(r.script, []byte("r|a"), []Slots{{3, 1}}, r.now)
	r.conn.Flush(r.now)
	r.wantCommands()
}

// TestManyReleases: where very many requests end at once, an identity's slots are given
// back together, and no callback sends more than a portion.
func TestManyReleases(t *testing.T) {
	t.Parallel()
	const held = 2000
	for name, c := range map[string]struct {
		identities int
		commands   int // of a portion
	}{
		"one identity":    {identities: 1, commands: 1},
		"many identities": {identities: held, commands: releasePortion},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newSlotRig(t)
			r.request("r|b").flush()
			r.answer(slotsAllowed)
			r.release(0)
			r.answer(":0\r\n")
			r.request("r|b").flush()
			for n := range held {
				r.conn.Release(r.script, fmt.Appendf(nil, "r|%d", n%c.identities), Slots{int64(n), 2}, r.now)
			}
			r.answer(slotsAllowed)
			if got := len(r.commands); got != c.commands {
				t.Errorf("%d commands were sent at once, want %d", got, c.commands)
			}
			given := map[string]bool{}
			for len(r.commands) > 0 {
				for _, command := range r.last() {
					words := strings.Fields(command)
					for i := 3; i < len(words); i += 2 {
						given[words[2]+" "+words[i]] = true
					}
				}
				for range r.commands {
					r.answer(":0\r\n")
				}
			}
			if len(given) != held || !r.conn.Idle() {
				t.Errorf("the slots of %d requests were given back, want %d; idle: %v", len(given), held, r.conn.Idle())
			}
		})
	}
}
