package main

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// resets go by Redis' own clock.
var resets = regexp.MustCompile(`"reset":\d+`)

// TestQuotaOfValues: limits with "per" say what there is of the caller's own values alone.
func TestQuotaOfValues(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(quotaOf(`"redis": {"cluster": "redis"},`, `"org"`, `{"name": "org", "key": [{"header": "x-client"}],
			"match": {"path": {"prefix": "/api"}}, "limits": [
			{"algorithm": "fixed_window", "limit": 9, "window": "1h", "anchor": "first_request", "name": "all"},
			{"algorithm": "fixed_window", "limit": 5, "window": "1h", "anchor": "first_request", "name": "user",
				"per": [{"header": "x-user"}]}]}`))
		const (
			both = `{"limits":[{"name":"all","limit":9,"remaining":%d,"reset":R,"window":3600,"unit":"requests"},` +
				`{"name":"user","limit":5,"remaining":%d,"reset":R,"window":3600,"unit":"requests"}]}`
			whole = `{"limits":[{"name":"all","limit":9,"remaining":%d,"reset":R,"window":3600,"unit":"requests"}]}`
		)
		ann, bob, nobody := append(client("x"), "x-user", "ann"), append(client("x"), "x-user", "bob"), client("x")
		r.quota(i, ann...) // the script is known
		x := i.get("/api", ann...)
		r.settle()
		x.end()
		for _, step := range []struct {
			name    string
			headers []string
			want    string
		}{
			{"a user", ann, fmt.Sprintf(both, 8, 4)},
			{"another one", bob, fmt.Sprintf(both, 8, 5)},
			{"none", nobody, fmt.Sprintf(whole, 8)},
		} {
			testenv.Same(t, step.name, resets.ReplaceAllString(r.quota(i, step.headers...), `"reset":R`), step.want)
		}
	})
}
