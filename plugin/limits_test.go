package main

import "testing"

func TestLimitedEndToEnd(t *testing.T) {
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(`{
			"redis": {"cluster": "redis"},
			"rules": [{"name": "per-key", "key": [{"header": "x-api-key"}],
				"limits": [{"algorithm": "fixed_window", "limit": 2, "window": "1h", "anchor": "first_request"}]}]}`)
		for _, step := range []struct{ key, want string }{
			{"a", "200 allowed" + standard(2, 1, "~3600")},
			{"a", "200 allowed" + standard(2, 0, "~3600")},
			{"a", "429 limited:per-key" + standard(2, 0, "~3600") + problem("~3600")},
			{"b", "200 allowed" + standard(2, 1, "~3600")},
		} {
			x := i.get("/", "x-api-key", step.key)
			if !x.waits() {
				t.Errorf("key %s: did not wait for Redis", step.key)
			}
			r.settle()
			w.expect("key "+step.key, x.end(), step.want)
		}
	})
}
