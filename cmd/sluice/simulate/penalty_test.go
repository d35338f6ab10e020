package simulate

import "testing"

// A client that hammers is blocked, in either store, for longer each time; one that
// obeys is not. In the tier without limits the block holds as well.
func TestPenalty(t *testing.T) {
	t.Parallel()
	const traffic = `{duration: 30s, clients: [
		{name: hammers, rate: 20, arrivals: even, url: "http://h/", headers: {x-key: a}},
		{name: obeys, rate: 4, arrivals: even, url: "http://h/", headers: {x-key: b}},
		{name: paid, rate: 1, arrivals: even, url: "http://h/", headers: {x-key: a, x-plan: staff}}]}`
	for name, top := range map[string]string{"Redis": inRedis, "the embedded store": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, `{`+top+`"rules": [{"name": "r", "key": [{"header": "x-key"}], 
				"limits_by": {"source": {"header": "x-plan"}, "default": "free", "values": {"staff": "unlimited",
					"free": [{"algorithm": "fixed_window", "limit": 5, "window": "1s"}]}},
				"penalty": {"after": 3, "within": "10s", "for": ["2s", "20s"]}}]}`, traffic, Options{})
			got := map[string]GroupReport{}
			for _, g := range r.Groups {
				got[g.Name] = g
			}
			if g := got["hammers"]; g.Admitted > 60 || g.Admitted < 5 {
				t.Errorf("who hammers was admitted %d times of %d", g.Admitted, g.Requests)
			}
			if g := got["obeys"]; g.Admitted != g.Requests {
				t.Errorf("who obeys was admitted %d times of %d", g.Admitted, g.Requests)
			}
			if g := got["paid"]; g.Admitted > g.Requests/2 {
				t.Errorf("in the tier without limits %d of %d were admitted", g.Admitted, g.Requests)
			}
		})
	}
}
