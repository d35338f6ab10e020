package main

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// simRule is a rule that a simulation may have, and what its requests are worth there.
type simRule struct {
	name string
	// text is the rule, but for its name and what chance adds.
	text string
	// header is the header that makes the rule apply; empty: it applies to all requests.
	header string
	// named is a query parameter, "?name", or a cookie, ";name", that makes the rule apply where its value
	// is 1, or is not known.
	named string
	// shared: all users are one identity.
	shared bool
	// listed: users may read what is left of it.
	listed bool
	// counted: what Redis has charged must be what the admitted were worth.
	counted bool
	cost    func(r *simRequest) int64 // nil: 1
	worth   func(r *simRequest) int64 // of one that was admitted; nil: the cost
	// over is the header that requests get that are over; empty: they are rejected.
	over string
	// total is how much may be admitted in a run of less than the window; 0: not checked.
	total int64
	rate  int64 // of a second: how much more may be admitted as time goes on; 0: as a limit of a day
}

func costOf(r *simRequest) int64 { return r.cost }

// tokensOf is the settled cost of a reservation: it stands where no answer came.
func tokensOf(r *simRequest) int64 {
	switch {
	case r.cost == 0 || r.status == "":
		return r.cost
	case r.tokens >= 0:
		return min(r.tokens, 8)
	}
	return 0 // missing: release
}

// keepsOn is the settled cost by status.
func keepsOn(r *simRequest) int64 {
	if r.status == "" || r.status == "401" {
		return r.cost
	}
	return 0
}

const user = `"key": [{"header": "x-user"}]`

// anyLimit is a limit of any algorithm with these numbers.
func anyLimit(random *rand.Rand, limit int64, window string) string {
	return fmt.Sprintf([]string{
		`{"algorithm": "fixed_window", "limit": %d, "window": %q}`,
		`{"algorithm": "fixed_window", "anchor": "first_request", "limit": %d, "window": %q}`,
		`{"algorithm": "sliding_window_log", "limit": %d, "window": %q}`,
		`{"algorithm": "sliding_window_counter", "limit": %d, "window": %q}`,
		`{"algorithm": "sliding_window_counter", "sub_windows": 6, "limit": %d, "window": %q}`,
		`{"algorithm": "gcra", "limit": %d, "window": %q}`,
		`{"algorithm": "token_bucket", "limit": %d, "window": %q}`,
		`{"algorithm": "leaky_bucket", "limit": %d, "window": %q}`,
		`{"algorithm": "token_bucket", "refill": "step", "limit": %d, "window": %q}`,
	}[random.IntN(9)], limit, window)
}

// having gives a limit fields more.
func having(limit, fields string) string { return "{" + fields + ", " + limit[1:] }

const perUser = `"per": [{"header": "x-user"}]`

// levels are rules that count parts of an identity, have classes, and guarantee shares.
func levels(random *rand.Rand) []*simRule {
	part, rate, burst := 2+random.Int64N(9)*random.Int64N(300), 20+random.Int64N(400), 4+random.Int64N(60)
	pool, share := 4+random.Int64N(30), 1+random.Int64N(4)
	return []*simRule{
		{
			name: "levels", counted: true, shared: true, cost: costOf, worth: keepsOn,
			text: `"key": [], "cost": {"header": "x-cost", "default": 1, "max": 4}, "settle": {"status": ["401"]}, "limits": [
				{"name": "all", "algorithm": "fixed_window", "anchor": "first_request", "limit": 1000000, "window": "1d"}, ` +
				having(anyLimit(random, 4+random.Int64N(60), "96ms"), `"name": "of user", `+perUser) + `, ` +
				having(anyLimit(random, 40+random.Int64N(400), "480ms"), `"name": "of plan", "per": [`+
					[]string{`{"header": "x-plan"}`, `{"expr": "request.headers['x-plan']"}`}[random.IntN(2)]+`]`) + `]`,
		},
		{
			name: "classes", counted: true, shared: true, total: part, cost: costOf,
			text: `"key": [], "cost": {"header": "x-cost", "default": 1, "max": 4}, "limits": [` + having(
				anyLimit(random, part, "1d"),
				`"ceiling": {"source": {"header": "x-plan"},
				"values": {"pro": 100, "free": 80, "other": 50}, "default": "other"}`,
			) + `]`,
		},
		{name: "berths", shared: true, text: `"key": [], "limits": [
			{"name": "all berths", "algorithm": "concurrency", "limit": 300, "ttl": "5m"},
			{"name": "berths of user", "algorithm": "concurrency", "limit": 12, "ttl": "5m", ` + perUser + `}]`},
		{
			name: "fleet", counted: true, shared: true, total: 2 * burst, rate: rate,
			text: fmt.Sprintf(`"key": [], "limits": [
				{"name": "pool", "algorithm": "gcra", "limit": %d, "window": "1s", "burst": %d},
				{"name": "share", "algorithm": "token_bucket", "limit": %d, "window": "1s", "burst": %d, %s,
					"guarantee": true}]`, rate, burst, 1+rate/6, 1+burst/4, perUser),
		},
		{ // three plans have a share
			name: "tenants", counted: true, total: min(2*pool, pool+3*share), text: fmt.Sprintf(user+`, "limits": [
				{"name": "tenants' pool", "algorithm": "gcra", "limit": %d, "window": "1d"},
				{"name": "plan's share", "algorithm": "token_bucket", "limit": %d, "window": "1d",
					"per": [{"header": "x-plan"}], "guarantee": true}]`, pool, share),
		},
	}
}

// sizedBy gives a limit the number that comes with a request.
func sizedBy(limit, from string) string {
	return strings.Replace(limit, fmt.Sprintf(`"limit": %d`, maxSize),
		`"limit": {`+from+`, "default": 500, "max": 1000}`, 1)
}

// contractRules are rules of which each user has a tier for ever, see simulation.contract.
func contractRules(random *rand.Rand) []*simRule {
	const paid = `{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1000000, "window": "1d"`
	of := []string{`{"header": "x-plan"}`, `{"expr": "request.headers['x-plan']"}`}[random.IntN(2)]
	return []*simRule{
		{
			name: "accounts", counted: true, cost: costOfContract, text: user + `, "overrides": true, "cost":
				{"expr": "request.headers['x-cost']", "max": 4}, "limits_by": {"default": "free", "values": {
				"free": [` + paid + `}],
				"pro": [` + paid + `, "cost": {"expr": "request.headers['x-plan'] == 'pro' ? 3 : 2", "max": 4}}, ` +
				having(anyLimit(random, 400, "480ms"), `"name": "accounts by class", "ceiling": {"source": `+of+`,
				"values":
				{"pro": 100, "other": 60}, "default": "other"}`) + `],
				"ours": [` + paid + `}, ` + having(anyLimit(random, 40, "96ms"),
				`"name": "accounts of plan", "per": [`+of+`]`) + `]}}`,
		},
		{
			name: "figures", counted: true, total: maxSize, text: user + `, "overrides": true, "limits_by": {
				"default": "free", "values": {"free": "unlimited", "pro": [` +
				sizedBy(anyLimit(random, maxSize, "1d"), []string{
					`"header": "x-limit"`, `"expr": "int(request.headers['x-limit'])"`,
				}[random.IntN(2)]) + `]}}`,
		},
	}
}

// tierOf is the tier that a user has of the rule "accounts".
func tierOf(user string) string {
	return []string{"free", "pro", "ours"}[int(user[len(user)-1])%3]
}

// costOfContract is what a request costs by the tier of its user.
func costOfContract(q *simRequest) int64 {
	if tierOf(q.user) != "pro" {
		return q.cost
	}
	switch q.plan {
	case "-": // the expression has no value
		return 1
	case "pro":
		return 3
	}
	return 2
}

// maxUnits is the most that a worker leases at once.
const maxUnits = 8

// simRules are all rules that chance chooses from. The first is always there.
func simRules(random *rand.Rand) []*simRule {
	quota, hot := 2+random.Int64N(9)*random.Int64N(300), 100+random.Int64N(8000)
	ttl := func() string { return []string{"5m", "30s", "10s"}[random.IntN(3)] }
	return append([]*simRule{
		{name: "ledger", counted: true, cost: costOf, text: user + `, "cost": {"header": "x-cost", "default": 1, "max": 4},
			"limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1000000, "window": "1d"}]`},
		{name: "quota", counted: true, total: quota, text: user + `, "limits": [` + anyLimit(random, quota, "1d") + `]`},
		{name: "user", counted: true, text: user + `, "limits": [` + anyLimit(random, 1+random.Int64N(60), "96ms") + `]`},
		{
			name: "two", counted: true, cost: costOf, header: "x-two",
			text: user + `, "cost": {"header": "x-cost", "default": 1, "max": 4}, "limits": [` +
				anyLimit(random, 4+random.Int64N(60), "480ms") + `, ` + anyLimit(random, 20+random.Int64N(400), "6s") + `]`,
		},
		{name: "flight", text: user + `, "limits": [{"algorithm": "concurrency", "limit": 12, "ttl": "` + ttl() + `"}]`},
		{
			name: "tokens", counted: true, cost: costOf, worth: tokensOf, header: "x-ai",
			text: user + `, "cost": {"header": "x-cost", "default": 1, "max": 4}, "limits": [` +
				anyLimit(random, 4000, "6s") + `], "settle": {"cost": {"header": "x-tokens", "max": 8}, "missing": "release"}`,
		},
		{
			name: "login", counted: true, cost: costOf, worth: keepsOn, header: "x-login",
			text: user + `, "cost": {"header": "x-cost", "default": 1, "max": 4}, "limits": [` +
				anyLimit(random, 30+random.Int64N(200), "480ms") + `], "settle": {"status": ["401"]}`,
		},
		{name: "line", counted: true, header: "x-line", shared: true, text: `"key": [], "limits": [
			{"algorithm": "leaky_bucket", "limit": 100, "window": "1s", "burst": 12, "overflow": "queue",
				"max_delay": "120ms"}]`},
		{name: "burst", counted: true, header: "x-line", shared: true, text: `"key": [], "limits": [
			{"algorithm": "gcra", "limit": 100, "window": "1s", "burst": 6, "overflow": "queue", "max_wait": "120ms"},
			{"algorithm": "token_bucket", "limit": 30, "window": "240ms", "burst": 40, "overflow": "queue",
				"max_wait": "90ms"},
			{"algorithm": "token_bucket", "limit": 200, "window": "96ms", "burst": 300, "refill": "step"}]`},
		{name: "terms", header: "x-terms", text: user + `, "limits": [` + anyLimit(random, 1+random.Int64N(40), "96ms") +
			`], "overrides": true, "penalty": {"after": 4, "within": "1s", "for": ["40ms", "200ms"]}`},
		{
			name: "contracts", cost: costOf, text: user + `, "overrides": true, "cost": {"header": "x-cost", "default": 1,
				"max": 4}, "limits_by": {"default": "free", "values": {"free": [` + anyLimit(random, 4+random.Int64N(40), "96ms") +
				`], "pro": [` + anyLimit(random, 50, "480ms") + `, ` + anyLimit(random, 30, "96ms") +
				`, {"algorithm": "concurrency", "limit": 12, "ttl": "5m"}], "ours": "unlimited"}}`,
		},
		{
			name: "days", counted: true,
			text: user + `, "limits": [{"algorithm": "fixed_window", "limit": 1000000, "window": "day", "timezone": ` +
				`"Europe/Berlin"}, ` +
				anyLimit(random, 1000000, "1m") + `]`,
		},
		{name: "tiers", over: "x-over-tiers", text: user +
			`, "limits_by": {"source": {"header": "x-plan"}, "values": {"free": [` +
			anyLimit(random, 1+random.Int64N(9), "96ms") +
			`], "pro": [` + anyLimit(random, 500, "480ms") + `], "ours": "unlimited"}, "default": "free"}` +
			[]string{"", `, "over": {"set_headers": {"x-over-tiers": "1"}}`}[random.IntN(2)]},
		{name: "claims", counted: true, header: "x-claims", total: maxSize, text: user + `, "limits": [` +
			sizedBy(anyLimit(random, maxSize, "1d"), `"header": "x-limit"`) + `]`},
		{name: "expressed", header: "x-expr", text: `"match": {"expr": "request.headers['x-expr'] == '1'"}, ` + user +
			`, "limits": [` + anyLimit(random, 1+random.Int64N(90), "96ms") + `]`},
		{
			name: "asked", named: "?asked", counted: true, text: `"match": {"query": {"asked": "1"}}, ` + user +
				`, "limits": [` + anyLimit(random, 1+random.Int64N(60), "96ms") + `]`,
		},
		{
			name: "baked", named: ";baked", counted: true, text: `"match": {"not": {"cookies": {"baked": {"suffix": "2"}}}, ` +
				`"cookies": {"baked": {"present": true}}}, ` + user +
				`, "limits": [` + anyLimit(random, 1+random.Int64N(60), "96ms") + `]`,
		},
		{name: "trial", text: `"mode": "shadow", ` + user + `, "limits": [` + anyLimit(random, 1+random.Int64N(9),
			"96ms") + `]`},
	}, slices.Concat(leaseRules(random, hot), overRules(random, quota, hot), levels(random), contractRules(random))...)
}

// leaseRules are the rules with leases.
func leaseRules(random *rand.Rand, hot int64) []*simRule {
	units := func() int { return 2 + random.IntN(maxUnits-1) }
	return []*simRule{
		{name: "hot", counted: true, header: "x-hot", shared: true, total: hot, text: fmt.Sprintf(`"key": [{"constant": "h"}],
			"limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": %d, "window": "1d",
				"lease": {"units": %d, "ttl": "400ms"}}]`, hot, units())},
		{name: "warm", header: "x-hot", shared: true, total: 20, rate: 200, text: fmt.Sprintf(`"key": [{"constant": "w"}],
			"limits": [
			{"algorithm": "gcra", "limit": 200, "window": "1s", "burst": 20, "lease": {"units": %d, "ttl": "400ms"}}]`,
			units())},
	}
}

// overRules are the rules with an over.
func overRules(random *rand.Rand, quota, credits int64) []*simRule {
	return []*simRule{
		{
			name: "soft", counted: true, header: "x-soft", over: "x-over-soft", text: user + `, "limits": [` +
				anyLimit(random, 1+random.Int64N(40), "480ms") + `], "over": {"set_headers": {"x-over-soft": "1"}}`,
		},
		{
			name: "plan", counted: true, cost: costOf, header: "x-paid", total: quota + credits,
			text: user + `, "cost": {"header": "x-cost", "default": 1, "max": 4}, "limits": [` + anyLimit(random, quota, "1d") +
				`], "over": {"set_headers": {"x-over-plan": "1"}, "limits": [` + anyLimit(random, credits, "1d") +
				[]string{"", `, ` + having(anyLimit(random, credits, "1m"),
					`"name": "credits of plan", "per": [{"expr": "request.headers['x-plan']"}]`)}[random.IntN(2)] + `]}`,
		},
	}
}

// simConfig is the configuration of a simulation.
type simConfig struct {
	rules    []*simRule
	redis    bool
	timeout  time.Duration
	modes    []string // the reloads go through them
	pending  int64
	failures int // that open the breaker
	denied   int
	password string
	listed   []string // names of rules whose quota users may read; nil: of none

	streamAge string
	leases    []string
	kind      kind
}

// ownFailure reports whether a rule may have a failure mode of its own.
var ownFailure = func() bool {
	_, err := config.Parse([]byte(`{"rules": [{"name": "a", "failure": "deny", ` +
		`"limits": [{"algorithm": "gcra", "limit": 1, "window": "1s"}]}]}`))
	return err == nil || !strings.Contains(err.Error(), `"failure": unknown`) &&
		!strings.Contains(err.Error(), "failure: unknown")
}()

// newSimConfig draws a configuration.
func newSimConfig(random *rand.Rand) *simConfig {
	c := &simConfig{
		redis:    random.IntN(8) > 0,
		timeout:  []time.Duration{20, 50, 120}[random.IntN(3)] * time.Millisecond,
		pending:  []int64{1, 3, 16, 4096, 4096}[random.IntN(5)],
		failures: []int{4, 1000, 1000}[random.IntN(3)],
		denied:   []int{0, 3, 1000}[random.IntN(3)],
	}
	modes := []string{"deny", "allow", "local"}
	c.modes = []string{modes[random.IntN(3)]}
	if random.IntN(3) == 0 {
		c.modes = append(c.modes, modes[random.IntN(3)])
	}
	if random.IntN(3) == 0 {
		c.password = "s3cr3t-" + fmt.Sprint(random.Uint64())
	}
	tenths := []int{1, 1, 1, 4, 10}[random.IntN(5)] // of the rules: most have few, as faults show better in them
	if random.IntN(3) == 0 {
		c.streamAge = "1s"
	}
	if random.IntN(3) == 0 {
		c.leases = []string{"400ms", "20ms"}
	}
	c.addKind(random)
	c.addRules(random, tenths)
	return c
}

// kind is what a simulation is for.
type kind uint8

const (
	anything kind = iota
	crowds        // more requests than Redis is asked about, of which the failure mode admits what it may
	outages       // Redis is lost again and again, while a worker remembers whom it has rejected
	memories      // a worker remembers which class it has rejected, and for which cost
)

// addKind draws what the simulation is for.
func (c *simConfig) addKind(random *rand.Rand) {
	switch n := random.IntN(12); {
	case !c.redis:
	case n < 3:
		c.kind, c.modes, c.failures = crowds, []string{"allow"}, 1000
		c.pending, c.denied = []int64{1, 2, 4, 16}[random.IntN(4)], []int{0, 0, 1000}[random.IntN(3)]
	case n < 5:
		c.kind, c.modes, c.pending, c.denied = outages+kind(n-3), []string{"allow"}, 4096, 1000
	}
}

// crowdedRules are those that a crowd can exceed.
var crowdedRules = []string{"quota", "claims", "figures", "classes", "fleet", "tenants"}

// addRules draws the rules, and their order.
func (c *simConfig) addRules(random *rand.Rand, tenths int) {
	modes := []string{"deny", "allow", "local"}
	exceeded := []string{crowdedRules[random.IntN(len(crowdedRules))], crowdedRules[random.IntN(len(crowdedRules))]}
	for i, r := range simRules(random) {
		leases := strings.Contains(r.text, `"lease"`)
		needsRedis := leases || strings.Contains(r.text, `"overrides"`)
		share := tenths
		switch {
		case c.kind == crowds && slices.Contains(exceeded, r.name):
			share = 10
		case c.kind == crowds && slices.Contains(crowdedRules, r.name):
			share = 0
		case c.kind == crowds:
			share = 1
		case leases || r.named != "":
			share = max(tenths, 3) // leases and repeated names have rules of their own
		}
		if i > 0 && random.IntN(10) >= share {
			continue
		}
		if needsRedis && !c.redis {
			continue
		}
		c.rules = append(c.rules, r)
		mayHaveOwn := ownFailure && r.name != "expressed" && !leases && c.kind == anything
		r.listed = random.IntN(3) == 0
		if mayHaveOwn && random.IntN(6) == 0 {
			r.text += `, "failure": "` + modes[random.IntN(3)] + `"`
		}
	}
	switch c.kind {
	case outages:
		c.rules = []*simRule{smallRule("quota", random)}
		return
	case memories:
		c.rules = []*simRule{smallRule("classes", random)}
		return
	}
	random.Shuffle(len(c.rules), func(i, j int) { c.rules[i], c.rules[j] = c.rules[j], c.rules[i] })
	if random.IntN(8) == 0 { // a rule alone remembers its rejections for longer
		c.rules = slices.DeleteFunc(c.rules, func(r *simRule) bool { return r.name == "plan" })[:1]
	}
}

// smallRule is a rule of one limit, which becomes a small one that gives nothing back.
func smallRule(name string, random *rand.Rand) *simRule {
	rules := simRules(random)
	rule := rules[slices.IndexFunc(rules, func(r *simRule) bool { return r.name == name })]
	rule.total = 2 + random.Int64N(5)
	rule.text = theLimit.ReplaceAllString(rule.text, fmt.Sprintf(`"algorithm": %q, "limit": %d`,
		[]string{"fixed_window", "sliding_window_log"}[random.IntN(2)], rule.total))
	return rule
}

var theLimit = regexp.MustCompile(`"algorithm": "[a-z_]+"(, "[a-z_]+": ("[a-z_]+"|[0-9]+))?, "limit": [0-9]+`)

// readsSizes reports whether limits come with requests.
func (c *simConfig) readsSizes() bool {
	return slices.ContainsFunc(c.rules, func(r *simRule) bool { return strings.Contains(r.text, "x-limit") })
}

// usesEmbedded reports whether the embedded store may decide something in Redis' place.
func (c *simConfig) usesEmbedded() bool { return strings.Contains(c.text(0)+c.text(1), `"local"`) }

// text is the configuration as Envoy gets it, after so many reloads.
func (c *simConfig) text(reloads int) string {
	var rules []string
	for _, r := range c.rules {
		text := r.appearance()
		if len(c.leases) > 0 {
			text = strings.Replace(text, `"ttl": "400ms"`, fmt.Sprintf(`"ttl": %q`, c.leases[reloads%len(c.leases)]), 1)
		}
		rules = append(rules, fmt.Sprintf(`{"name": %q, %s}`, r.name, text))
	}
	redis := ""
	if c.redis {
		redis = fmt.Sprintf(`"redis": {"cluster": "redis", "timeout": "%dms"`, c.timeout.Milliseconds())
		if c.password != "" {
			redis += fmt.Sprintf(`, "password": %q, "database": 3`, c.password)
		}
		if c.streamAge != "" {
			redis += fmt.Sprintf(`, "max_stream_age": %q`, c.streamAge)
		}
		redis += fmt.Sprintf(`}, "failure": {"mode": %q, "max_pending": %d, `+
			`"breaker": {"failures": %d, "min_open": "20ms", "max_open": "100ms"}}, "deny_cache": {"size": %d}, `,
			c.modes[reloads%len(c.modes)], c.pending, c.failures, c.denied)
	}
	if c.listed != nil {
		redis += fmt.Sprintf(`"quota": {"path": %q, "rules": [%s]}, `, quotaPath, strings.Join(c.listed, ", "))
	}
	if c.showsClasses() {
		redis += `"headers": ["x-ratelimit", "draft"], `
	}
	return `{` + redis + `"rules": [` + strings.Join(rules, ", ") + `]}`
}

// appearance is the rule's text with what it matches.
func (r *simRule) appearance() string {
	if r.header == "" || strings.Contains(r.text, `"match"`) {
		return r.text
	}
	return fmt.Sprintf(`"match": {"headers": {%q: {"present": true}}}, %s`, r.header, r.text)
}
