package main

import (
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// A worker tries a Redis once, whatever else is updated, and says what answers.
func TestTrialOncePerWorker(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		for _, step := range []struct {
			name, plugin string
			streams      int // opened so far
		}{
			{name: "the first configuration", plugin: withRedis(perClient("a", 9)), streams: 1},
			{name: "another rule", plugin: withRedis(perClient("b", 9)), streams: 1},
			{name: "another prefix", plugin: strings.Replace(withRedis(perClient("a", 9)), `"cluster": "redis"`,
				`"cluster": "redis", "key_prefix": "x"`, 1), streams: 2},
		} {
			i := w.load(step.plugin)
			i.NewStream()
			i.wait(4 * time.Millisecond)
			r.settle()
			if got := len(r.Conns); got != step.streams {
				t.Errorf("%s: %d streams, want %d", step.name, got, step.streams)
			}
		}
	})
}

// TestTrialOfWorkers: a worker says what it finds once it has a request. Envoy's main thread, which has
// none, opens no stream.
func TestTrialOfWorkers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		refuse uint32
		want   string
	}{
		{0, `info sluice: redis "redis" answers`},
		{wasmhost.GRPCUnavailable, `warn sluice: redis "redis" cannot be used: unreachable`},
	} {
		eachWorld(t, func(t *testing.T, w *worker) {
			m := &wasmhost.Memory{Refuse: tc.refuse}
			w.connect(m)
			i := w.load(withRedis(perClient("a", 9)))
			i.wait(2 * time.Second)
			w.expectLogs()
			i.NewStream()
			i.Tick()
			if len(m.Conns) > 0 {
				replyToTrial(m.Last())
			}
			w.expectLogs(tc.want)
		})
	}
}
