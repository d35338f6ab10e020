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
			i.wait(4 * time.Millisecond)
			r.settle()
			if got := len(r.conns); got != step.streams {
				t.Errorf("%s: %d streams, want %d", step.name, got, step.streams)
			}
		}
	})
}

// Each worker says what it finds, but Envoy's main thread, the second VM, does not
// try. Who fails says so a second later, unless another worker did not fail.
func TestWhoTellsOfTheTrial(t *testing.T) {
	t.Parallel()
	const refused, answered = `warn sluice: redis "redis" cannot be used: unreachable`,
		`info sluice: redis "redis" answers`
	for _, tc := range []struct {
		name    string
		refuses [3]bool // whether Redis refuses each VM
		want    [3]string
	}{
		{name: "all fail", refuses: [3]bool{true, true, true}, want: [3]string{refused, "", refused}},
		{name: "none fails", want: [3]string{answered, "", answered}},
		{name: "the last fails", refuses: [3]bool{false, false, true}, want: [3]string{answered, "", ""}},
		{name: "the first fails", refuses: [3]bool{true, false, false}, want: [3]string{"", "", answered}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				workers := [3]*worker{w, w.sibling(), w.sibling()}
				var instances [3]*instance
				for n, one := range workers {
					m := &wasmhost.Memory{}
					if tc.refuses[n] {
						m.Refuse = wasmhost.GRPCUnavailable
					}
					one.clusters = map[string]wasmhost.Cluster{}
					one.connect(m)
					instances[n] = one.load(withRedis(perClient("a", 9)))
					instances[n].Tick()
					if !tc.refuses[n] && len(m.Conns) > 0 {
						replyToTrial(m.Last())
					}
				}
				for n, one := range workers {
					if tc.refuses[n] {
						if lines := one.logs(); len(lines) > 0 {
							t.Errorf("VM %d logged %q at once", n+1, lines)
						}
					}
					instances[n].Tick()
				}
				w.clock.now = w.clock.now.Add(time.Second)
				for n, one := range workers {
					instances[n].Tick()
					got := strings.Join(one.logs(), "; ")
					if !strings.HasPrefix(got, tc.want[n]) || (tc.want[n] == "") != (got == "") {
						t.Errorf("VM %d logged %q, want %q", n+1, got, tc.want[n])
					}
				}
			})
		})
	}
}
