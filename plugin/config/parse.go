package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config/jsonsyntax"
	"github.com/sluiceproxy/sluice/plugin/message"
)

// maxNesting bounds how deep objects and arrays may nest. The deepest field of a
// configuration stands at 9, and each "not" adds one. The functions that read
// them recurse.
//
// Bound: objects and arrays in each other. Beyond it, the configuration is refused. Protects the
// stack, which does not grow.
const maxNesting = 20

// Checks are checks that Parse cannot do by itself. A nil function finds no mistake.
type Checks struct {
	// Expression compiles a CEL text and drops the result. It returns why the
	// text does not compile, perhaps with an empty message.
	Expression func(text string) error
	// Zone reports whether the plugin knows a time zone of this IANA name.
	Zone func(name string) bool
}

// Parse reads a configuration without further checks.
func Parse(text []byte) (*Config, error) { return Checks{}.Parse(text) }

// Parse reads a configuration. The error is of type Mistakes and holds all that
// is wrong with it, not only the first.
func (c Checks) Parse(text []byte) (*Config, error) {
	r := &reader{
		checks: c, config: &Config{}, compiled: map[string]error{},
		rules: map[string]string{}, limitNames: map[string]nameOwner{}, ttls: map[string]ttlOwner{},
	}
	// RFC 8259 section 8.1 lets a parser ignore a byte order mark.
	json := strings.TrimPrefix(string(text), "\ufeff")
	if strings.Trim(json, " \t\r\n") == "" {
		r.mistake("", `the configuration is empty (want an object with "rules")`)
	} else if m, found := jsonsyntax.Find(json, maxNesting); found {
		r.mistake(message.Sprintf("line %d, column %d", m.Line, m.Column), "%s", m.Problem)
	} else {
		r.config.read((&located{r: r, json: gjson.Parse(json)}).readObject(topFields))
	}
	switch more := r.found - maxMistakes; {
	case more > 0:
		return nil, append(r.mistakes, Mistake{Problem: message.Sprintf("and %d more mistakes", more), more: more})
	case r.found > 0:
		return nil, r.mistakes
	}
	return r.config, nil
}

// DefaultKeyPrefix begins the keys in Redis of a configuration that does not say otherwise.
const DefaultKeyPrefix = "rl"

// read reads the fields of the top level.
func (c *Config) read(o object) {
	c.Headers.XRateLimit = !o.has("headers")
	if o.has("redis") {
		redis := o.object("redis")
		cluster, prefix := redis.text("cluster"), cmp.Or(redis.text("key_prefix"), DefaultKeyPrefix)
		// Every key begins with the prefix, in which a brace would move the hash tag.
		if len(prefix) > maxNameBytes || !isPrintable(prefix) || strings.ContainsAny(prefix, " {}") {
			at, _ := redis.field("key_prefix")
			at.mistake("%s cannot begin a key (want at most %d printable ASCII characters other than space, { and })",
				at.shown(), maxNameBytes)
		}
		// An empty string is like an absent field. No message shows a value.
		c.Redis = &Redis{
			Cluster: cluster, KeyPrefix: prefix, TimeoutMicros: redis.number("timeout"),
			MaxStreamAgeMicros: redis.number("max_stream_age"), Database: redis.number("database"),
			Username: redis.text("username"), Password: redis.text("password"),
			PasswordEnv: redis.variable("password_env", "REDIS_PASSWORD"),
		}
		hasPassword, hasVariable := c.Redis.Password != "", c.Redis.PasswordEnv != ""
		if hasPassword && hasVariable {
			redis.mistake(`"password" and "password_env" exclude each other (want at most one)`)
		}
		if c.Redis.Username != "" && !hasPassword && !hasVariable {
			redis.mistake(`"username" has no password (want "password" or "password_env" beside it)`)
		}
	}
	failure := o.object("failure")
	c.Failure.Mode, c.Failure.MaxPending = FailureMode(failure.number("mode")), failure.number("max_pending")
	breaker, b := failure.object("breaker"), &c.Failure.Breaker
	b.Failures = breaker.number("failures")
	b.MinOpenMicros, b.MaxOpenMicros = breaker.number("min_open"), breaker.number("max_open")
	if b.MinOpenMicros > b.MaxOpenMicros {
		breaker.mistake(`"min_open" %q is above "max_open" %q (want at most that)`,
			algo.FormatDuration(b.MinOpenMicros), algo.FormatDuration(b.MaxOpenMicros))
	}
	c.Response = get(o, "response", readResponse)
	named := [...]*bool{&c.Headers.XRateLimit, &c.Headers.Draft}
	for _, element := range o.list("headers") {
		if place, ok := element.readWord(families); ok {
			if *named[place] {
				element.mistake("%s appears twice (want it once)", element.shown())
			}
			*named[place] = true
		}
	}
	c.Headers.ResetUnix, c.RetryJitterPercent = o.is("reset"), o.number("retry_jitter")
	if o.has("top_offenders") {
		top := o.object("top_offenders")
		c.TopOffenders = &TopOffenders{Size: top.number("size"), IntervalMicros: top.number("interval")}
	}
	c.RejectedState, c.EnvoyRateLimited = o.is("rejected_state"), o.is("envoy_ratelimited")
	c.DenyCacheSize, c.Mode = o.object("deny_cache").number("size"), Mode(o.number("mode"))
	c.HashSecretEnv = o.variable("hash_secret_env", "SLUICE_HASH_SECRET")

	for _, element := range o.list("rules") {
		if rule := element.readObject(ruleFields); rule.there {
			c.Rules = append(c.Rules, *readRule(rule))
		}
	}
	if v, ok := o.field("quota"); ok {
		c.Quota = readQuota(v, c.Rules)
	}
	for i := range c.Rules {
		rule := &c.Rules[i]
		if c.Mode == Shadow && rule.Mode == Enforce && !rule.Exempt {
			rule.Mode = Shadow
		}
		if rule.Mode == Enforce {
			continue
		}
		// No client is told of its rejections, so its penalty and its leases wait.
		rule.Penalty = nil
		for l := range rule.everyLimit {
			l.Lease, l.LeaseMicros = nil, 0
		}
	}
}

// String is the mode as configurations write it.
func (m FailureMode) String() string { return failureModes[m] }

// Quota is "quota": where callers read what they have left.
type Quota struct {
	Path  string // as a normalised path reads
	Rules []int  // the places of the listed rules in Config.Rules, in the order of the list
}

// readQuota reads "quota". rules are those of the configuration.
func readQuota(v value, rules []Rule) *Quota {
	o := v.readObject(quotaFields)
	q := &Quota{Path: o.text("path")}
	if q.Path != "" {
		at, _ := o.field("path")
		at.checkPath(Exact, q.Path)
	}
	for _, element := range o.list("rules") {
		name, ok := element.readNonEmpty(`the name of a rule such as "per-user"`)
		if !ok {
			continue
		}
		// A request for the quota has a path, a method and a query of its own.
		place := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })
		wrong := ""
		switch {
		case place < 0:
			wrong = `is the name of no rule (want one of "rules")`
		case slices.Contains(q.Rules, place):
			wrong = "is listed already (want each rule once)"
		case rules[place].Exempt:
			wrong = "is an exempt rule, which has no limits (want a rule that has some)"
		case rules[place].Mode == Off:
			wrong = "is off, so that it counts nothing (want another rule, or another mode)"
		case rules[place].Silent:
			wrong = `has "headers": false, so that no caller sees its limits (want another rule, or no such field)`
		default:
			for _, part := range rules[place].Identify() {
				if source := part.Source; wrong == "" && (source == FromPath || source == FromMethod || source == FromQuery) {
					wrong = "identifies by " + quoted(sourceFields[source].name) + ", which a request for the quota has of its own " +
						"(want a rule whose key is the same for every request of a caller)"
				}
			}
		}
		if wrong != "" {
			element.mistake("%s %s", element.shown(), wrong)
			continue
		}
		q.Rules = append(q.Rules, place)
	}
	return q
}

// Identify lists all components by which a rule counts: its key, and "per" of its limits and of its tiers'
// limits.
func (rule *Rule) Identify() []Component {
	identify := append([]Component(nil), rule.Key...)
	for l := range rule.everyLimit {
		identify = append(identify, l.Per...)
	}
	return identify
}
