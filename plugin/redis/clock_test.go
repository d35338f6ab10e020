package redis

import (
	"context"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/redistest"
)

// What servers answer to a script that calls a command they do not have.
var commandRefused = map[string]bool{
	// Redis 7.0.15 with rename-command TIME "".
	"ERR Unknown Redis command called from script script: c1df3152e643748c5d31eb280b865f151d6476d8, " +
		"on @user_script:2.": true,
	// Redis 6.2.
	"ERR Error running script (call to f_6b1bf486c81ceb7edf3c093f0fb1291d6438a1cc): @user_script:2: @user_script: 2: " +
		"Unknown Redis command called from Lua script": true,
	// Valkey 9.
	"ERR Unknown command called from script script: 53aa7d296ba9ded783301cc275161b6e344ad383, on @user_script:2.": true,
	// Amazon ElastiCache Serverless.
	"ERR This Redis command is not allowed from script script: 53aa7d296ba9ded783301cc275161b6e344ad383, on " +
		"@user_script:13.": true,

	"ERR The user executing the script can't run this command or subcommand script: x, on @user_script:2.": false,
	"NOPERM this user has no permissions to run the 'time' command":                                        false,
	"ERR unknown command 'EVALSHA'":                  false,
	"LOADING Redis is loading the dataset in memory": false,
}

// Where scripts may not call TIME, checks and refunds are sent again without it,
// and from then on at once. One line says so.
func TestWithoutTime(t *testing.T) {
	t.Parallel()
	for text, refused := range commandRefused {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testOptions())
			refuse := func() { r.answer("-" + text + "\r\n") }
			first, second := r.request("a").flush(), r.request("b").flush()
			refuse()
			if !refused {
				first.want("error_reply")
				return
			}
			refuse()
			for _, tag := range []string{"a", "b"} {
				got := r.answer(decision(7, true))
				if want := r.script.plan.ScriptWithoutTime().Source; got[0] != "EVAL" || got[1] != want {
					t.Errorf("sent %q, want a script without TIME", got)
				}
				if want := "rl:{" + tag + "}" + algo.ClockSuffix; got[2] != "2" || got[4] != want {
					t.Errorf("%s keys, the last is %s; want %s", got[2], got[4], want)
				}
			}
			first.want("at 7")
			second.want("at 7")
			third := r.request("c").flush()
			if got := r.allow(8); got[0] != "EVALSHA" || got[1] != r.script.plan.ScriptWithoutTime().SHA1 {
				t.Errorf("sent %q, want a script without TIME", got)
			}
			third.want("at 8")
			r.conn.Refund(third.charged(0), r.now)
			if got := r.answer(":0\r\n"); got[1] != r.script.plan.RefundScriptWithoutTime().Source {
				t.Errorf("sent %q, want a refund without TIME", got)
			}
			if len(r.lines) != 1 || !strings.Contains(r.lines[0], "TIME") {
				t.Errorf("logged %q, want one line", r.lines)
			}
			if len(r.failed) > 0 || r.conn.State() != Closed {
				t.Errorf("failed %v, state %d", r.failed, r.conn.State())
			}
		})
	}
}

// If it is another command that is missing, the check fails as ever.
func TestAnotherCommandIsMissing(t *testing.T) {
	t.Parallel()
	const unknown = "-ERR Unknown Redis command called from script script: x, on @user_script:9.\r\n"
	r := newRig(t, testOptions())
	for range 5 {
		w := r.request("a").flush()
		for len(r.commands) > 0 {
			r.answer(unknown)
		}
		w.want("error_reply")
	}
	r.wantState(Open)
}

// A check that has expired is not sent again: it has charged nothing.
func TestWithoutTimeAfterTheTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.request("a").flush()
	r.pass(50 * ms)
	r.answer("-ERR This Redis command is not allowed from script script: x, on @user_script:2.\r\n")
	w.want("expired, timeout")
	if len(r.commands) > 0 {
		t.Errorf("sent %v", r.commands)
	}
}

// A Redis that has no TIME decides, charges and gives back.
func TestRealRedisWithoutTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--rename-command", "TIME", "")
	r, s := connect(t, server, testOptions()), testScript(t)
	first := r.check(s, "user", 20)
	if !first.decision.Allowed {
		t.Fatalf("the first check: %+v; log %q", first, r.lines)
	}
	if second := r.check(s, "user", 20); second.decision.Allowed {
		t.Errorf("beyond the limit: %+v", second)
	}
	r.conn.Refund(first.charge, r.now)
	if third := r.check(s, "user", 20); !third.decision.Allowed {
		t.Errorf("after a refund: %+v", third)
	}
	keys := server.Client().Keys(context.Background(), "*").Val()
	if len(keys) != 2 {
		t.Errorf("keys %q, want that of the limit and a clock", keys)
	}
	if len(r.lines) != 1 {
		t.Errorf("logged %q, want one line", r.lines)
	}
}
