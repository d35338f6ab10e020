package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// causes are the ways in which Redis does not decide. Each brings a request to
// the point where the failure mode has decided it.
var causes = []struct {
	name    string
	failure string // further fields of "failure"
	metric  string // the cause's name in metrics
	before  int    // requests that fail for the sake of the one
	fail    func(w *worker, config string) *exchange
}{
	{name: "timeout", metric: "timeout", fail: func(w *worker, config string) *exchange {
		i := w.fake(config, &wasmhost.Memory{})
		x := i.get("/", client("x")...)
		i.wait(49 * time.Millisecond)
		if !x.waits() {
			w.t.Error("did not wait for the timeout")
		}
		i.wait(20 * time.Millisecond)
		return x
	}},
	{name: "connection lost", metric: "unreachable", fail: func(w *worker, config string) *exchange {
		m := &wasmhost.Memory{}
		i := w.fake(config, m)
		x := i.get("/", client("x")...)
		m.Last().Close(wasmhost.GRPCInternal)
		i.wait(time.Millisecond)
		return x
	}},
	{name: "no such cluster", metric: "unreachable", fail: func(w *worker, config string) *exchange {
		return w.load(config).get("/", client("x")...)
	}},
	{name: "connection refused inside the call", metric: "unreachable", fail: func(w *worker, config string) *exchange {
		return w.fake(config, &wasmhost.Memory{Refuse: wasmhost.GRPCUnavailable}).get("/", client("x")...)
	}},
	{name: "connection refused later", metric: "unreachable", fail: func(w *worker, config string) *exchange {
		m := &wasmhost.Memory{}
		i := w.fake(config, m)
		x := i.get("/", client("x")...)
		m.Last().Close(wasmhost.GRPCUnavailable)
		i.wait(time.Millisecond)
		return x
	}},
	{name: "closed inside the send", metric: "unreachable", fail: func(w *worker, config string) *exchange {
		i := w.fake(config, &wasmhost.Memory{OnSend: func(c *wasmhost.Conn, _ []byte) { c.Close(wasmhost.GRPCInternal) }})
		x := i.get("/", client("x")...)
		i.wait(time.Millisecond)
		return x
	}},
	{name: "error reply", metric: "error_reply", fail: func(w *worker, config string) *exchange {
		return w.replied(config, "-OOM command not allowed when used memory > 'maxmemory'.\r\n")
	}},
	{name: "no RESP", metric: "malformed_reply", fail: func(w *worker, config string) *exchange {
		return w.replied(config, "HTTP/1.1 400 Bad Request\r\n\r\n")
	}},
	{name: "a reply of another shape", metric: "malformed_reply", fail: func(w *worker, config string) *exchange {
		return w.replied(config, "*2\r\n:1\r\n:2\r\n")
	}},
	{
		name: "too many wait", failure: `, "max_pending": 1`, metric: "overload", before: 1,
		fail: func(w *worker, config string) *exchange {
			i := w.fake(config, &wasmhost.Memory{})
			first := i.get("/", client("other")...)
			w.t.Cleanup(first.End)
			x := i.get("/", client("x")...)
			i.wait(63 * time.Millisecond)
			return x
		},
	},
	{
		name: "breaker open", failure: `, "breaker": {"failures": 1}`, metric: "breaker_open", before: 1,
		fail: func(w *worker, config string) *exchange {
			m := &wasmhost.Memory{}
			i := w.fake(config, m)
			first := i.get("/", client("other")...)
			m.Last().Close(wasmhost.GRPCInternal)
			i.wait(time.Millisecond)
			first.End()
			x := i.get("/", client("x")...)
			if len(m.Conns) != 1 {
				w.t.Error("reconnected although the breaker is open")
			}
			return x
		},
	},
}

// fake loads a configuration with a cluster in memory.
func (w *worker) fake(config string, c *wasmhost.Memory) *instance {
	w.t.Helper()
	w.connect(c)
	return w.load(config)
}

// replied is a request that Redis has answered so.
func (w *worker) replied(config, reply string) *exchange {
	w.t.Helper()
	m := &wasmhost.Memory{}
	x := w.fake(config, m).get("/", client("x")...)
	m.Last().Reply(reply)
	return x
}

// Every cause is counted under its name, and what becomes of the request under the mode.
func TestFailureModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		name, outcome string // the outcome's name in metrics
		want          string
		body          string // is part of it
	}{
		{name: "allow", outcome: "failed_allow", want: "200 failed:allow"},
		{
			name: "deny", outcome: "failed_deny", want: "503 failed:deny retry-after=1",
			body: "#temporary-reduced-capacity",
		},
		{
			name: "local", outcome: "local_allowed",
			want: "200 local:allowed limit=2 remaining=1 reset=3600",
		},
	} {
		for _, c := range causes {
			t.Run(mode.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				eachWorld(t, func(t *testing.T, w *worker) {
					x := c.fail(w, fmt.Sprintf(`{"redis": {"cluster": "redis", "timeout": "50ms"}, "rules": [%s],
						"failure": {"mode": %q%s}}`, perClient("a", 2), mode.name, c.failure))
					if body := string(x.Downstream.Body); !strings.Contains(body, mode.body) {
						t.Errorf("body %s, want type %s", body, mode.body)
					}
					testenv.Same(t, "a request", x.end(), mode.want)
					w.loaded[0].flush()
					got, requests := w.stats(), int64(1+c.before)
					testenv.Same(t, "errors", got["redis.cause."+c.metric+".errors_total"], 1)
					testenv.Same(t, "requests", got["outcome."+mode.outcome+".requests_total"], requests)
					testenv.Same(t, "requests of the rule", got["rule.a.outcome."+mode.outcome+".rule_requests_total"], requests)
				})
			})
		}
	}
}

// A rule that Redis had admitted before another's reply was lost is given back
// if the request is refused.
func TestPartialAnswerIsRefunded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode string
		want string
		left int
	}{
		{mode: "allow", want: "200 failed:allow limit=9 remaining=7 reset=3600", left: 7},
		{mode: "deny", want: "503 failed:deny retry-after=1", left: 8},
	} {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				r := w.startRedis()
				i := w.load(`{"redis": {"cluster": "redis"}, "failure": {"mode": "` + test.mode + `"}, "rules": [` +
					perClient("a", 9) + `, ` + perClient("b", 9) + `]}`)
				ask := func() string {
					x := i.get("/", client("x")...)
					r.settle()
					return x.end()
				}
				testenv.Same(t, "all well", ask(), "200 allowed limit=9 remaining=8 reset=3600")
				serve := r.serve
				r.serve = func(c *wasmhost.Conn, commands []byte) []byte {
					second := bytes.LastIndex(commands, []byte("\r\n*")) + 2
					r.serve = serve
					return append(serve(c, commands[:second]), "-NOPERM No permissions to access a key\r\n"...)
				}
				testenv.Same(t, "one fails", ask(), test.want)
				testenv.Same(t, "all well again", ask(),
					fmt.Sprintf("200 allowed limit=9 remaining=%d reset=3600", test.left-1))
			})
		})
	}
}
