package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// This file throws random interleavings of all that can happen at the life of
// requests: replies, errors of single checks, timeouts, late replies, clients that
// leave, turns in a queue, ticks, lost connections, an outage, and the end of the
// configuration. A Worker is driven as Envoy drives it, and ticks only when it asks for that.

const interleaved = `{"redis": {"cluster": "redis"}, "failure": {"mode": "%s"}, "rules": [
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

// headers are a request's, as rules read them.
type headers map[string]string

func (h headers) Header(name string) (string, bool) { v, ok := h[name]; return v, ok }
func (h headers) Evaluate(uint32) ([]byte, bool)    { return nil, false }
func (h headers) Property([]string) ([]byte, bool)  { return nil, false }

func (h headers) Fields(m *rule.Matcher) {
	for name, value := range h {
		m.Field(name, value)
	}
}

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

// endStream ends a request's stream in Envoy: it was answered or redirected, or the client or the upstream left.
func (w *world) endStream(q *Question) {
	r := w.requests[q]
	if q.State() == Gone || q.State() == Redirected {
		return // its stream has ended already
	}
	if mayGoAgain := q.State() == Passed && !w.steady; mayGoAgain && w.random.IntN(6) == 0 {
		w.redirect(r)
		return
	}
	if r.exits > 0 && w.random.IntN(3) > 0 {
		resp := response{came: true, status: []int64{200, 401, 503}[w.random.IntN(3)]}
		if w.random.IntN(4) > 0 {
			resp.cost = fmt.Sprint(w.random.IntN(20))
		}
		if r.admitted {
			r.response = resp
		}
		w.worker.Responds(q, &resp)
	}
	w.leave(r)
	w.worker.Ends(q, &r.response, w.now)
	w.bury()
}

// leave ends a stream: Envoy does not know its context any more.
func (w *world) leave(r *request) {
	r.left = true
	delete(w.streams, r.id)
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

// speak lets Redis say something about one of the calls that it was sent.
func (w *world) speak(i int) {
	c := w.flying[i]
	now := w.now.SteadyMicros
	switch n := w.random.IntN(20); {
	case c.reply == nil && n < 12:
		if w.run(c); c.refused {
			w.flying = slices.Delete(w.flying, i, i+1)
			c.waiter.Failed(c.index, redis.NoCause, now)
		}
		return
	case !c.expired && n == 12:
		c.expired = true
		c.waiter.Expired(c.index, now)
		return
	case n == 13 || n == 14 && c.reply == nil: // an error, or its connection is lost
		_, hasSlots := w.plans[c.charge.Script].Slots()
		if c.lost = c.reply != nil; c.lost && hasSlots {
			// as one cannot know
			w.Release(c.charge.Script, c.charge.Tag, redis.Slots{Nonce: c.charge.Nonce, Count: units(c.charge)}, 0)
		}
		w.flying = slices.Delete(w.flying, i, i+1)
		c.waiter.Failed(c.index, redis.ErrorReply, now)
		return
	case c.reply == nil:
		return
	}
	w.flying = slices.Delete(w.flying, i, i+1)
	if q, ok := c.waiter.(*Question); ok {
		c.late, c.over = q.concluded, q.Checks[c.index].Status == Rejected
	}
	c.waiter.Decided(c.index, c.reply, now)
}

// step does one random thing.
func (w *world) step() {
	micros := w.random.Int64N(2000)
	w.now.SteadyMicros += micros
	w.now.UnixMicros += micros
	switch n := w.random.IntN(100); {
	case n < 30:
		w.arrive()
	case n < 70 && len(w.flying) > 0:
		w.hear(func() { w.speak(w.random.IntN(len(w.flying))) })
	case n < 85 && len(w.live) > 0:
		w.endStream(w.live[w.random.IntN(len(w.live))].question)
	case n == 85:
		w.down = !w.down
		if !w.down {
			observer{w.stores.record, w.stores}.Reconnected()
			w.post()
		}
	}
	if w.random.IntN(3) > 0 { // now and then a tick is late
		w.tick()
	}
}

// drain lets all that is under way come to its end, without new requests.
func (w *world) drain() {
	w.down = false
	w.post()
	for range 1000 {
		for len(w.flying) > 0 {
			w.hear(func() { w.speak(0) })
		}
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
	w.bury()
	if len(w.live) > 0 || len(w.flying) > 0 {
		w.t.Fatalf("%d requests and %d calls never end", len(w.live), len(w.flying))
	}
}

// check holds the books: the store has charged exactly what admitted requests paid.
func (w *world) check() {
	for _, r := range w.ended {
		if r.concluded != 1 {
			w.t.Fatalf("request %d was concluded %d times", r.id, r.concluded)
		}
		if want := map[bool]int{false: 1, true: 0}[r.left && !r.admitted && r.exits == 0]; r.exits != want {
			w.t.Fatalf("request %d got %d exits, want %d", r.id, r.exits, want)
		}
		for _, nonce := range r.calls {
			w.checkPaid(r, nonce)
		}
	}
}

// checkPaid holds what a request has paid for one call: nothing if it was refused. What was lost on
// the way to Redis may be paid or not.
func (w *world) checkPaid(r *request, nonce int64) {
	c := w.ledger[nonce]
	if c.lost {
		return
	}
	want := w.worth(r, c)
	if leftQueue := r.verdict.Event == Queued && !r.admitted; leftQueue || r.verdict.Event == Refused {
		want = 0
	}
	if paid := c.charged - c.given; paid != want {
		w.t.Fatalf("request %d (%s) paid %d for call %d, want %d: %+v, %+v", r.id, r.verdict.Outcome.Metric(), paid,
			nonce, want, r.response, c)
	}
}

func TestInterleavings(t *testing.T) {
	t.Parallel()
	const steps, rounds = 10_000, 8
	for _, mode := range []string{"allow", "deny", "local"} {
		for round := range uint64(rounds) {
			t.Run(fmt.Sprint(mode, "/", round), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, round, strings.Replace(interleaved, "%s", mode, 1))
				for range steps {
					w.step()
				}
				w.drain()
				w.check()
				if len(w.ended) != w.began {
					t.Errorf("%d of %d requests ended", len(w.ended), w.began)
				}
				if w.concluded != w.began {
					t.Errorf("%d of %d requests were concluded", w.concluded, w.began)
				}
			})
		}
	}
}
