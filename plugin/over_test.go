package main

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// overAndCredits are a limit of 1 that sets a header, and a credit of 1 beside it.
const overAndCredits = `{"name": "quota", "key": [{"header": "x-client"}],
	"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h"}],
	"over": {"set_headers": {"X-Quota": "paid", "x-some_other": "a"}, "limits": [
	{"name": "credits", "algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "30m"}]}}`

// sent is the values of a header of the request that the upstream gets.
func (x *exchange) sent(name string) (values []string) {
	for _, h := range x.Upstream.Headers {
		if h[0] == name {
			values = append(values, h[1])
		}
	}
	return values
}

// A request that is over goes on with the headers once a credit has paid, and is refused
// otherwise. Without Redis all of it happens at once, with Redis in one round trip.
func TestOver(t *testing.T) {
	t.Parallel()
	over := result{Status: 200, Outcome: "over:quota", Limit: 1, Remaining: 0, Reset: 3600}
	refused := result{Status: 429, Outcome: "limited:quota", Limit: 1, Remaining: 0, Reset: 3600, RetryAfter: 1800}
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + overAndCredits + `]}`)
		i.get("/", client("x")...).end()
		x := i.get("/", append(client("x"), "x-quota", "forged", "x_quota", "too", "x-some-other", "b")...)
		testenv.SameList(t, "x-quota", x.sent("x-quota"), []string{"paid"})
		testenv.SameList(t, "x_quota", x.sent("x_quota"), nil)
		testenv.SameList(t, "x-some-other", x.sent("x-some-other"), nil)
		testenv.SameList(t, "x-some_other", x.sent("x-some_other"), []string{"a"})
		w.expect("over", x.end(), over)
		w.expect("no credit is left", i.get("/", client("x")...).end(), refused)
	})
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(overAndCredits))
		for n, want := range []result{
			{Status: 200, Outcome: "allowed", Limit: 1, Remaining: 0, Reset: 3600}, over, refused,
		} {
			x := i.get("/", client("x")...)
			r.settle()
			testenv.Same(t, "headers that were set", len(x.sent("x-quota")), map[bool]int{true: 1}[n == 1])
			w.expect("with Redis", x.end(), want)
		}
		i.flush()
		stats := w.stats()
		for name, want := range map[string]int64{
			"outcome.over.requests_total":                    1,
			"outcome.limited.requests_total":                 1,
			"rule.quota.outcome.over.rule_requests_total":    1,
			"rule.quota.outcome.limited.rule_requests_total": 1,
			"rule.quota.limit.credits.near_limit_total":      1, // not as long as it was not asked
		} {
			testenv.Same(t, name, stats[name], want)
		}
	})
}

// A pass that follows an internal redirect keeps the header that was set. One whose configuration
// was replaced meanwhile is a new request: it loses the header, and is asked about anew.
func TestOverAndRedirects(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + overAndCredits + `]}`)
		i.get("/", client("x")...).end()
		x := i.get("/", client("x")...).redirect("/next", append(client("x"), "x-quota", "paid")...)
		testenv.SameList(t, "x-quota of the next pass", x.sent("x-quota"), []string{"paid"})
		x.end()
		forged := i.get("/", append(client("y"), "x-quota", "paid", "x-envoy-original-url", "http://a/")...)
		testenv.SameList(t, "x-quota of one that claims to be redirected", forged.sent("x-quota"), nil)
		forged.end()
		first := i.get("/", client("z")...)
		after := w.load(`{"rules": [` + perClient("other", 9) + `, ` + overAndCredits + `]}`)
		first.Properties["response.code_details"] = []byte("internal_redirect")
		first.End()
		second := after.get("/again", append(client("z"), "x-quota", "paid")...)
		testenv.Same(t, "outcome under the next configuration", second.outcome(), "over:quota")
		testenv.SameList(t, "its header", second.sent("x-quota"), []string{"paid"})
		second.end()
	})
}

// The headers of a request that brings none of the names are not touched, as Envoy would choose the
// route anew, and one without any over is not even looked at.
func TestOverTouchesNothingElse(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + overAndCredits + `]}`)
		calls := w.callsOf(func() { i.get("/", append(client("x"), "x-quotas", "a", "x-quot", "b")...).end() })
		testenv.Same(t, "headers removed", calls["proxy_remove_header_map_value"], 0)
		other := w.load(`{"rules": [{"name": "a", "limits": [{"algorithm": "gcra", "limit": 9, "window": "1s"}]}]}`)
		calls = w.callsOf(func() { other.get("/", client("x")...).end() })
		testenv.Same(t, "headers read at once", calls["proxy_get_header_map_pairs"], 0)
	})
}

// The filter state of a request that neither list admits is about the one that has room sooner.
func TestRejectedStateOfTwoLists(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + overAndCredits + `]}`)
		for range 2 {
			i.get("/", client("x")...).end()
		}
		x := i.get("/", client("x")...)
		testenv.Same(t, "rejected", string(x.FilterState["wasm.sluice.rejected"]),
			`{"limit":"credits","identity":"x","retry_after":1800}`)
		x.End()
	})
}

// What a caller has left is shown of both lists.
func TestQuotaOfBothLists(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		rules := withRedis(overAndCredits)
		i := w.load(rules[:len(rules)-1] + `, "quota": {"path": "/left", "rules": ["quota"]}}`)
		for range 2 {
			x := i.get("/", client("x")...)
			r.settle()
			x.end()
		}
		x := i.get("/left", client("x")...)
		r.settle()
		testenv.Same(t, "outcome", x.outcome(), "quota")
		for _, name := range []string{`"name":"quota"`, `"name":"credits"`} {
			if !strings.Contains(string(x.Local.Body), name) {
				t.Errorf("no %s in %s", name, x.Local.Body)
			}
		}
		x.End()
	})
}
