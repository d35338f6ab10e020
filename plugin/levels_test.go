package main

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// orgRule counts for an organisation and for each of its users.
const orgRule = `{"name": "org", "key": [{"header": "x-client"}], "limits": [
	{"algorithm": "fixed_window", "limit": 4, "window": "1h", "anchor": "first_request", "name": "all"},
	{"algorithm": "fixed_window", "limit": 2, "window": "1h", "anchor": "first_request", "name": "user",
		"per": [{"header": "x-user"}, {"header": "x-device", "default": "-"}]}]}`

// from are the headers of a user of client x.
func from(user string) []string { return append(client("x"), "x-user", user) }

// waits go by Redis' own clock.
var waits = regexp.MustCompile(`"retry_after":\d+`)

// TestRejectedStateOfValues: filter state says by which values a limit with "per" has rejected, and none
// for a limit without.
func TestRejectedStateOfValues(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(orgRule))
		for n, step := range []struct {
			user, outcome, state string
		}{
			{"ann", "allowed", ""},
			{"ann", "allowed", ""},
			{"ann", "limited:org", `{"limit":"user","identity":"x","per":"ann|-","retry_after":R}`},
			{"b b", "allowed", ""},
			{"b b", "allowed", ""},
			{"cy", "limited:org", `{"limit":"all","identity":"x","retry_after":R}`},
		} {
			x := i.get("/", from(step.user)...)
			r.settle()
			what := fmt.Sprintf("request %d, %s: ", n+1, step.user)
			testenv.Same(t, what+"the outcome", x.outcome(), step.outcome)
			state := waits.ReplaceAllString(string(x.FilterState["wasm.sluice.rejected"]), `"retry_after":R`)
			testenv.Same(t, what+"the state", state, step.state)
			x.end()
		}
	})
}

// TestPerInATierOfAnOverride: a tier that an operator has set brings limits with "per", whose values are
// read when its name is heard, and leaves them with the override.
func TestPerInATierOfAnOverride(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(`{"redis": {"cluster": "redis"}, "deny_cache": {"size": 0}, "rules": [
			{"name": "a", "key": [{"header": "x-client"}], "overrides": true, "limits_by": {"default": "free", "values": {
			"free": [{"algorithm": "fixed_window", "limit": 1, "window": "366d", "anchor": "first_request"}],
			"pro": [{"algorithm": "fixed_window", "limit": 2, "window": "366d", "anchor": "first_request", "name": "user",
				"per": [{"header": "x-user"}]}]}}}]}`)
		for n, step := range []struct {
			set, user, want string
		}{
			{"", "ann", "allowed"},
			{"", "bob", "limited:a"},
			{"tier:pro", "ann", "allowed"},
			{"tier:pro", "ann", "allowed"},
			{"tier:pro", "ann", "limited:a"},
			{"tier:pro", "bob", "allowed"},
			{"tier:pro", "", "allowed"}, // the tier has no limit for a request without a user
			{"limits:user=3", "bob", "limited:a"},
			{"", "cy", "limited:a"},
		} {
			w.clock.advance(time.Second)
			r.override(overrideOfX, step.set, 0)
			headers := from(step.user)
			if step.user == "" {
				headers = client("x")
			}
			x := i.get("/", headers...)
			r.settle()
			testenv.Same(t, fmt.Sprintf("request %d, %q, %s", n+1, step.set, step.user), x.outcome(), step.want)
			x.end()
		}
	})
}

// TestSeveralSlotsInOneCheck: a request takes a slot of its organisation and one of its user, in one
// call, or neither, and gives back both.
func TestSeveralSlotsInOneCheck(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(`{"redis": {"cluster": "redis"}, "deny_cache": {"size": 0}, "rules": [
			{"name": "f", "key": [{"header": "x-client"}], "limits": [
			{"algorithm": "concurrency", "limit": 2, "ttl": "1h", "name": "all"},
			{"algorithm": "concurrency", "limit": 1, "ttl": "1h", "name": "user", "per": [{"header": "x-user"}]}]}]}`)
		const all, user = "rl:{f|x}:concurrency", "rl:{f|x}:concurrency:per:user|"
		held := map[string]*exchange{}
		for n, step := range []struct {
			begins, ends string
			outcome      string
			all, ann     int64 // slots that are taken
		}{
			{begins: "ann", outcome: "allowed", all: 1, ann: 1},
			{begins: "ann", outcome: "limited:f", all: 1, ann: 1},
			{begins: "bob", outcome: "allowed", all: 2, ann: 1},
			{begins: "cy", outcome: "limited:f", all: 2, ann: 1},
			{ends: "ann", all: 1},
			{begins: "cy", outcome: "allowed", all: 2},
			{ends: "bob", all: 1},
			{ends: "cy"},
		} {
			if step.ends != "" {
				held[step.ends].end()
			} else {
				x := i.get("/", from(step.begins)...)
				r.settle()
				testenv.Same(t, fmt.Sprintf("step %d", n+1), x.outcome(), step.outcome)
				if x.Local == nil {
					held[step.begins] = x
				}
			}
			r.settle()
			i.wait(10 * time.Millisecond)
			r.settle()
			for key, want := range map[string]int64{all: step.all, user + "ann": step.ann} {
				taken := r.client().ZCard(context.Background(), key).Val()
				testenv.Same(t, fmt.Sprintf("step %d: slots of %s", n+1, key), taken, want)
			}
		}
	})
}

// TestGuaranteeIsRemembered: whom guarantee and pool have refused is refused again without a call, as
// long as the shorter of the two waits. Other tenants are asked about, and so is another cost.
func TestGuaranteeIsRemembered(t *testing.T) {
	t.Parallel()
	for name, class := range map[string]string{
		"one class": ``,
		"classes":   `, "ceiling": {"source": {"header": "x-class"}, "values": {"a": 100, "b": 50}, "default": "a"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				r := w.startRedis()
				i := w.load(withRedis(`{"name": "fleet", "key": [],
					"cost": {"header": "x-cost", "default": 1, "max": 2}, "limits": [
					{"name": "pool", "algorithm": "gcra", "limit": 4, "window": "4h", "burst": 4` + class + `},
					{"name": "tenant", "algorithm": "gcra", "limit": 2, "window": "1h", "burst": 2,
						"per": [{"header": "x-tenant"}], "guarantee": true}]}`))
				for n, step := range []struct {
					tenant, cost, outcome string
					remembered            bool
				}{
					{"f", "1", "allowed", false},
					{"f", "1", "allowed", false},
					{"f", "1", "allowed", false},
					{"f", "1", "allowed", false},
					{"f", "1", "limited:fleet", false},
					{"f", "1", "limited:fleet", true},
					{"b", "1", "allowed", false},
					{"f", "1", "limited:fleet", true},
					{"f", "2", "limited:fleet", false},
				} {
					x := i.get("/", "x-tenant", step.tenant, "x-cost", step.cost)
					what := fmt.Sprintf("request %d, of %q at %s: ", n+1, step.tenant, step.cost)
					testenv.Same(t, what+"decided at once", x.Local != nil, step.remembered)
					r.settle()
					testenv.Same(t, what+"the outcome", x.outcome(), step.outcome)
					x.end()
				}
			})
		})
	}
}
