package decide

import (
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/deny"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// overRules have each rule's match at a header of its name.
const overRules = `{"redis": {"cluster": "redis", "timeout": "50ms"}, "failure": {"mode": "MODE"}, "rules": [
	{"name": "purse", "only": "over", "match": {"headers": {"x-rich": {"present": true}}}, "cost": 2,
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 5, "window": "10s"}]},
	{"name": "none", "match": {"headers": {"x-none": {"present": true}}}, "exempt": true},
	{"name": "soft", "match": {"headers": {"x-soft": {"present": true}}}, "over": {"set_headers": {"x-over": "soft"}},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h"}]},
	{"name": "also", "match": {"headers": {"x-also": {"present": true}}},
		"over": {"set_headers": {"x-over": "also", "x-more": "1"}},
		"limits": [{"algorithm": "fixed_window", "limit": 0, "window": "1h"}]},
	{"name": "paid", "match": {"headers": {"x-paid": {"present": true}}}, "over": {"charge": "purse"},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "30s"}]},
	{"name": "again", "match": {"headers": {"x-again": {"present": true}}}, "over": {"charge": "purse"},
		"limits": [{"algorithm": "fixed_window", "limit": 0, "window": "1h"}]},
	{"name": "costly", "match": {"headers": {"x-costly": {"present": true}}},
		"over": {"set_headers": {"x-over": "costly"}}, "cost": {"header": "x-units"}, "limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 5, "window": "1h"}]},
	{"name": "fund", "only": "over", "match": {"headers": {"x-fund": {"present": true}}}, "limits_by": {
		"source": {"header": "x-fund"}, "values": {"endless": "unlimited",
			"small": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "20s"}]}}},
	{"name": "funded", "match": {"headers": {"x-funded": {"present": true}}},
		"over": {"set_headers": {"x-over": "funded"}, "charge": "fund"},
		"limits": [{"algorithm": "fixed_window", "limit": 0, "window": "1h"}]},
	{"name": "hard", "match": {"headers": {"x-hard": {"present": true}}},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "5s"}]},
	{"name": "deny", "match": {"headers": {"x-deny": {"present": true}}}, "failure": "deny",
		"limits": [{"algorithm": "fixed_window", "limit": 100, "window": "1h"}]},
	{"name": "operator", "match": {"headers": {"x-operator": {"present": true}}}, "overrides": true,
		"over": {"set_headers": {"x-over": "operator"}},
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

// answer lets Redis decide all that it was asked, and returns what that was.
func (w overWorld) answer() string {
	var names []string
	calls := w.flying
	w.flying = nil
	w.hear(func() {
		for _, c := range calls {
			names = append(names, c.waiter.(*Question).Checks[c.index].Rule.Name)
			w.run(c)
			c.waiter.Decided(c.index, c.reply, w.now.SteadyMicros)
		}
	})
	return strings.Join(names, " ")
}

// ask sends a request, and says what becomes of it.
func (w overWorld) ask(rules string) told {
	q := w.begin(asks(rules))
	r := w.requests[q]
	w.send(q)
	var trips []string
	for len(w.flying) > 0 {
		trips = append(trips, w.answer())
	}
	return w.told(q, r, strings.Join(trips, "|"))
}

func (w overWorld) told(q *Question, r *request, trips string) told {
	got := told{outcome: w.worker.display.text(q.verdict), trips: trips, set: strings.Join(r.set, ", ")}
	if q.verdict.Event == Refused && !r.rejection.Undecided {
		got.wait = q.WaitMicros()
	}
	limits, _ := w.worker.display.limits(q)
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
	{"a purse pays once for two rules", steps{
		{"paid again rich", told{"over:again", "paid|purse", "", "paid=0 again=0 purse=3", 0}},
		{"paid again rich", told{"over:paid", "paid|purse", "", "paid=0 again=0 purse=1", 0}},
	}},
	{"a purse that does not pay", steps{
		{"again rich", told{"over:again", "purse", "", "again=0 purse=3", 0}},
		{"again rich", told{"over:again", "purse", "", "again=0 purse=1", 0}},
		{"again rich", told{"limited:purse", "purse", "", "again=0 purse=1", 9 * second}},
		{"paid rich", told{"allowed", "paid", "", "paid=0", 0}},
		{"paid again rich", told{"limited:purse", "paid|purse", "", "paid=0 again=0 purse=1", 8 * second}},
	}},
	{"a purse that does not apply", steps{{"again", told{"limited:again", "", "", "again=0", -1}}}},
	{"an exempt rule before the rules", steps{{"none again", told{}}}},
	{"a purse without limits", steps{
		{"funded fund=endless", told{"over:funded", "", "x-over: funded", "funded=0", 0}},
	}},
	{"of two purses one does not pay", steps{
		{"again rich funded fund=small", told{
			"over:again", "purse fund", "x-over: funded", "again=0 funded=0 purse=3 fund=0", 0,
		}},
		{"again rich funded fund=small", told{
			"limited:fund", "purse fund", "", "again=0 funded=0 purse=3 fund=0", 19_500_000,
		}},
		{"again rich", told{"over:again", "purse", "", "again=0 purse=1", 0}},
	}},
	{"two purses do not pay: each rule waits for the sooner of the two, the request for the slowest", steps{
		{"paid rich", told{"allowed", "paid", "", "paid=0", 0}},
		{"paid rich funded fund=small", told{
			"over:paid", "paid|purse fund", "x-over: funded", "paid=0 funded=0 purse=3 fund=0", 0,
		}},
		{"again rich", told{"over:again", "purse", "", "again=0 purse=1", 0}},
		{"paid rich funded fund=small", told{
			"limited:purse", "paid|purse fund", "", "paid=0 funded=0 purse=1 fund=0", 19 * second,
		}},
	}},
	{"another rule refuses", steps{
		{"hard", told{"allowed", "hard", "", "hard=0", 0}},
		{"hard soft", told{"limited:hard", "soft hard", "", "soft=1 hard=0", 4_500_000}},
		{"soft", told{"allowed", "soft", "", "soft=0", 0}},
		{"hard soft again rich", told{"limited:hard", "soft hard", "", "soft=0 again=0 hard=0", 3_500_000}},
		{"again rich", told{"over:again", "purse", "", "again=0 purse=3", 0}},
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

// TestOverRemembered: a remembered rejection is asked about along with what has to be asked, in one
// round trip. Without anything else it concludes, and so does one whose purse is remembered as empty.
func TestOverRemembered(t *testing.T) {
	t.Parallel()
	w := newOverWorld(t, "allow")
	w.ask("soft")
	w.ask("paid rich")
	for range 2 {
		w.ask("paid rich")
	}
	for _, step := range []struct {
		rules string
		want  told
	}{
		{"soft", told{"over:soft", "soft", "x-over: soft", "soft=0", 0}},
		{"soft", told{"over:soft", "", "x-over: soft", "soft=0", 0}},
		{"soft hard", told{"over:soft", "soft hard", "x-over: soft", "soft=0 hard=0", 0}},
		{"soft hard", told{"limited:hard", "soft hard", "", "soft=0 hard=0", 5 * second}},
		{"soft hard", told{"limited:hard", "", "", "soft=0 hard=0", 5 * second}},
		{"paid rich", told{"limited:purse", "paid|purse", "", "paid=0 purse=1", 10 * second}},
		{"paid rich", told{"limited:purse", "", "", "paid=0 purse=1", 10 * second}},
		{"paid rich soft", told{"limited:purse", "", "", "soft=0 paid=0 purse=1", 10 * second}},
		{"paid soft", told{"limited:paid", "soft paid", "", "soft=0 paid=0", 30 * second}},
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
			"again rich": "limited:again",
		},
		"deny": {"soft": "over:soft", "also hard": "failed:deny", "again rich": "limited:again"},
		"local": {
			"soft": "over:soft", "also hard": "over:also", "again rich": "limited:again", "paid rich": "local:allowed",
		},
	} {
		w := newOverWorld(t, mode)
		w.ask("soft")
		w.ask("soft") // is remembered
		w.down = true
		for rules, outcome := range want {
			got := w.ask(rules)
			testenv.Same(t, mode+", "+rules, got.outcome, outcome)
			set := strings.HasPrefix(outcome, "over") || outcome == "failed:allow" // a 503 sets none
			testenv.Same(t, mode+", "+rules+": headers set", got.set != "", set)
		}
	}
}

// TestOverInTheEmbeddedStore: if it has rejected the rule, it is asked for the purse.
func TestOverInTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	w := newOverWorld(t, "local")
	w.down = true
	for i, outcome := range []string{
		"local:allowed", "over:paid", "over:paid", "local:limited:purse",
	} {
		testenv.Same(t, "request "+strconv.Itoa(i), w.ask("paid rich").outcome, outcome)
	}
}

// TestPurseUndecided: a purse that Redis does not decide leaves the rejection as it is, in every
// mode, and is given back what it turns out to have been charged.
func TestPurseUndecided(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"allow", "deny", "local"} {
		w := newOverWorld(t, mode)
		q := w.begin(asks("again rich"))
		w.send(q)
		w.hear(func() { q.Expired(1, w.now.SteadyMicros) })
		testenv.Same(t, mode+": outcome", w.worker.display.text(q.verdict), "limited:again")
		purse := w.flying[0]
		w.answer()
		testenv.Same(t, mode+": charged", purse.charged, 2)
		testenv.Same(t, mode+": given back", purse.given, 2)
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
	w.hear(func() {
		q.Expired(0, w.now.SteadyMicros)
		q.Expired(1, w.now.SteadyMicros)
	})
	testenv.Same(t, "outcome", w.worker.display.text(q.verdict), "failed:allow")
	testenv.SameList(t, "headers", w.requests[q].set, []string{"x-over: soft"})
	late := w.flying[0]
	w.states = map[string][]algo.State{} // Redis has lost its data
	w.answer()
	testenv.Same(t, "charged", late.charged, 1)
	testenv.Same(t, "given back", late.given, 1)
}

// TestClientLeavesBeforeItsPurse: the purse of a client that has left is not asked; of one that
// leaves later the charge stands.
func TestClientLeavesBeforeItsPurse(t *testing.T) {
	t.Parallel()
	w := newOverWorld(t, "allow")
	w.ask("paid rich")
	gone := w.begin(asks("paid rich"))
	w.send(gone)
	w.endStream(gone)
	testenv.Same(t, "asked", w.answer(), "paid")
	testenv.Same(t, "asked then", len(w.flying), 0)
	later := w.begin(asks("again rich"))
	w.send(later)
	w.endStream(later)
	purse := w.flying[0]
	w.answer()
	testenv.Same(t, "charged", purse.charged, 2)
	testenv.Same(t, "given back", purse.given, 0)
}

// TestOverKeptBack: whoever is kept back past the bound and is remembered as over goes on with the
// headers, or is rejected where there is a purse.
func TestOverKeptBack(t *testing.T) {
	t.Parallel()
	for rules, outcome := range map[string]string{"soft": "over:soft", "paid rich": "limited:paid"} {
		w := newOverWorld(t, "allow")
		w.stores.burst.begin()
		w.ask(rules)
		q := w.begin(asks(rules))
		w.ask(rules)
		q.arrivedMicros, q.overdue = 1, true
		w.worker.purses.expect(q)
		q.giveUp()
		testenv.Same(t, rules+": asks", q.unpaid && w.worker.purses.pay(q, w.now), false)
		w.worker.conclude(q, w.now)
		testenv.Same(t, rules, w.worker.display.text(q.verdict), outcome)
		testenv.Same(t, rules+": the commands", len(w.flying), 0)
	}
}

// TestBlockIsNeverOver: who is blocked is rejected.
func TestBlockIsNeverOver(t *testing.T) {
	t.Parallel()
	w := newOverWorld(t, "allow")
	q := w.begin(asks("operator"))
	w.send(q)
	c := w.flying[0]
	w.flying = nil
	block := &redis.Reply{}
	block.By, block.LeftMicros = algo.ByBlock, 7*second
	w.hear(func() { c.waiter.Decided(c.index, block, w.now.SteadyMicros) })
	testenv.Same(t, "outcome", q.verdict.Outcome, answer.Blocked)
	testenv.Same(t, "wait", q.WaitMicros(), 7*second)
}

// TestShadowConfigurationIsNeverOver: under the top-level shadow nothing is set, and no purse is
// asked.
func TestShadowConfigurationIsNeverOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, strings.Replace(strings.Replace(overRules, "MODE", "allow", 1), "{", `{"mode": "shadow", `, 1))
	w.steady = true
	got := overWorld{w}.ask("also again rich")
	compareTold(t, "shadow", got, told{outcome: "shadow:also"})
}

// TestPurseHasTheRestOfTheTimeout: the second round trip is a part of the first one's time.
func TestPurseHasTheRestOfTheTimeout(t *testing.T) {
	t.Parallel()
	w := newOverWorld(t, "allow")
	w.ask("paid rich")
	q := w.begin(asks("paid rich"))
	w.send(q)
	w.pass(30_000)
	testenv.Same(t, "asked", w.answer(), "paid")
	testenv.SameList(t, "waited before each command", w.kept[len(w.kept)-1:], []int64{30_000})
}

// TestPurseIsSettled: the purse that paid is settled when the request is over.
func TestPurseIsSettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, `{"redis": {"cluster": "redis"}, "rules": [
		{"name": "r", "limits": [{"algorithm": "fixed_window", "limit": 0, "window": "1h"}], "over": {"charge": "p"}},
		{"name": "p", "only": "over", "cost": 5, "settle": {"status": ["2xx"]},
			"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 9, "window": "1h"}]}]}`)
	w.steady = true
	for _, status := range []int64{200, 500} {
		q := w.begin(headers{})
		w.send(q)
		call := w.flying[0]
		overWorld{w}.answer()
		resp := &response{came: true, status: status}
		w.worker.Responds(q, resp)
		w.leave(w.requests[q])
		w.worker.Ends(q, resp, w.now)
		back := map[int64]int64{200: 0, 500: 5}[status]
		testenv.Same(t, "given back after "+strconv.FormatInt(status, 10), call.given, back)
		w.states = map[string][]algo.State{}
	}
}
