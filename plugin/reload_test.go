package main

import (
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// During a reload two configurations live in one VM. Each has its own stream and
// gets its own replies.
func TestReload(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		before := w.load(withRedis(perClient("old", 9)))
		first := before.get("/", client("x")...)
		after := w.load(withRedis(perClient("new", 5)))
		second := after.get("/", client("x")...)
		before.Close() // waits for the request that it still has
		if len(r.Conns) != 2 {
			t.Fatalf("%d streams, want one for each configuration", len(r.Conns))
		}
		r.settle()
		testenv.Same(t, "under the old configuration", first.end(),
			"200 allowed limit=9 remaining=8 reset=3600")
		testenv.Same(t, "under the new one", second.end(),
			"200 allowed limit=5 remaining=4 reset=3600")
		if r.Conns[0].Open() {
			t.Error("the old configuration's stream is still open")
		}
		third := after.get("/", client("x")...)
		r.settle()
		testenv.Same(t, "after the reload", third.end(),
			"200 allowed limit=5 remaining=3 reset=3600")
		testenv.Same(w.t, "number of streams", len(r.Conns), 2)
		testenv.Same(w.t, "that the new configuration's stream is closed", !r.Conns[1].Open(), false)
	})
}

// A stream that is lost is lost to its own configuration only.
func TestReloadAndLoss(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		m := &wasmhost.Memory{}
		w.connect(m)
		before := w.load(withRedis(perClient("old", 9)))
		after := w.load(withRedis(perClient("new", 5)))
		first, second := before.get("/", client("x")...), after.get("/", client("x")...)
		m.Conns[0].Close(wasmhost.GRPCInternal)
		before.wait(time.Millisecond)
		testenv.Same(t, "whose stream was lost", first.end(), "200 failed:allow")
		if !second.waits() {
			t.Error("the other configuration's request waits no more")
		}
		second.End()
	})
}

// Bytes and the end of a stream that was given up mean nothing to the next.
func TestOldStreamIsNotHeard(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		m := &wasmhost.Memory{}
		w.connect(m)
		w.answersTrial = true
		i := w.load(`{"redis": {"cluster": "redis"}, "failure": {"breaker": {"min_open": "1ms"}}, "rules": [` + perClient("a",
			9) + `]}`)
		first := i.get("/", client("x")...)
		m.Conns[0].Reply("-ERR the first\r\n-ERR too many\r\n") // more replies than commands: the stream is given up
		first.End()
		i.wait(10 * time.Millisecond)
		second := i.get("/", client("x")...)
		if len(m.Conns) != 2 {
			t.Fatalf("%d streams, want 2", len(m.Conns))
		}
		m.Conns[0].Reply("-ERR of the old stream\r\n")
		if !second.waits() {
			t.Error("took a reply from the old stream")
		}
		m.Conns[0].Close(wasmhost.GRPCInternal)
		i.wait(10 * time.Millisecond)
		if !second.waits() {
			t.Error("took the end of the old stream for its own")
		}
		m.Conns[1].Reply("+OK\r\n-ERR of the new stream\r\n") // the first answers the question in place of a lost one
		testenv.Same(t, "the second request", second.end(), "200 failed:allow")
	})
}

// A configuration that is refused leaves the one before as it was.
func TestRefusedReload(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [{"name": "a", ` + once + `}]}`)
		if _, err := w.start(`{"rules": []}`); err == nil {
			t.Fatal("a configuration without rules was accepted")
		}
		w.expectLogs("critical sluice: rules")
		testenv.Same(t, "a request", i.get("/").end(), "200 allowed limit=1 remaining=0 reset=3600")
	})
}
