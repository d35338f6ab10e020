package decide

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// This file throws random interleavings of all that can happen at the life of
// requests: replies in pieces, errors of single checks, timeouts, late replies, clients that
// leave, turns in a queue, ticks, overrides, lost connections, outages, crowds, and the end of the
// configuration. A Worker is driven as Envoy drives it, and ticks only when it asks for that.

const interleaved = `{"redis": {"cluster": "redis"}, "failure": {"mode": "%s", "max_pending": %d}, "rules": [
	{"name": "tenant", "key": [{"constant": "t"}],
		"limits": [{"algorithm": "sliding_window_log", "limit": 40, "window": "1s"}]},
	{"name": "user", "key": [{"header": "x-user"}], "cost": {"header": "x-cost", "default": 1, "max": 4},
		"limits": [{"algorithm": "sliding_window_log", "limit": 5, "window": "1s"},
			{"algorithm": "fixed_window", "limit": 9, "window": "2s"}]},
	{"name": "trial", "mode": "shadow", "key": [{"header": "x-user"}],
		"limits": [{"algorithm": "gcra", "limit": 3, "window": "1s"}]},
	{"name": "login", "mode": "shadow", "key": [{"header": "x-user"}],
		"limits": [{"algorithm": "sliding_window_log", "limit": 90, "window": "1s"}],
		"settle": {"status": ["4xx", "503"]}},
	{"name": "tokens", "key": [{"header": "x-user"}], "cost": {"header": "x-cost", "default": 2, "max": 4},
		"limits": [{"algorithm": "sliding_window_counter", "limit": 200, "window": "1s"}],
		"settle": {"cost": {"header": "x-tokens", "per": 2, "max": 7}, "missing": "release"}},
	{"name": "watched", "key": [{"header": "x-user"}], "cost": {"header": "x-cost", "default": 1, "max": 4},
		"limits_by": {"source": {"header": "x-plan"}, "default": "free", "values": {"none": "unlimited",
			"free": [{"algorithm": "sliding_window_log", "limit": 90, "window": "1s"}],
			"pro": [{"algorithm": "fixed_window", "limit": 150, "window": "2s"},
				{"algorithm": "sliding_window_log", "limit": 60, "window": "1s"}]}},
		"overrides": true, "penalty": {"after": 5, "within": "1s", "for": ["50ms"]}},
	{"name": "line", "match": {"headers": {"x-line": {"present": true}}},
		"limits": [{"algorithm": "leaky_bucket", "limit": 4, "window": "1s", "burst": 6, "overflow": "queue"}]},
	{"name": "hot", "match": {"headers": {"x-hot": {"present": true}}}, "key": [{"constant": "h"}],
		"limits": [{"algorithm": "fixed_window", "limit": 60, "window": "1s", "lease": {"units": 8, "ttl": "100ms"}}]},
	{"name": "plan", "match": {"headers": {"x-plan": {"present": true}}}, "key": [{"header": "x-user"}],
		"cost": {"header": "x-cost", "default": 2, "max": 4}, "settle": {"status": ["4xx", "503"]},
		"over": {"set_headers": {"x-over": "plan"}, "limits": [
			{"algorithm": "sliding_window_log", "limit": 7, "window": "1s"}]},
		"limits": [{"algorithm": "sliding_window_log", "limit": 2, "window": "1s"}]},
	{"name": "soft", "match": {"headers": {"x-plan": {"present": true}}}, "key": [{"header": "x-user"}],
		"over": {"set_headers": {"x-over": "soft"}},
		"limits": [{"algorithm": "sliding_window_log", "limit": 3, "window": "1s"}]}
]}`

// arrive brings a request.
func (w *world) arrive() {
	h := headers{"x-user": fmt.Sprint(w.random.IntN(6)), "x-cost": fmt.Sprint(w.random.IntN(5))}
	for _, name := range []string{"x-line", "x-hot", "x-plan"} {
		if w.random.IntN(3) == 0 {
			h[name] = "yes"
		}
	}
	w.send(w.begin(h))
}

// redirect has Envoy redirect a request. Now and then its next pass never comes.
func (w *world) redirect(r *request) {
	w.leave(r)
	w.worker.Redirect(r.question, w.now)
	if w.random.IntN(4) > 0 {
		w.nextID++
		r.id, r.left = w.nextID, false
		w.streams[r.id] = r
		if q := w.worker.Return(w.worker.Question(r.id)); q != r.question {
			w.t.Fatalf("request %d returned as another one", r.id)
		}
	}
	w.bury()
}

// speak has Redis run some commands, now and then with an error, and the worker hears a part of the replies.
func (w *world) speak() {
	for range w.random.IntN(24) {
		if len(w.flying) == 0 {
			break
		}
		if w.random.IntN(60) == 0 && w.isCheck(w.flying[0]) {
			w.flying, w.replies = w.flying[1:], append(w.replies, "-ERR no\r\n"...)
			continue
		}
		w.run(1)
	}
	all := w.replies
	w.replies = bytes.Clone(all[:w.random.IntN(len(all)+1)])
	rest := all[len(w.replies):]
	if w.hear(); w.open { // an error may have ended the stream
		w.replies = append(bytes.Clone(rest), w.replies...)
	}
}

// isCheck reports whether a command is a check.
func (w *world) isCheck(words [][]byte) bool {
	return slices.ContainsFunc(w.rules.LimitSets, func(set *rule.LimitSet) bool {
		s := set.Plan.Script()
		return len(words) > 1 && (string(words[1]) == s.SHA1 || string(words[1]) == s.Source)
	})
}

// overrideValues are what operators set in the interleavings; of each rule some is nonsense.
var overrideValues = []string{
	"", "", "x0.5", "x2.5", "tier:pro", "tier:none", "tier:gold", "limits:watched=3", "nonsense", "free", "block",
}

// step does one random thing.
func (w *world) step() {
	w.pass(w.random.Int64N(2000))
	stalls := w.now.SteadyMicros/100_000%8 == 0 // Redis does, for twice the timeout
	switch n := w.random.IntN(200); {
	case n < 60:
		w.arrive()
	case n < 140 && !stalls:
		w.speak()
	case n < 170 && len(w.live) > 0:
		w.endStream(w.live[w.random.IntN(len(w.live))].question)
	case n == 170:
		if w.away = !w.away; w.away {
			w.lose()
		}
	case n == 171:
		w.lose()
	case n < 180:
		w.set(fmt.Sprint("watched|", w.random.IntN(6)), overrideValues[w.random.IntN(len(overrideValues))],
			w.random.Int64N(2)*w.random.Int64N(100_000))
	}
	if w.random.IntN(3) > 0 { // now and then a tick is late
		w.tick()
	}
}

// drain lets all that is under way come to its end, without new requests.
func (w *world) drain() {
	w.away = false
	for range 1000 {
		w.answer()
		for _, r := range slices.Clone(w.live) {
			q := r.question
			if w.requests[q] != r {
				continue // it has ended meanwhile, with the redirect of another one
			}
			if !slices.Contains([]State{Asking, Held, Redirected}, q.State()) {
				w.endStream(q)
			}
		}
		w.pass(10_000)
		w.tick()
	}
	w.worker.Close(w.now)
	w.answer()
	w.bury()
	if len(w.live) > 0 {
		w.t.Fatalf("%d requests never end", len(w.live))
	}
}

// claim is what one check may have charged in Redis, as its request is concluded.
type claim struct {
	rule  string
	tag   string
	units int64
	sure  bool // Redis has said so. Otherwise a late reply may.
	keeps bool // what a late reply says was charged stands, if the request was admitted
}

// claim notes the claims of a request that is concluded.
func (r *request) claim() {
	for i := range r.question.Checks {
		c := &r.question.Checks[i]
		k := claim{rule: c.Rule.Name, tag: string(c.Tag), units: units(c.Costs)}
		switch {
		case c.Source == FromRedis && (c.Status == Rejected || c.By != algo.ByLimits) || c.charged.sent.Limits == nil:
			continue
		case c.Source == FromRedis:
			k.sure = true
		default:
			k.units = units(c.charged.sent.Costs)
			k.keeps = c.Rule.Settle == nil && c.Status != Rejected
		}
		r.claims = append(r.claims, k)
	}
}

// paid is what a request ought to have paid for a check: at least, and at most.
func (r *request) paid(k claim) (least, most int64) {
	refused := r.verdict.Event == Refused || r.verdict.Event == Queued && !r.admitted
	switch {
	case k.sure && !refused:
		worth := r.worth(k)
		return worth, worth
	case !k.sure && (r.lossy || k.keeps && !refused):
		return 0, k.units
	}
	return 0, 0
}

// worth is what an admitted request is worth to a rule, see interleaved.
func (r *request) worth(k claim) int64 {
	byStatus := k.rule == "login" || k.rule == "plan"
	switch {
	case !byStatus && k.rule != "tokens", k.units == 0, !r.response.came, byStatus && r.response.status == 401:
		return k.units
	case k.rule == "tokens" && r.response.cost != "":
		cost, _ := strconv.ParseInt(r.response.cost, 10, 64)
		return min((cost+1)/2, 7)
	}
	return 0
}

// check holds the books: Redis has charged exactly what admitted requests paid, but for replies that were lost.
func (w *world) check() {
	least, most := map[string]int64{}, map[string]int64{}
	for _, r := range w.ended {
		if r.concluded != 1 {
			w.t.Fatalf("request %d was concluded %d times", r.id, r.concluded)
		}
		if want := map[bool]int{false: 1, true: 0}[r.left && !r.admitted && r.exits == 0]; r.exits != want {
			w.t.Fatalf("request %d got %d exits, want %d", r.id, r.exits, want)
		}
		for _, k := range r.claims {
			low, high := r.paid(k)
			if w.events[metric.SettlementLost] > 0 && k.sure && r.admitted { // beyond max_pending
				low, high = min(low, k.units), max(high, k.units)
			}
			least[k.tag], most[k.tag] = least[k.tag]+low, most[k.tag]+high
		}
	}
	for tag, charged := range w.charged {
		if tag != "hot|h" && (charged < least[tag] || charged > most[tag]) { // that is leased, see lost_units_test.go
			w.t.Errorf("%s: charged %d, what was admitted is worth %d to %d", tag, charged, least[tag], most[tag])
		}
	}
}

func TestInterleavings(t *testing.T) {
	t.Parallel()
	const steps, rounds = 10_000, 8
	for _, mode := range []string{"allow", "deny", "local"} {
		for round := range uint64(rounds) {
			t.Run(fmt.Sprint(mode, "/", round), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, round, fmt.Sprintf(interleaved, mode, []int{4096, 12}[round%2]))
				for range steps {
					w.step()
				}
				w.drain()
				w.check()
				testenv.Same(t, "requests that ended", len(w.ended), w.began)
				testenv.Same(t, "requests that were concluded", w.concluded, w.began)
			})
		}
	}
}
