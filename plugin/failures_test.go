package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// failing is a configuration with a failure mode and short breaker pauses.
func failing(mode, more string) string {
	return fmt.Sprintf(`{"redis": {"cluster": "redis", "timeout": "50ms"}, "failure": {"mode": %q%s}, "rules": [%s]}`,
		mode, more, perClient("a", 2))
}

// causes are the ways in which Redis does not decide. Each brings a request to
// the point where the failure mode has decided it.
var causes = []struct {
	name    string
	failure string // further fields of "failure"
	cause   func(w *worker) *exchange
	mode    string // where the mode cannot be any
}{
	{name: "timeout", cause: func(w *worker) *exchange {
		i := w.fake(&wasmhost.Memory{})
		x := i.get("/", client("x")...)
		i.wait(49 * time.Millisecond)
		if !x.waits() {
			w.t.Error("did not wait for the timeout")
		}
		i.wait(20 * time.Millisecond)
		return x
	}},
	{name: "connection lost", cause: func(w *worker) *exchange {
		m := &wasmhost.Memory{}
		i := w.fake(m)
		x := i.get("/", client("x")...)
		m.Last().Close(wasmhost.GRPCInternal)
		i.wait(time.Millisecond)
		return x
	}},
	{name: "no such cluster", cause: func(w *worker) *exchange {
		return w.fake(nil).get("/", client("x")...)
	}},
	{name: "connection refused inside the call", cause: func(w *worker) *exchange {
		return w.fake(&wasmhost.Memory{Refuse: wasmhost.GRPCUnavailable}).get("/", client("x")...)
	}},
	{name: "connection refused later", cause: func(w *worker) *exchange {
		m := &wasmhost.Memory{}
		i := w.fake(m)
		x := i.get("/", client("x")...)
		m.Last().Close(wasmhost.GRPCUnavailable)
		i.wait(time.Millisecond)
		return x
	}},
	{name: "closed inside the send", cause: func(w *worker) *exchange {
		m := &wasmhost.Memory{OnSend: func(c *wasmhost.Conn, _ []byte) { c.Close(wasmhost.GRPCInternal) }}
		i := w.fake(m)
		x := i.get("/", client("x")...)
		i.wait(time.Millisecond)
		return x
	}},
	{name: "error reply", cause: func(w *worker) *exchange {
		m := &wasmhost.Memory{}
		x := w.fake(m).get("/", client("x")...)
		m.Last().Reply("-OOM command not allowed when used memory > 'maxmemory'.\r\n")
		return x
	}},
	{name: "no RESP", cause: func(w *worker) *exchange {
		m := &wasmhost.Memory{}
		x := w.fake(m).get("/", client("x")...)
		m.Last().Reply("HTTP/1.1 400 Bad Request\r\n\r\n")
		return x
	}},
	{name: "a reply of another shape", cause: func(w *worker) *exchange {
		m := &wasmhost.Memory{}
		x := w.fake(m).get("/", client("x")...)
		m.Last().Reply("*2\r\n:1\r\n:2\r\n")
		return x
	}},
	{name: "too many wait", failure: `, "max_pending": 1`, cause: func(w *worker) *exchange {
		i := w.fake(&wasmhost.Memory{})
		first := i.get("/", client("x")...)
		w.t.Cleanup(first.End)
		return i.get("/", client("x")...)
	}},
	{name: "breaker open", failure: `, "breaker": {"failures": 1}`, cause: func(w *worker) *exchange {
		m := &wasmhost.Memory{}
		i := w.fake(m)
		first := i.get("/", client("other")...)
		m.Last().Close(wasmhost.GRPCInternal)
		i.wait(time.Millisecond)
		first.End()
		x := i.get("/", client("x")...)
		if len(m.Conns) != 1 {
			w.t.Error("reconnected although the breaker is open")
		}
		return x
	}},
}

// fake loads the configuration of the test with a cluster in memory, none if nil.
func (w *worker) fake(c *wasmhost.Memory) *instance {
	w.t.Helper()
	if c != nil {
		w.connect(c)
	}
	return w.load(w.config)
}

func TestFailureModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct{ name, want, body string }{
		{"allow", "200 failed:allow", ""},
		{"deny", "503 failed:deny [content-type: application/problem+json]", "#temporary-reduced-capacity"},
		{"local", "200 local:allowed" + standard(2, 1, "3600"), ""},
	} {
		for _, c := range causes {
			t.Run(mode.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				eachWorld(t, func(t *testing.T, w *worker) {
					w.config = failing(mode.name, c.failure)
					x := c.cause(w)
					if mode.body != "" && !strings.Contains(x.local().Body, mode.body) {
						t.Errorf("body %s, want type %s", x.local().Body, mode.body)
					}
					w.expect("a request", x.end(), mode.want)
				})
			})
		}
	}
}

func TestDenialOfGRPC(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		w.config = failing("deny", "")
		x := w.fake(nil).get("/", "x-client", "x", "content-type", "application/grpc+proto")
		defer x.End()
		if got := x.local(); got.GRPCStatus != 14 || got.Status != 503 || len(got.Headers) != 0 {
			t.Errorf("got %+v, want gRPC status 14", got)
		}
	})
}

// The embedded store holds the same limits until Redis is back.
func TestLocalModeLimits(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		w.config = failing("local", "")
		i := w.fake(nil)
		for n, want := range []string{
			"200 local:allowed" + standard(2, 1, "3600"),
			"200 local:allowed" + standard(2, 0, "3600"),
			"429 local:limited:a" + standard(2, 0, "3600") + problem("3600"),
		} {
			w.expect(fmt.Sprint("request ", n+1), i.get("/", client("x")...).end(), want)
		}
		r := w.startRedis()
		i.wait(200 * time.Millisecond)
		x := i.get("/", client("x")...)
		r.settle()
		w.expect("when Redis is there", x.end(), "200 allowed"+standard(2, 1, "~3600"))
	})
}

// A rule that Redis had admitted before another's reply was lost is given back
// if the request is refused.
func TestPartialAnswerIsRefunded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode, want string
		left       int
	}{
		{"allow", "200 failed:allow" + standard(9, 7, "~3600"), 7},
		{"deny", "503 failed:deny [content-type: application/problem+json]", 8},
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
				w.expect("all well", ask(), "200 allowed"+standard(9, 8, "~3600"))
				if err := r.client().Del(t.Context(), "rl:{b|x}:fixed_window:1h:first").Err(); err != nil {
					t.Fatal(err)
				}
				if err := r.client().LPush(t.Context(), "rl:{b|x}:fixed_window:1h:first", "of another type").Err(); err != nil {
					t.Fatal(err)
				}
				w.expect("one fails", ask(), test.want)
				if err := r.client().Del(t.Context(), "rl:{b|x}:fixed_window:1h:first").Err(); err != nil {
					t.Fatal(err)
				}
				w.expect("all well again", ask(), "200 allowed"+standard(9, test.left-1, "~3600"))
			})
		})
	}
}
