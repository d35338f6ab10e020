package redis

import (
	"fmt"
	"strings"
	"testing"
)

func TestSetUp(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		username, password string
		database           int64
		want               string
	}{
		{"", "", 0, "[]"},
		{"", "secret", 0, "[[AUTH secret]]"},
		{"alice", "secret", 0, "[[AUTH alice secret]]"},
		{"alice", "", 0, "[]"},
		{"", "", 3, "[[SELECT 3]]"},
		{"alice", "se cret", 12, "[[AUTH alice se cret] [SELECT 12]]"},
	} {
		options := testOptions()
		options.Username, options.Password, options.Database = tc.username, tc.password, tc.database
		r := newRig(t, options)
		for stream := range 2 {
			w, next := r.request("a").flush(), r.request("b").flush()
			n := len(r.commands) - 2
			if stream > 0 { // the probe is behind them, and the checks are kept
				n = len(r.commands) - 1
			}
			if got := fmt.Sprint(r.commands[:n]); got != tc.want {
				t.Errorf("stream %d: sent %s, want %s", stream, got, tc.want)
			}
			for range n {
				r.answer("+OK\r\n")
			}
			if stream > 0 {
				r.prove()
			}
			r.allow(1)
			r.allow(2)
			w.want("at 1")
			next.want("at 2")
			r.closeStream()
		}
	}
}

// Whatever refuses AUTH or SELECT refuses all: the breaker opens at once, one
// line says why, and probes are as rare as ever.
func TestSetUpRefused(t *testing.T) {
	t.Parallel()
	const (
		wrongPass = "WRONGPASS invalid username-password pair or user is disabled."
		noDB      = "ERR DB index is out of range"
	)
	for _, tc := range []struct {
		replies []string
		want    string
	}{
		{
			[]string{"-" + wrongPass},
			"redis does not decide: error_reply: AUTH refused: " + wrongPass + " (check redis.username and the password)",
		},
		{
			[]string{"+OK", "-" + noDB},
			"redis does not decide: error_reply: SELECT refused: " + noDB + " (check redis.database)",
		},
	} {
		options := testOptions()
		options.Username, options.Password, options.Database = "alice", "s3cr3t", 99
		r := newRig(t, options)
		refuse := func() {
			for _, reply := range tc.replies {
				r.answer(reply + "\r\n")
			}
		}
		a, b := r.request("a").flush(), r.request("b").flush()
		refuse()
		a.wantAll(ErrorReply.String())
		b.wantAll(ErrorReply.String())
		r.wantState(Open)
		r.wantInFlight(0)
		if w := r.request("c").flush(); w.refused != BreakerOpen || r.open {
			t.Errorf("refused %v, open %v", w.refused, r.open)
		}
		began := r.now
		for r.now < began+60_000*ms {
			r.passPause()
			r.wantState(HalfOpen)
			refuse()
			r.wantState(Open)
		}
		if r.streams > 20 {
			t.Errorf("%d connections in a minute", r.streams)
		}
		if len(r.lines) != 1 || !strings.HasPrefix(r.lines[0], tc.want+"; ") {
			t.Errorf("logged %q, want one line with %q", r.lines, tc.want)
		}
		r.passPause()
		r.answer("+OK\r\n") // AUTH
		r.answer("+OK\r\n") // SELECT
		r.answer("+OK\r\n") // the probe
		r.wantState(Closed)
		w := r.request("d").flush()
		r.allow(1)
		w.want("at 1")
	}
}

// loggedInRig has logged in with a password, and its first request is decided.
func loggedInRig(t *testing.T) *rig {
	t.Helper()
	options := testOptions()
	options.Password = "s3cr3t"
	r := newRig(t, options)
	r.request("a").flush()
	r.answer("+OK\r\n")
	r.allow(1)
	return r
}
