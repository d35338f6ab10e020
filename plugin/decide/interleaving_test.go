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
// configuration. The driver below does what plugin/request.go does in Envoy.

const interleaved = `{"redis": {"cluster": "redis"}, "failure": {"mode": "%s"}, "rules": [
	{"name": "tenant", "key": [{"constant": "t"}], "limits": [{"algorithm": "sliding_window_log", "limit": 40, "window": "1s"}]},
	{"name": "user", "key": [{"header": "x-user"}], "cost": {"header": "x-cost", "default": 1, "max": 4},
		"limits": [{"algorithm": "sliding_window_log", "limit": 5, "window": "1s"}, {"algorithm": "fixed_window", "limit": 9, "window": "2s"}]},
	{"name": "trial", "mode": "shadow", "key": [{"header": "x-user"}], "limits": [{"algorithm": "gcra", "limit": 3, "window": "1s"}]},
	{"name": "login", "mode": "shadow", "key": [{"header": "x-user"}], "limits": [{"algorithm": "sliding_window_log", "limit": 90, "window": "1s"}],
		"settle": {"status": ["4xx", "503"]}},
	{"name": "tokens", "key": [{"header": "x-user"}], "cost": {"header": "x-cost", "default": 2, "max": 4},
		"limits": [{"algorithm": "sliding_window_counter", "limit": 200, "window": "1s"}],
		"settle": {"cost": {"header": "x-tokens", "per": 2, "max": 7}, "missing": "release"}},
	{"name": "watched", "key": [{"header": "x-user"}], "limits": [{"algorithm": "sliding_window_log", "limit": 90, "window": "1s"}],
		"overrides": true, "penalty": {"after": 5, "within": "1s", "for": ["50ms"]}},
	{"name": "line", "match": {"headers": {"x-line": {"present": true}}},
		"limits": [{"algorithm": "leaky_bucket", "limit": 4, "window": "1s", "burst": 6, "overflow": "queue"}]},
	{"name": "hot", "match": {"headers": {"x-hot": {"present": true}}}, "key": [{"constant": "h"}],
		"limits": [{"algorithm": "fixed_window", "limit": 60, "window": "1s", "lease": {"units": 8, "ttl": "100ms"}}]}
]}`

// headers are a request's, as rules read them.
type headers map[string]string

func (h headers) Header(name string) (string, bool) { v, ok := h[name]; return v, ok }
func (h headers) Cookies([]byte) ([]byte, bool)     { return nil, false }
func (h headers) Evaluate(uint32) ([]byte, bool)    { return nil, false }
func (h headers) Property([]string) ([]byte, bool)  { return nil, false }

// arrive brings a request.
func (w *world) arrive() {
	h := headers{"x-user": fmt.Sprint(w.random.IntN(6)), "x-cost": fmt.Sprint(w.random.IntN(5))}
	for _, name := range []string{"x-line", "x-hot"} {
		if w.random.IntN(3) == 0 {
			h[name] = "yes"
		}
	}
	var m rule.Matcher
	applied, _ := w.rules.Apply(h, &m)
	w.nextID++
	q := w.stores.Question(w.nextID)
	r := &request{id: w.nextID}
	w.requests[q] = r
	if !q.Keep(applied) {
		w.t.Fatal("no rule applies")
	}
	if w.stores.Ask(q, w.now) {
		w.conclude(q)
		return
	}
	if q.Step(Waits) != Pause {
		w.t.Fatal("a request that waits is not paused")
	}
	r.waited = true
	w.live = append(w.live, q)
}

// conclude and carryOut are their twins of plugin/request.go.
func (w *world) conclude(q *Question) {
	v := w.stores.Conclude(q, w.now)
	w.carryOut(q.Step(v.Event), q, v)
}

func (w *world) carryOut(effect Effect, q *Question, v Verdict) {
	r := w.requests[q]
	switch effect {
	case Continue, Resume:
		r.admitted = true
		w.exit(r, effect == Resume)
	case Answer:
		w.exit(r, r.waited)
	case Enqueue:
		r.waited = true
		w.stores.Hold(q, v.DelayMicros, w.now)
	case GiveBack:
		w.stores.Leave(q, w.now)
	case Finish:
		w.stores.Finish(q, &w.requests[q].response, w.now)
	case Impossible:
		w.t.Fatalf("request %d: an impossible step in state %s", r.id, q.State())
	}
	if !slices.Contains(w.live, q) && q.State() != Ended {
		w.live = append(w.live, q)
	}
	if q.State() == Ended {
		w.finish(q)
	}
	w.stores.Release(q)
}

// exit notes that a request goes on, or is answered. Envoy must still know it.
func (w *world) exit(r *request, waited bool) {
	if r.left {
		w.t.Fatalf("request %d was let go after its client had left", r.id)
	}
	if waited != r.waited {
		w.t.Fatalf("request %d waited: %v", r.id, r.waited)
	}
	if r.exits++; r.exits > 1 {
		w.t.Fatalf("request %d got %d exits", r.id, r.exits)
	}
}

// finish puts a request that has ended aside, for the books to be checked.
func (w *world) finish(q *Question) {
	if i := slices.Index(w.live, q); i >= 0 {
		w.live = slices.Delete(w.live, i, i+1)
	}
	w.ended = append(w.ended, w.requests[q])
	if q.inPipe == 0 {
		delete(w.requests, q) // it is about to be used again
	}
}

// endStream ends a request's stream in Envoy: it was answered, or somebody left.
func (w *world) endStream(q *Question) {
	r := w.requests[q]
	if q.State() == Gone {
		return // it has ended already
	}
	if w.random.IntN(3) > 0 && q.Step(ResponseComes) == ShowLimits {
		r.response = response{came: true, status: []int64{200, 401, 503}[w.random.IntN(3)]}
		if w.random.IntN(4) > 0 {
			r.response.cost = fmt.Sprint(w.random.IntN(20))
		}
		q.Respond(&r.response)
	}
	r.left = true
	w.carryOut(q.Step(StreamEnds), q, Verdict{})
}

// speak lets Redis say something about one of the calls that it was sent.
func (w *world) speak(i int) {
	c := w.flying[i]
	now := w.now.SteadyMicros
	switch n := w.random.IntN(20); {
	case c.reply == nil && n < 12:
		w.run(c)
		return
	case !c.expired && n == 12:
		c.expired = true
		c.waiter.Expired(c.index, now)
		return
	case n == 13 || n == 14 && c.reply == nil: // an error, or its connection is lost
		if c.lost = c.reply != nil; c.lost {
			w.Release(c.charge, 0) // as one cannot know
		}
		w.flying = slices.Delete(w.flying, i, i+1)
		c.waiter.Failed(c.index, redis.ErrorReply, now)
		return
	case c.reply == nil:
		return
	}
	w.flying = slices.Delete(w.flying, i, i+1)
	if q, ok := c.waiter.(*Question); ok {
		c.late = q.concluded
	}
	c.waiter.Decided(c.index, c.reply, now)
}

// callback ends a callback of Envoy's that may conclude requests.
func (w *world) callback() {
	for range 5 {
		q, event := w.stores.Next(w.now)
		switch {
		case q == nil:
			return
		case event == TurnComes:
			w.carryOut(q.Step(TurnComes), q, Verdict{})
		default:
			w.conclude(q)
		}
	}
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
		w.speak(w.random.IntN(len(w.flying)))
		w.callback()
	case n < 85 && len(w.live) > 0:
		w.endStream(w.live[w.random.IntN(len(w.live))])
	case n == 85:
		w.down = !w.down
		if !w.down {
			w.stores.Reconnected()
			w.release()
		}
	case n < 90:
		w.stores.Tick(w.now)
		w.callback()
	}
}

// drain lets all that is under way come to its end, without new requests.
func (w *world) drain() {
	w.down = false
	w.release()
	for range 1000 {
		for len(w.flying) > 0 {
			w.speak(0)
		}
		w.stores.Tick(w.now)
		w.callback()
		for len(w.live) > 0 && w.live[0].State() != Gone {
			w.endStream(w.live[0])
		}
		w.now.SteadyMicros += 10_000
		w.now.UnixMicros += 10_000
	}
	w.stores.Close(w.now)
	if len(w.live) > 0 || len(w.flying) > 0 {
		w.t.Fatalf("%d requests and %d calls never end", len(w.live), len(w.flying))
	}
}

// check holds the books: what the store has charged is what admitted requests paid.
func (w *world) check() {
	for _, r := range w.ended {
		if r.concluded != 1 {
			w.t.Fatalf("request %d was concluded %d times", r.id, r.concluded)
		}
		if want := map[bool]int{false: 1, true: 0}[r.left && !r.admitted && r.exits == 0]; r.exits != want {
			w.t.Fatalf("request %d got %d exits, want %d", r.id, r.exits, want)
		}
		for _, nonce := range r.calls {
			c := w.ledger[nonce]
			paid := c.charged - c.given
			refused := r.verdict.Event == Refused || r.verdict.Event == Queued && !r.admitted
			if refused && paid != 0 && !c.lost {
				w.t.Fatalf("request %d (%s) paid %d for call %d, though it was refused: %+v", r.id, r.verdict.Outcome.Metric(), paid, nonce, c)
			}
			if want := w.worth(r, c); !refused && paid != want && !c.lost {
				w.t.Fatalf("request %d (%s) paid %d for call %d, want %d: %+v, %+v", r.id, r.verdict.Outcome.Metric(), paid, nonce, want, r.response, c)
			}
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
				w := newWorld(t, round, strings.Replace(interleaved, "%s", mode, 1))
				for range steps {
					w.step()
				}
				w.drain()
				w.check()
				if len(w.ended) != int(w.nextID) {
					t.Errorf("%d of %d requests ended", len(w.ended), w.nextID)
				}
				if w.concluded != int(w.nextID) {
					t.Errorf("%d of %d requests were concluded", w.concluded, w.nextID)
				}
			})
		}
	}
}
