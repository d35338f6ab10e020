package main

import (
	"strings"
	"testing"
	"time"
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
			{name: "another prefix", plugin: strings.Replace(withRedis(perClient("a", 9)), `"cluster": "redis"`, `"cluster": "redis", "key_prefix": "x"`, 1), streams: 2},
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
