package main

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// overAndCredits are a limit of 1 that sets a header, and a credit of 1 beside it.
const overAndCredits = `{"name": "quota", "key": [{"header": "x-client"}],
	"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h"}],
	"over": {"set_headers": {"X-Quota": "paid", "x-some_other": "a"}, "limits": [
	{"name": "credits", "algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "30m"}]}}`

// A pass that follows an internal redirect keeps the header that was set. One whose configuration
// was replaced meanwhile is a new request: it loses the header, and is asked about anew.
func TestOverAndRedirects(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + overAndCredits + `]}`)
		i.get("/", client("x")...).end()
		x := i.get("/", client("x")...).redirect("/next", append(client("x"), "x-quota", "paid")...)
		quota, _ := x.Upstream.Headers.Get("x-quota")
		testenv.Same(t, "x-quota of the next pass", quota, "paid")
		x.end()
		forged := i.get("/", append(client("y"), "x-quota", "paid", "x-envoy-original-url", "http://a/")...)
		quota, _ = forged.Upstream.Headers.Get("x-quota")
		testenv.Same(t, "x-quota of one that claims to be redirected", quota, "")
		forged.end()
		first := i.get("/", client("z")...)
		after := w.load(`{"rules": [` + perClient("other", 9) + `, ` + overAndCredits + `]}`)
		first.Properties["response.code_details"] = []byte("internal_redirect")
		first.End()
		second := after.get("/again", append(client("z"), "x-quota", "paid")...)
		testenv.Same(t, "outcome under the next configuration", second.outcome(), "over:quota")
		quota, _ = second.Upstream.Headers.Get("x-quota")
		testenv.Same(t, "its header", quota, "paid")
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
