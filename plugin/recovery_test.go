package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// The breaker opens after as many failures as configured, is silent meanwhile,
// and closes when a probe is answered. Each change is one line in the log.
func TestBreaker(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		m := &wasmhost.Memory{}
		w.connect(m)
		w.answersTrial = true
		i := w.load(`{"redis": {"cluster": "redis", "timeout": "50ms"}, "rules": [` + perClient("a", 2) + `],
			"failure": {"breaker": {"failures": 3, "min_open": "100ms", "max_open": "200ms"}}}`)
		for range 3 {
			if w.logged("does not decide") {
				t.Errorf("logged %q before the breaker opened", w.logs())
			}
			x := i.get("/", client("x")...)
			m.Last().Reply("-LOADING Redis is loading the dataset in memory\r\n")
			testenv.Same(t, "an error", x.end(), "200 failed:allow")
		}
		answers, first := "info sluice: redis \"redis\" answers", "warn sluice: redis \"redis\" did not decide a request: "+
			"error_reply: LOADING"
		w.expectLogs(answers, first, "warn sluice: redis does not decide: error_reply: LOADING")
		m.Last().Take()
		testenv.Same(t, "while it is open", i.get("/", client("x")...).end(), "200 failed:allow")
		i.wait(99 * time.Millisecond)
		if sent := m.Last().Take(); len(sent) > 0 {
			t.Errorf("sent %q while the breaker is open", sent)
		}
		i.wait(30 * time.Millisecond) // the pause is 100 to 125 ms
		if sent := string(m.Last().Take()); !strings.Contains(sent, "EVAL") {
			t.Errorf("sent %q, want the probe", sent)
		}
		m.Last().Reply("+OK\r\n")
		w.expectLogs(answers, first, "warn sluice: redis does not decide: ", "info sluice: redis is back: it decides again")
		x := i.get("/", client("x")...)
		if !x.waits() {
			t.Error("the breaker is still open")
		}
		x.End()
	})
}

// Requests that come while a stream is down do not try to open one each.
func TestReconnectingBacksOff(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.fake(`{"redis": {"cluster": "redis"}, "failure": {"breaker": {"failures": 1000}}, "rules": [`+
			perClient("a", 2)+`]}`, &wasmhost.Memory{Refuse: wasmhost.GRPCUnavailable})
		calls := w.callsOf(func() {
			for range 100 {
				testenv.Same(t, "a request", i.get("/", client("x")...).end(), "200 failed:allow")
			}
		})
		testenv.Same(t, "attempts for 100 requests at one instant", calls["proxy_grpc_stream"], 1)
	})
}

// A client that goes away while its request waits leaves the order of replies as
// it was: the others get theirs.
func TestCancelledWhileWaiting(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(perClient("a", 9)))
		warm := i.get("/", client("other")...) // Redis knows the script from here on
		r.settle()
		warm.End()
		var all []*exchange
		for n := range 6 {
			all = append(all, i.get("/", client(fmt.Sprint(n%2))...))
		}
		for _, n := range []int{0, 3, 5} {
			all[n].End()
		}
		r.settle()
		for n, want := range map[int]int{1: 8, 2: 7, 4: 6} {
			testenv.Same(t, fmt.Sprint("request ", n), all[n].end(),
				fmt.Sprintf("200 allowed limit=9 remaining=%d reset=3600", want))
		}
		x := i.get("/", client("0")...)
		r.settle()
		testenv.Same(t, "afterwards", x.end(), "200 allowed limit=9 remaining=5 reset=3600")
		testenv.Same(w.t, "number of streams", len(r.Conns), 1)
		w.expectLogs()
	})
}

// A reply that comes after its request's timeout decides nothing, and the stream
// goes on. The charge that it reports is given back if the request was denied,
// and stands if it went on.
func TestLateReply(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode string
		want string
		left int
	}{
		{mode: "allow", want: "200 failed:allow", left: 8},
		{mode: "deny", want: "503 failed:deny retry-after=1", left: 9},
	} {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				r := w.startRedis()
				i := w.load(`{"redis": {"cluster": "redis", "timeout": "50ms"}, "failure": {"mode": "` + test.mode + `"},
					"rules": [` + perClient("a", 9) + `]}`)
				warm := i.get("/", client("other")...) // Redis knows the script from here on
				r.settle()
				warm.End()
				x := i.get("/", client("x")...)
				i.wait(70 * time.Millisecond)
				testenv.Same(t, "the slow request", x.end(), test.want)
				r.settle()
				x = i.get("/", client("x")...)
				r.settle()
				testenv.Same(t, "the next", x.end(),
					fmt.Sprintf("200 allowed limit=9 remaining=%d reset=3600", test.left-1))
				if len(r.Conns) != 1 {
					t.Errorf("%d streams, want 1", len(r.Conns))
				}
			})
		})
	}
}

// A stream that is lost while many wait is one failure, and each gets its answer
// once.
func TestLostWhileManyWait(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		m := &wasmhost.Memory{}
		w.connect(m)
		w.answersTrial = true
		i := w.load(`{"redis": {"cluster": "redis"}, "failure": {"mode": "deny"}, "rules": [` + perClient("a",
			9) + `,` + perClient("b", 9) + `]}`)
		first := i.get("/", client("x")...)
		m.Last().Reply("-ERR no\r\n-ERR no\r\n")
		first.End()
		var all []*exchange
		for range 50 {
			all = append(all, i.get("/", client("x")...))
		}
		m.Last().Close(wasmhost.GRPCInternal)
		i.wait(20 * time.Millisecond)
		for _, x := range all {
			testenv.Same(t, "a request", x.end(), "503 failed:deny retry-after=1")
		}
		x := i.get("/", client("x")...)
		testenv.Same(w.t, "number of streams, with another for the next request", len(m.Conns), 2)
		testenv.Same(w.t, "that the next request waits", x.waits(), true)
		x.End()
		if w.logged("connection_lost") || w.logged("does not decide") {
			t.Errorf("logged %q for one lost stream", w.logs())
		}
	})
}

// Requests that come between the loss of a stream and the next tick are decided
// with those that had waited for it, and none of them twice.
func TestRequestBehindLostStream(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"allow": "200 failed:allow",
		"deny":  "503 failed:deny retry-after=1",
		"local": "200 local:allowed limit=9 remaining=8 reset=3600",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				m := &wasmhost.Memory{}
				w.connect(m)
				i := w.load(`{"redis": {"cluster": "redis"}, "failure": {"mode": "` + mode + `"}, "rules": [` + perClient("a",
					9) + `]}`)
				first := i.get("/", client("x")...)
				m.Last().Close(wasmhost.GRPCInternal)
				second := i.get("/", client("y")...)
				i.wait(time.Millisecond)
				testenv.Same(t, "the first", first.end(), want)
				testenv.Same(t, "the second", second.end(), want)
			})
		})
	}
}
