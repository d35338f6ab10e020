package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// perClient is a rule of one limit for each x-client.
func perClient(name string, limit int) string {
	return fmt.Sprintf(`{"name": %q, "key": [{"header": "x-client"}],
		"limits": [{"algorithm": "fixed_window", "limit": %d, "window": "1h", "anchor": "first_request"}]}`, name, limit)
}

// withRedis is a configuration that asks Redis.
func withRedis(rules string) string {
	return `{"redis": {"cluster": "redis"}, "rules": [` + rules + `]}`
}

func TestLimitedByRedis(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(perClient("a", 2)))
		for _, step := range []struct {
			client string
			want   result
		}{
			{client: "x", want: result{Status: 200, Outcome: "allowed", Limit: 2, Remaining: 1, Reset: 3600}},
			{client: "x", want: result{Status: 200, Outcome: "allowed", Limit: 2, Remaining: 0, Reset: 3600}},
			{client: "x", want: result{
				Status: 429, Outcome: "limited:a", Limit: 2, Remaining: 0, Reset: 3600,
				RetryAfter: 3600,
			}},
			{client: "y", want: result{Status: 200, Outcome: "allowed", Limit: 2, Remaining: 1, Reset: 3600}},
		} {
			x := i.get("/", client(step.client)...)
			if !x.waits() {
				t.Errorf("client %s: did not wait for Redis", step.client)
			}
			r.settle()
			w.expect("client "+step.client, x.end(), step.want)
		}
		if got, want := r.keys(), []string{
			"rl:{a|x}:fixed_window:1h:first",
			"rl:{a|y}:fixed_window:1h:first",
		}; !slices.Equal(got, want) {
			t.Errorf("keys %q, want %q", got, want)
		}
	})
}

// Requests that come while others wait are sent at once, and answered in order,
// however Redis' replies are cut into messages.
func TestPipelining(t *testing.T) {
	t.Parallel()
	for _, piece := range []int{0, 1, 7} {
		t.Run(fmt.Sprintf("messages of %d bytes", piece), func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				r := w.startRedis()
				r.piece = piece
				i := w.load(withRedis(perClient("a", 2) + "," + perClient("b", 9)))
				var all []*exchange
				for range 4 {
					all = append(all, i.get("/", client("x")...), i.get("/", client("y")...))
				}
				if got := r.conns[0].writes; got != 8 {
					t.Errorf("%d writes for 8 requests of 2 rules, want 8", got)
				}
				if got := r.settle(); piece == 0 && got != 3 {
					t.Errorf("%d messages, want 3: the replies to checks by hash, to checks by source and to refunds", got)
				}
				for n, x := range all {
					want := []result{
						{Status: 200, Outcome: "allowed", Limit: 2, Remaining: 1, Reset: 3600},
						{Status: 200, Outcome: "allowed", Limit: 2, Remaining: 0, Reset: 3600},
						{Status: 429, Outcome: "limited:a", Limit: 2, Remaining: 0, Reset: 3600, RetryAfter: 3600},
						{Status: 429, Outcome: "limited:a", Limit: 2, Remaining: 0, Reset: 3600, RetryAfter: 3600},
					}[n/2]
					w.expect(fmt.Sprint("request ", n+1), x.end(), want)
				}
				if len(r.conns) != 1 {
					t.Errorf("%d streams, want 1", len(r.conns))
				}
			})
		})
	}
}

// Several rules are asked in one write. If one rejects, the others get back what
// they charged, which is seen in Redis and in what the client is shown.
func TestRefund(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		wide := `{"name": "wide", "limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h", "anchor": ` +
			`"first_request"}]}`
		i := w.load(`{"redis": {"cluster": "redis"}, "headers": ["draft"], "deny_cache": {"size": 0},
			"rules": [` + wide + `,` + perClient("narrow", 1) + `]}`)
		shown := func(remaining int) []member {
			return []member{
				{Name: "wide", Q: 9, W: 3600, R: remaining, T: 3600},
				{Name: "narrow", Q: 1, W: 3600, R: 0, T: 3600},
			}
		}
		for n, want := range []result{
			{Status: 200, Outcome: "allowed", Draft: shown(8)},
			{Status: 429, Outcome: "limited:narrow", RetryAfter: 3600, Draft: shown(8)},
			{Status: 429, Outcome: "limited:narrow", RetryAfter: 3600, Draft: shown(8)},
		} {
			x := i.get("/", client("x")...)
			if got := r.conns[0].writes; n == 0 && got != 1 {
				t.Errorf("two rules took %d writes, want 1", got)
			}
			r.settle()
			w.expect(fmt.Sprint("request ", n+1), x.end(), want)
		}
		x := i.get("/", client("y")...)
		r.settle()
		w.expect("another client", x.end(), result{Status: 200, Outcome: "allowed", Draft: shown(7)})
	})
}

// A client that goes on after a rejection costs Redis nothing for as long as the
// rejection is sure to hold.
func TestRejectionIsRemembered(t *testing.T) {
	t.Parallel()
	const enough = `{"name": "b", "mode": %q, "limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h"}]}`
	for _, test := range []struct {
		name, rules string
		hold        time.Duration
	}{
		{name: "one rule", rules: perClient("a", 1), hold: 10 * time.Second},
		{name: "with a shadow rule", rules: perClient("a", 1) + "," + fmt.Sprintf(enough, "shadow"), hold: 10 * time.Second},
		{
			name: "with another rule", rules: perClient("a", 1) + "," + fmt.Sprintf(enough, "enforce"),
			hold: 100 * time.Millisecond,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				r := w.startRedis()
				i := w.load(withRedis(test.rules))
				ask := func(want string) (writes int) {
					before := r.writes()
					x := i.get("/", client("x")...)
					r.settle()
					testenv.Same(w.t, "outcome", x.end().Outcome, want)
					return r.writes() - before
				}
				ask("allowed")
				ask("limited:a")
				w.clock.advance(test.hold - time.Millisecond)
				if got := ask("limited:a"); got != 0 {
					t.Errorf("asked Redis %d times about a client it had just rejected", got)
				}
				w.clock.advance(time.Millisecond)
				if got := ask("limited:a"); got == 0 {
					t.Error("did not ask Redis again in time")
				}
			})
		})
	}
}

// A Redis that has lost its scripts is sent them again, and no client notices.
func TestScriptsAreSentAgain(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(perClient("a", 9)))
		for n := range 3 {
			if err := r.client().ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			x := i.get("/", client("x")...)
			r.settle()
			w.expect("request", x.end(), result{Status: 200, Outcome: "allowed", Limit: 9, Remaining: 8 - n, Reset: 3600})
		}
		if logs := w.logs(); len(logs) > 0 {
			t.Errorf("logged %q", logs)
		}
	})
}

// The body of a request that waits waits with it, and follows it whole.
func TestBodyFollows(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(perClient("a", 9)))
		x := &exchange{Stream: i.NewStream(), t: t}
		x.RequestHeaders(wasmhost.Request("POST", "/", client("x")...), false)
		x.RequestBody([]byte("the first half, "), false)
		r.settle()
		x.RequestBody([]byte("the second"), true)
		if got, want := string(x.Upstream.Body), "the first half, the second"; got != want {
			t.Errorf("body %q, want %q", got, want)
		}
		w.expect("the request", x.end(), result{Status: 200, Outcome: "allowed", Limit: 9, Remaining: 8, Reset: 3600})
	})
}
