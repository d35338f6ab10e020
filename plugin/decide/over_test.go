package decide

import (
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/deny"
)

// overRules have each rule's match at a header of its name.
const overRules = `{"redis": {"cluster": "redis", "timeout": "50ms"}, "failure": {"mode": "MODE"}, "rules": [
	{"name": "soft", "match": {"headers": {"x-soft": {"present": true}}}, "over": {"set_headers": {"x-over": "soft"}},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h"}]},
	{"name": "also", "match": {"headers": {"x-also": {"present": true}}},
		"over": {"set_headers": {"x-over": "also", "x-more": "1"}},
		"limits": [{"algorithm": "fixed_window", "limit": 0, "window": "1h"}]},
	{"name": "paid", "match": {"headers": {"x-paid": {"present": true}}},
		"over": {"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 2, "window": "10s"}]},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "30s"}]},
	{"name": "both", "match": {"headers": {"x-both": {"present": true}}}, "cost": {"header": "x-units"},
		"over": {"set_headers": {"x-over": "both"}, "limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 4, "window": "40s"}]},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 3, "window": "30s"}]},
	{"name": "nil", "match": {"headers": {"x-nil": {"present": true}}},
		"over": {"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "20s"}]},
		"limits": [{"algorithm": "fixed_window", "limit": 0, "window": "1h"}]},
	{"name": "team", "match": {"headers": {"x-team": {"present": true}}},
		"over": {"limits": [
			{"name": "credits", "per": [{"header": "x-card"}], "algorithm": "fixed_window", "anchor": "first_request",
				"limit": 1, "window": "20s"}]},
		"limits": [
			{"name": "user", "per": [{"header": "x-user"}], "algorithm": "fixed_window", "anchor": "first_request",
				"limit": 1, "window": "30s"}]},
	{"name": "costly", "match": {"headers": {"x-costly": {"present": true}}},
		"over": {"set_headers": {"x-over": "costly"}}, "cost": {"header": "x-units"}, "limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 5, "window": "1h"}]},
	{"name": "hard", "match": {"headers": {"x-hard": {"present": true}}},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "5s"}]},
	{"name": "deny", "match": {"headers": {"x-deny": {"present": true}}}, "failure": "deny",
		"limits": [{"algorithm": "fixed_window", "limit": 100, "window": "1h"}]},
	{"name": "operator", "match": {"headers": {"x-operator": {"present": true}}}, "overrides": true,
		"over": {"set_headers": {"x-over": "operator"}, "limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h"}]},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h"}]}
]}`

// told is the fate of a request.
type told struct {
	outcome string // as access logs say it
	trips   string // the rules that Redis was asked about, "a b|c" in two round trips
	set     string // headers that were set
	left    string // what is shown to remain: "soft=0 purse=3"
	wait    int64  // Retry-After in us; 0 for none or an admitted request
}

// overWorld is a world in which Redis answers at once.
type overWorld struct{ *world }

func newOverWorld(t *testing.T, mode string) overWorld {
	w := newWorld(t, 1, strings.Replace(overRules, "MODE", mode, 1))
	w.steady = true
	return overWorld{w}
}

// asks is a request of the rules "a b", whose header may have a value: "fund=small".
func asks(rules string) headers {
	h := headers{}
	for name := range strings.FieldsSeq(rules) {
		name, value, _ := strings.Cut(name, "=")
		h["x-"+name] = value
	}
	return h
}

// trip has Redis answer all that it was sent, and returns the rules that it was asked about.
func (w overWorld) trip() string {
	var names []string
	w.run(len(w.flying))
	for _, c := range w.calls {
		if c.Kind == twinredis.Check {
			names = append(names, c.Limits.Rule.Name)
		}
	}
	w.calls = nil
	w.hear()
	return strings.Join(names, " ")
}

// ask sends a request, and says what becomes of it.
func (w overWorld) ask(rules string) told {
	q := w.begin(asks(rules))
	r := w.requests[q]
	w.send(q)
	var trips []string
	for len(w.flying) > 0 {
		if trip := w.trip(); trip != "" {
			trips = append(trips, trip)
		}
	}
	return w.told(q, r, strings.Join(trips, "|"))
}

func (w overWorld) told(q *Question, r *request, trips string) told {
	got := told{outcome: w.worker.display.text(q.verdict), trips: trips, set: strings.Join(r.set, ", ")}
	if q.verdict.Event == Refused && !r.rejection.Undecided {
		got.wait = q.WaitMicros()
	}
	limits, _, _ := w.worker.display.limits(q, nil)
	var left []string
	for i := range limits {
		left = append(left, limits[i].Label.Name+"="+strconv.FormatInt(limits[i].Decision.Remaining, 10))
	}
	got.left = strings.Join(left, " ")
	w.endStream(q)
	return got
}

func compareTold(t *testing.T, what string, got, want told) {
	t.Helper()
	testenv.Same(t, what+": outcome", got.outcome, want.outcome)
	testenv.Same(t, what+": round trips", got.trips, want.trips)
	testenv.Same(t, what+": headers set", got.set, want.set)
	testenv.Same(t, what+": remaining", got.left, want.left)
	testenv.Same(t, what+": wait", got.wait, want.wait)
}

// second is 1 s in us.
const second = 1_000_000

// overCases are requests, one after the other, half a second apart, and what becomes of them.
var overCases = []struct {
	name  string
	steps []struct {
		rules string
		want  told
	}
}{
	{"headers", steps{
		{"soft", told{"allowed", "soft", "", "soft=0", 0}},
		{"soft", told{"over:soft", "soft", "x-over: soft", "soft=0", 0}},
	}},
	{"a rule that is over shows 0, and charges nothing", steps{
		{"costly units=2", told{"allowed", "costly", "", "costly=3", 0}},
		{"costly units=4", told{"over:costly", "costly", "x-over: costly", "costly=0", 0}},
		{"costly units=3", told{"allowed", "costly", "", "costly=0", 0}},
	}},
	{"of two rules that set a header the first counts", steps{
		{"soft also", told{"over:also", "soft", "x-over: also, x-more: 1", "soft=0 also=0", 0}},
		{"soft also", told{"over:soft", "soft", "x-over: also, x-more: 1, x-over: soft", "soft=0 also=0", 0}},
	}},
	{"limits that pay, in the same round trip", steps{
		{"paid", told{"allowed", "paid", "", "paid=0", 0}},
		{"paid", told{"over:paid", "paid", "", "paid=0 paid-over=1", 0}},
		{"paid", told{"over:paid", "paid", "", "paid=0 paid-over=0", 0}},
		{"paid", told{"limited:paid", "paid", "", "paid=0 paid-over=0", 9 * second}},
	}},
	{"a rule that is over charges nothing of its own", steps{
		{"both units=2", told{"allowed", "both", "", "both=1", 0}},
		{"both units=2", told{"over:both", "both", "x-over: both", "both=0 both-over=2", 0}},
		{"both units=1", told{"allowed", "both", "", "both=0", 0}},
		{"both units=3", told{"limited:both", "both", "", "both=0 both-over=2", 28_500_000}},
		{"both units=5", told{"limited:both", "both", "", "both=0 both-over=2", -1}},
	}},
	{"a limit of 0 that others pay for", steps{
		{"nil", told{"over:nil", "nil", "", "nil=0 nil-over=0", 0}},
		{"nil", told{"limited:nil", "nil", "", "nil=0 nil-over=0", 19_500_000}},
	}},
	{"a rule whose own limits do not apply does not", steps{{"team card=1", told{}}}},
	{"another rule refuses: the charge is given back", steps{
		{"hard", told{"allowed", "hard", "", "hard=0", 0}},
		{"hard soft", told{"limited:hard", "soft hard", "", "soft=1 hard=0", 4_500_000}},
		{"soft", told{"allowed", "soft", "", "soft=0", 0}},
		{"hard nil", told{"limited:hard", "nil hard", "", "nil=0 nil-over=1 hard=0", 3_500_000}},
		{"nil", told{"over:nil", "nil", "", "nil=0 nil-over=0", 0}},
	}},
	{"of two rules with lists the longer wait counts", steps{
		{"paid", told{"allowed", "paid", "", "paid=0", 0}},
		{"nil", told{"over:nil", "nil", "", "nil=0 nil-over=0", 0}},
		{"paid", told{"over:paid", "paid", "", "paid=0 paid-over=1", 0}},
		{"paid", told{"over:paid", "paid", "", "paid=0 paid-over=0", 0}},
		{"paid nil", told{"limited:paid", "paid nil", "", "paid=0 paid-over=0 nil=0 nil-over=0", 18_500_000}},
	}},
}

type steps = []struct {
	rules string
	want  told
}

// TestOver: what becomes of requests that are over a limit.
func TestOver(t *testing.T) {
	t.Parallel()
	for _, tc := range overCases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newOverWorld(t, "allow")
			for i, step := range tc.steps {
				if step.want == (told{}) {
					continue // no rule applies
				}
				compareTold(t, "request "+strconv.Itoa(i), w.ask(step.rules), step.want)
				w.pass(second / 2)
			}
		})
	}
}

// TestOverRemembered: a remembered rejection of a rule with headers alone is asked about along with what
// has to be asked, in one round trip, and concludes without anything else. Of a rule whose limits may be
// paid for it is remembered where both lists reject, of the same values and cost.
func TestOverRemembered(t *testing.T) {
	t.Parallel()
	w := newOverWorld(t, "allow")
	for _, step := range []struct {
		rules string
		want  told
	}{
		{"soft", told{"allowed", "soft", "", "soft=0", 0}},
		{"soft", told{"over:soft", "soft", "x-over: soft", "soft=0", 0}},
		{"soft", told{"over:soft", "", "x-over: soft", "soft=0", 0}},
		{"soft hard", told{"over:soft", "soft hard", "x-over: soft", "soft=0 hard=0", 0}},
		{"soft hard", told{"limited:hard", "soft hard", "", "soft=0 hard=0", 5 * second}},
		{"soft hard", told{"limited:hard", "", "", "soft=0 hard=0", 5 * second}},
		{"both units=3", told{"allowed", "both", "", "both=0", 0}},
		{"both units=3", told{"over:both", "both", "x-over: both", "both=0 both-over=1", 0}},
		{"both units=2", told{"limited:both", "both", "", "both=0 both-over=1", 30 * second}},
		{"both units=2", told{"limited:both", "", "", "both=0 both-over=1", 30 * second}},
		{"both units=3", told{"limited:both", "both", "", "both=0 both-over=1", 30 * second}},
		{"both units=1", told{"over:both", "both", "x-over: both", "both=0 both-over=0", 0}},
	} {
		compareTold(t, step.rules, w.ask(step.rules), step.want)
	}
	w.pass(deny.SharedTTLMicros)
	compareTold(t, "forgotten", w.ask("soft"), told{"over:soft", "soft", "x-over: soft", "soft=0", 0})
}

// TestOverUndecided: what a failing Redis makes of requests that are over a limit, by the failure
// mode.
func TestOverUndecided(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]map[string]string{
		"allow": {
			"soft": "over:soft", "soft deny": "failed:deny", "also": "over:also", "also hard": "failed:allow",
			"nil": "failed:allow",
		},
		"deny":  {"soft": "over:soft", "also hard": "failed:deny", "nil": "failed:deny"},
		"local": {"soft": "over:soft", "also hard": "over:also", "nil": "over:nil"},
	} {
		w := newOverWorld(t, mode)
		w.ask("soft")
		w.ask("soft") // is remembered
		w.away = true
		w.lose()
		for rules, outcome := range want {
			got := w.ask(rules)
			testenv.Same(t, mode+", "+rules, got.outcome, outcome)
			set := rules != "nil" && (strings.HasPrefix(outcome, "over") || outcome == "failed:allow") // a 503 sets none
			testenv.Same(t, mode+", "+rules+": headers set", got.set != "", set)
		}
	}
}

// TestOverInTheEmbeddedStore: it decides both lists, of parts of an identity, too.
func TestOverInTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	w := newOverWorld(t, "local")
	w.away = true
	for i, outcome := range []string{"local:allowed", "over:paid", "over:paid", "local:limited:paid"} {
		testenv.Same(t, "request "+strconv.Itoa(i), w.ask("paid").outcome, outcome)
	}
	for i, step := range [][2]string{
		{"team user=a card=1", "local:allowed"},
		{"team user=a card=1", "over:team"},
		{"team user=b card=1", "local:allowed"},
		{"team user=b card=1", "local:limited:team"},
		{"team user=b card=2", "over:team"},
		{"team user=b", "local:limited:team"},
	} {
		testenv.Same(t, "of a team, request "+strconv.Itoa(i), w.ask(step[0]).outcome, step[1])
	}
}

// TestLateReplyOfARuleThatIsOver: what it turns out to have charged is given back, as a rule that
// is over charges nothing.
func TestLateReplyOfARuleThatIsOver(t *testing.T) {
	t.Parallel()
	w := newOverWorld(t, "allow")
	w.ask("soft")
	w.ask("soft")
	q := w.begin(asks("soft hard"))
	w.send(q)
	q.Expired(0, w.now.SteadyMicros)
	q.Expired(1, w.now.SteadyMicros)
	w.conclude(q)
	testenv.Same(t, "outcome", w.worker.display.text(q.verdict), "failed:allow")
	testenv.SameList(t, "headers", w.requests[q].set, []string{"x-over: soft"})
	w.server.Restart() // Redis has lost its data
	clear(w.charged)
	w.calls = nil
	w.answer()
	testenv.Same(t, "that it was charged", w.calls[0].Allowed, true)
	testenv.Same(t, "units that stay charged", w.charged["soft|"], 0)
}

// TestOverKeptBack: whoever is kept back past the bound and is remembered as over goes on with the
// headers. Where limits may pay, the last replies count for both lists.
func TestOverKeptBack(t *testing.T) {
	t.Parallel()
	w := newOverWorld(t, "allow")
	w.stores.burst.begin()
	w.ask("soft")
	w.ask("soft")
	testenv.Same(t, "soft", w.keptBack("soft"), "over:soft")
	for _, step := range []struct{ asked, outcomes string }{
		{"nil", "limited:nil"},                             // the one credit is used
		{"paid", "failed:allow failed:allow limited:paid"}, // the credits were not asked: they may all be there
		{"paid", "failed:allow limited:paid"},              // one was charged since, and two were lent
	} {
		w := newOverWorld(t, "allow")
		w.stores.burst.begin()
		for range 2 {
			if w.ask(step.asked); step.asked == "paid" && strings.Count(step.outcomes, "failed") == 2 {
				break
			}
		}
		for i, outcome := range strings.Fields(step.outcomes) {
			testenv.Same(t, step.asked+" "+strconv.Itoa(i), w.keptBack(step.asked), outcome)
		}
	}
}

// keptBack is the outcome of a request that came before all others, and was kept back past the bound.
func (w overWorld) keptBack(rules string) string {
	q := w.begin(asks(rules))
	q.kept.overdue = true
	q.giveUp()
	w.worker.conclude(q, w.now)
	testenv.Same(w.t, rules+": the commands", len(w.flying), 0)
	return w.worker.display.text(q.verdict)
}

// TestBlockIsNeverOver: who is blocked is rejected.
func TestBlockIsNeverOver(t *testing.T) {
	t.Parallel()
	w := newOverWorld(t, "allow")
	q := w.begin(asks("operator"))
	w.send(q)
	w.says(algo.Ruling{By: algo.ByBlock, LeftMicros: 7 * second})
	testenv.Same(t, "outcome", q.verdict.Outcome, answer.Blocked)
	testenv.Same(t, "wait", q.WaitMicros(), 7*second)
}

// TestShadowConfigurationIsNeverOver: under the top-level shadow nothing is set, and no limits pay.
func TestShadowConfigurationIsNeverOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, strings.Replace(strings.Replace(overRules, "MODE", "allow", 1), "{", `{"mode": "shadow", `, 1))
	w.steady = true
	got := overWorld{w}.ask("also nil")
	compareTold(t, "shadow", got, told{outcome: "shadow:also"})
}

// TestOverIsSettled: what has paid is settled when the request is over, and what has not is left alone.
func TestOverIsSettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, `{"redis": {"cluster": "redis"}, "rules": [
		{"name": "r", "limits": [{"algorithm": "fixed_window", "limit": 0, "window": "1h"}],
			"cost": 5, "settle": {"status": ["2xx"]}, "over": {"limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 9, "window": "1h"}]}}]}`)
	w.steady = true
	for _, status := range []int64{200, 500} {
		q := w.ask()
		w.answer()
		resp := &response{came: true, status: status}
		w.worker.Responds(q, resp)
		w.leave(w.requests[q])
		w.worker.Ends(q, resp, w.now)
		w.ticks(20_000)
		want := map[int64]int64{200: 5, 500: 0}[status]
		testenv.Same(t, "charged after "+strconv.FormatInt(status, 10), w.charged["r|"], want)
		w.server.Restart()
		clear(w.charged)
	}
}
