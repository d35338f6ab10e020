package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// simRule is a rule that a simulation may have, and what its requests are worth there.
type simRule struct {
	Name string
	// Text is the rule, but for its name. In simRules, what stands between < and > is drawn, see draw.
	Text string
	// Total is how much may be admitted in a run of less than the window; 0: not checked.
	Total int64
	Rate  int64 `json:",omitempty"` // of a second: how much more may be admitted as time goes on; 0: as a limit of a day
	// Listed: users may read what is left of it.
	Listed bool `json:",omitempty"`

	// asks is what requests may bring, of which the first makes the rule apply; nil: it applies to all. It is
	// a header, or the value of a query parameter, "?name=value", or of a cookie, ";name=value".
	asks []string
	// shared: all users are one identity.
	shared bool
	// counted: what Redis has charged must be what the admitted were worth.
	counted bool
	cost    func(r *simRequest) int64 // nil: 1
	worth   func(r *simRequest) int64 // of one that was admitted; nil: the cost
	// over is the header that requests get that are over; empty: they are rejected.
	over string
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

// tierOf is the tier that a user has of the rule "accounts", for ever.
func tierOf(user string) string {
	return []string{"free", "pro", "ours"}[int(user[len(user)-1])%3]
}

// costOfContract is what a request costs by the tier of its user.
func costOfContract(q *simRequest) int64 {
	if tierOf(q.user) != "pro" {
		return q.cost
	}
	return cmp.Or(map[string]int64{"-": 1, "pro": 3}[q.plan], 2) // of no plan the expression has no value
}

// algorithms are all of them.
var algorithms = []string{
	`"algorithm": "fixed_window"`,
	`"algorithm": "sliding_window_log"`,
	`"algorithm": "fixed_window", "anchor": "first_request"`,
	`"algorithm": "sliding_window_counter"`,
	`"algorithm": "sliding_window_counter", "sub_windows": 6`,
	`"algorithm": "gcra"`,
	`"algorithm": "token_bucket"`,
	`"algorithm": "leaky_bucket"`,
	`"algorithm": "token_bucket", "refill": "step"`,
}

const (
	user    = `"key": [{"header": "x-user"}]`
	perUser = `"per": [{"header": "x-user"}]`
	costed  = `, "cost": {"header": "x-cost", "default": 1, "max": 4}`
	plenty  = `{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1000000, "window": "1d"`
	plan    = `<if coin>{"header": "x-plan"}<else>{"expr": "request.headers['x-plan']"}<end>`

	leased   = "hot" // the rule whose leases are accounted for
	maxUnits = 8     // the most that a worker leases at once
	maxSize  = 16    // the largest limit that a request brings
	atOnce   = `{"algorithm": "concurrency", "limit": 12, "ttl": "5m"`
)

// simRules are all rules that chance chooses from. The first is always there.
var simRules = []simRule{
	{Name: "ledger", counted: true, cost: costOf, Text: user + costed + `, "limits": [` + plenty + `}]`},
	{Name: "quota", counted: true, Text: user + `, "limits": [
		{<algorithm>, "limit": <total 1 (few 2 1200)>, "window": "1d"}]`},
	{Name: "user", counted: true, Text: user + `, "limits": [{<algorithm>, "limit": <n 1 60>, "window": "96ms"}]`},
	{Name: "two", counted: true, cost: costOf, Text: `<on "x-two">, ` + user + costed + `, "limits": [
		{<algorithm>, "limit": <n 4 63>, "window": "480ms"}, {<algorithm>, "limit": <n 20 419>, "window": "6s"}]`},
	{Name: "flight", Text: user + `, "limits": [
		{"algorithm": "concurrency", "limit": 12, "ttl": "<pick "5m" "30s" "10s">"}]`},
	{Name: "tokens", counted: true, cost: costOf, worth: tokensOf, Text: `<on "x-ai">, ` + user + costed + `, "limits": [
		{<algorithm>, "limit": 4000, "window": "6s"}],
		"settle": {"cost": {"header": "x-tokens", "max": 8}, "missing": "release"}`},
	{Name: "login", counted: true, cost: costOf, worth: keepsOn, Text: `<on "x-login">, ` + user + costed + `, "limits": [
		{<algorithm>, "limit": <n 30 229>, "window": "480ms"}], "settle": {"status": ["401"]}`},
	{Name: "line", counted: true, shared: true, Text: `<on "x-line">, "limits": [
		{"algorithm": "leaky_bucket", "limit": 100, "window": "1s", "burst": 12, "overflow": "queue",
			"max_delay": "120ms"}]`},
	{Name: "burst", counted: true, shared: true, Text: `<on "x-line">, "limits": [
		{"algorithm": "gcra", "limit": 100, "window": "1s", "burst": 6, "overflow": "queue", "max_wait": "120ms"},
		{"algorithm": "token_bucket", "limit": 30, "window": "240ms", "burst": 40, "overflow": "queue",
			"max_wait": "90ms"},
		{"algorithm": "token_bucket", "limit": 200, "window": "96ms", "burst": 300, "refill": "step"}]`},
	{Name: "terms", Text: `<on "x-terms">, ` + user + `, "limits": [{<algorithm>, "limit": <n 1 40>, "window": "96ms"}],
		"overrides": true, "penalty": {"after": 4, "within": "1s", "for": ["40ms", "200ms"]}`},
	{Name: "contracts", cost: costOf, Text: user + costed + `, "overrides": true, "limits_by": {
		"default": "free", "values": {"free": [{<algorithm>, "limit": <n 4 43>, "window": "96ms"}],
		"pro": [{<algorithm>, "limit": 50, "window": "480ms"}, {<algorithm>, "limit": 30, "window": "96ms"},
			` + atOnce + `}],
		"ours": "unlimited"}}`},
	{Name: "days", counted: true, Text: user + `, "limits": [
		{"algorithm": "fixed_window", "limit": 1000000, "window": "day", "timezone": "Europe/Berlin"},
		{<algorithm>, "limit": 1000000, "window": "1m"}]`},
	{Name: "tiers", over: "x-over-tiers", Text: user + `, "limits_by": {"source": {"header": "x-plan"}, "values": {
		"free": [{<algorithm>, "limit": <n 1 9>, "window": "96ms"}],
		"pro": [{<algorithm>, "limit": 500, "window": "480ms"}],
		"ours": "unlimited"}, "default": "free"}<if coin>, "over": {"set_headers": {"x-over-tiers": "1"}}<end>`},
	{Name: "claims", counted: true, Total: maxSize, Text: `<on "x-claims">, ` + user + `, "limits": [
		{<algorithm>, "limit": {"header": "x-limit", "default": 500, "max": 1000}, "window": "1d"}]`},
	{Name: "expressed", asks: []string{"x-expr"}, Text: `"match": {"expr": "request.headers['x-expr'] == '1'"}, ` + user +
		`, "limits": [{<algorithm>, "limit": <n 1 90>, "window": "96ms"}]`},
	{Name: "asked", counted: true, asks: []string{"?asked=1", "?asked=2"}, Text: `"match": {"query": {"asked": "1"}}, ` +
		user + `, "limits": [{<algorithm>, "limit": <n 1 60>, "window": "96ms"}]`},
	{Name: "baked", counted: true, asks: []string{";baked=1", ";baked=2"}, Text: `"match": {
		"not": {"cookies": {"baked": {"suffix": "2"}}}, "cookies": {"baked": {"present": true}}}, ` +
		user + `, "limits": [{<algorithm>, "limit": <n 1 60>, "window": "96ms"}]`},
	{Name: "trial", Text: `"mode": "shadow", ` + user + `, "limits": [{<algorithm>, "limit": <n 1 9>, "window": "96ms"}]`},

	{Name: leased, counted: true, shared: true, Text: `<on "x-hot">, "limits": [
		{"algorithm": "fixed_window", "anchor": "first_request", "limit": <total 1 (n 100 8100)>, "window": "1d",
			"lease": {"units": <n 2 8>, "ttl": "400ms"}}]`},
	{Name: "warm", shared: true, Total: 20, Rate: 200, Text: `<on "x-hot">, "limits": [
		{"algorithm": "gcra", "limit": 200, "window": "1s", "burst": 20, "lease": {"units": <n 2 8>, "ttl": "400ms"}}]`},

	{Name: "soft", counted: true, over: "x-over-soft", Text: `<on "x-soft">, ` + user + `, "limits": [
		{<algorithm>, "limit": <n 1 40>, "window": "480ms"}], "over": {"set_headers": {"x-over-soft": "1"}}`},
	{Name: "plan", counted: true, cost: costOf, Text: `<on "x-paid">, ` + user + costed + `, "limits": [
		{<algorithm>, "limit": <total 1 (few 2 1200)>, "window": "1d"}],
		"over": {"set_headers": {"x-over-plan": "1"}, "limits": [
		{<algorithm>, "limit": <total 1 (n 100 8100)>, "window": "1d"}<if coin>, {<algorithm>, "limit": <n 100 8100>,
			"window": "1m", "name": "credits of plan", "per": [{"expr": "request.headers['x-plan']"}]}<end>]}`},

	// Rules that count parts of an identity, have classes, and guarantee shares.
	{Name: "levels", counted: true, shared: true, cost: costOf, worth: keepsOn, Text: `"settle": {"status": ["401"]}` +
		costed + `, "limits": [` + plenty + `, "name": "all"},
		{<algorithm>, "limit": <n 4 63>, "window": "96ms", "name": "of user", ` + perUser + `},
		{<algorithm>, "limit": <n 40 439>, "window": "480ms", "name": "of plan", "per": [` + plan + `]}]`},
	{Name: "classes", counted: true, shared: true, cost: costOf, Text: `"key": []` + costed + `, "limits": [
		{<algorithm>, "limit": <total 1 (few 2 1200)>, "window": "1d", "ceiling": {"source": {"header": "x-plan"},
			"values": {"pro": 100, "free": 80, "other": 50}, "default": "other"}}]`},
	{Name: "berths", shared: true, Text: `"limits": [
		{"algorithm": "concurrency", "limit": 300, "ttl": "5m", "name": "all berths"},
		` + atOnce + `, "name": "berths of user", ` + perUser + `}]`},
	{Name: "fleet", counted: true, shared: true, Text: `"limits": [
		{"name": "pool", "algorithm": "gcra", "limit": <rate (n 20 419)>, "window": "1s", "burst": <total 2 (n 4 63)>},
		{"name": "share", "algorithm": "token_bucket", "limit": <n 20 200>, "window": "1s", "burst": <n 10 60>,
			` + perUser + `, "guarantee": true}]`},
	{Name: "tenants", counted: true, Text: user + `, "limits": [
		{"name": "tenants' pool", "algorithm": "gcra", "limit": <total 1 (n 12 40)>, "window": "1d"},
		{"name": "plan's share", "algorithm": "token_bucket", "limit": <total 3 (n 2 4)>, "window": "1d",
			"per": [{"header": "x-plan"}], "guarantee": true}]`}, // three plans have a share

	// Rules of which each user has a tier for ever, see simulation.contract.
	{Name: "accounts", counted: true, cost: costOfContract, Text: user + `, "overrides": true,
		"cost": {"expr": "request.headers['x-cost']", "max": 4}, "limits_by": {"default": "free", "values": {
		"free": [` + plenty + `}],
		"pro": [` + plenty + `, "cost": {"expr": "request.headers['x-plan'] == 'pro' ? 3 : 2", "max": 4}},
			{<algorithm>, "limit": 400, "window": "480ms", "name": "accounts by class",
				"ceiling": {"source": ` + plan + `, "values": {"pro": 100, "other": 60}, "default": "other"}}],
		"ours": [` + plenty + `}, {<algorithm>, "limit": 40, "window": "96ms", "name": "accounts of plan",
			"per": [` + plan + `]}]}}`},
	{Name: "figures", counted: true, Total: maxSize, Text: user + `, "overrides": true, "limits_by": {
		"default": "free", "values": {"free": "unlimited", "pro": [{<algorithm>, "window": "1d", "limit": {
			<if coin>"header": "x-limit"<else>"expr": "int(request.headers['x-limit'])"<end>, "default": 500, "max": 1000}}]}}`},
}

// pick is one of some values.
func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// draw is a rule of simRules with what chance has decided. A small one has a window that a few requests
// fill, and that gives nothing back.
func draw(random *rand.Rand, name string, small bool) *simRule {
	r := simRules[slices.IndexFunc(simRules, func(r simRule) bool { return r.Name == name })]
	n := func(least, most int) int { return least + random.IntN(most-least+1) }
	var text strings.Builder
	err := template.Must(template.New(name).Delims("<", ">").Funcs(template.FuncMap{
		"n":    n, // from least to most
		"few":  func(least, most int) int { return n(least, n(least, most)) },
		"coin": func() bool { return random.IntN(2) == 0 },
		"pick": func(of ...string) string { return pick(random, of...) },
		"on": func(header string) string { // the rule applies to requests with the header
			r.asks = []string{header}
			return fmt.Sprintf(`"match": {"headers": {%q: {"present": true}}}`, header)
		},
		"algorithm": func() string {
			if small {
				return pick(random, algorithms[:2]...)
			}
			return pick(random, algorithms...)
		},
		"total": func(times, units int) int { // Total has the units so many times
			if small {
				units = n(2, 6)
			}
			r.Total += int64(times * units)
			return units
		},
		"rate": func(units int) int {
			r.Rate = int64(units)
			return units
		},
	}).Parse(r.Text)).Execute(&text, nil)
	if err != nil {
		panic(err)
	}
	r.Text = text.String()
	return &r
}

// kind is what a simulation is for.
type kind uint8

const (
	anything kind = iota
	crowds        // more requests than Redis is asked about, of which the failure mode admits what it may
	outages       // Redis is lost again and again, while a worker remembers whom it has rejected
	memories      // a worker remembers which class it has rejected, and for which cost
)

// kinds are those of simulations with a Redis, as often as they come.
var kinds = [12]kind{crowds, crowds, crowds, outages, memories}

// simConfig is all that chance decides before the first operation.
type simConfig struct {
	Seed          uint64 // of the plugin's own chance
	Workers       int
	WithoutTime   bool  // scripts may not call TIME
	CommandMicros int64 // how long a command takes Redis: if any time, no two charges have the same
	Redis         bool
	Timeout       time.Duration
	Modes         []string // the reloads go through them
	Pending       int64
	Failures      int // that open the breaker
	Denied        int
	Password      string
	StreamAge     string   `json:",omitempty"` // empty: as ever
	Leases        []string `json:",omitempty"` // the ttl of leases, which the reloads go through; empty: as ever
	Rules         []*simRule
}

// newSimConfig draws a configuration.
func newSimConfig(random *rand.Rand, seed uint64) (*simConfig, kind) {
	modes := []string{"deny", "allow", "local"}
	c := &simConfig{
		Seed: seed, WithoutTime: random.IntN(8) == 0, Workers: 1 + random.IntN(3), CommandMicros: 1,
		Redis: random.IntN(8) > 0, Timeout: pick[time.Duration](random, 20, 50, 120) * time.Millisecond,
		Modes: []string{pick(random, modes...)}, Pending: pick[int64](random, 1, 3, 16, 4096, 4096),
		Failures: pick(random, 4, 1000, 1000), Denied: pick(random, 0, 3, 1000),
		StreamAge: pick(random, "1s", "", ""), Leases: pick(random, []string{"400ms", "20ms"}, nil, nil),
	}
	if random.IntN(3) == 0 {
		c.Modes = append(c.Modes, pick(random, modes...))
	}
	if random.IntN(3) == 0 {
		c.Password = fmt.Sprint("s3cr3t-", random.Uint64())
	}
	k := anything
	if c.Redis {
		k = pick(random, kinds[:]...)
	}
	switch k {
	case crowds:
		c.Modes, c.Failures = []string{"allow"}, 1000
		c.Pending, c.Denied = pick[int64](random, 1, 2, 4, 16), pick(random, 0, 0, 1000)
	case outages, memories:
		c.Modes, c.Pending, c.Denied = []string{"allow"}, 4096, 1000
		c.Rules = []*simRule{draw(random, map[kind]string{outages: "quota", memories: "classes"}[k], true)}
		return c, k
	}
	tenths := pick(random, 1, 1, 1, 4, 10) // of the rules: most have few, as faults show better in them
	exceeded := []string{pick(random, crowdedRules...), pick(random, crowdedRules...)}
	for i, r := range simRules {
		leases := strings.Contains(r.Text, `"lease"`)
		needsRedis := leases || strings.Contains(r.Text, `"overrides"`)
		share := tenths
		switch {
		case k == crowds && slices.Contains(exceeded, r.Name):
			share = 10
		case k == crowds && slices.Contains(crowdedRules, r.Name):
			share = 0
		case k == crowds:
			share = 1
		case leases || len(r.asks) > 1:
			share = max(tenths, 3) // leases and repeated names have rules of their own
		}
		if i > 0 && random.IntN(10) >= share || needsRedis && !c.Redis {
			continue
		}
		rule := draw(random, r.Name, false)
		rule.Listed = random.IntN(3) == 0
		mayHaveOwn := rule.Name != "expressed" && !leases && k == anything
		if mayHaveOwn && random.IntN(6) == 0 {
			rule.Text += `, "failure": "` + pick(random, modes...) + `"`
		}
		c.Rules = append(c.Rules, rule)
	}
	random.Shuffle(len(c.Rules), func(i, j int) { c.Rules[i], c.Rules[j] = c.Rules[j], c.Rules[i] })
	if random.IntN(8) == 0 { // a rule alone remembers its rejections for longer
		c.Rules = slices.DeleteFunc(c.Rules, func(r *simRule) bool { return r.Name == "plan" })[:1]
	}
	return c, k
}

// crowdedRules are those that a crowd can exceed, as often as chance makes it one of them.
var crowdedRules = []string{"quota", "claims", "figures", "classes", "fleet", "fleet", "fleet", "tenants", "tenants"}

var configText = template.Must(template.New("configuration").Parse(`{"headers": ["x-ratelimit", "draft"],
{{if .Redis}}"redis": {"cluster": "redis", "timeout": "{{.Timeout}}"
	{{with .Password}}, "password": "{{.}}", "database": 3{{end}}{{with .StreamAge}}, "max_stream_age": "{{.}}"{{end}}},
"failure": {"mode": "{{.Mode}}", "max_pending": {{.Pending}},
	"breaker": {"failures": {{.Failures}}, "min_open": "20ms", "max_open": "100ms"}},
"deny_cache": {"size": {{.Denied}}},
{{end}}{{with .Quota}}"quota": {"path": "/.well-known/quota", "rules": [{{.}}]},
{{end}}"rules": [{{range $i, $r := .Rules}}{{if $i}},
	{{end}}{"name": "{{.Name}}", {{.Text}}}{{end}}]}`))

// text is the configuration as Envoy gets it, after so many reloads.
func (c *simConfig) text(reloads int) string {
	var listed []string
	for _, r := range c.Rules {
		if r.Listed {
			listed = append(listed, strconv.Quote(r.Name))
		}
	}
	var text strings.Builder
	err := configText.Execute(&text, struct {
		*simConfig
		Mode, Quota string
	}{c, c.Modes[reloads%len(c.Modes)], strings.Join(listed, ", ")})
	if err != nil {
		panic(err)
	}
	if len(c.Leases) == 0 {
		return text.String()
	}
	return strings.ReplaceAll(text.String(), `"ttl": "400ms"`, fmt.Sprintf(`"ttl": %q`, c.Leases[reloads%len(c.Leases)]))
}
