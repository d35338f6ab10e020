package config

import (
	"cmp"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config/jsonsyntax"
	"github.com/sluiceproxy/sluice/plugin/message"
	"github.com/tidwall/gjson"
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
func (c Checks) Parse(text []byte) (config *Config, err error) {
	r := &reader{
		checks:     c,
		compiled:   map[string]error{},
		rules:      map[string]string{},
		limitNames: map[string]nameOwner{}, ttls: map[string]ttlOwner{},
	}
	// RFC 8259 section 8.1 lets a parser ignore a byte order mark.
	json := strings.TrimPrefix(string(text), "\ufeff")
	if strings.Trim(json, " \t\r\n") == "" {
		r.mistake("", `the configuration is empty (want an object with "rules")`)
	} else if m, found := jsonsyntax.Find(json, maxNesting); found {
		r.mistake(message.Sprintf("line %d, column %d", m.Line, m.Column), "%s", m.Problem)
	} else {
		root := &located{r: r, json: gjson.Parse(json)}
		if o := root.readObject(topFields); o.there {
			config = readConfig(o)
		}
	}
	switch more := r.found - maxMistakes; {
	case more > 0:
		return nil, append(r.mistakes, Mistake{Problem: message.Sprintf("and %d more mistakes", more), more: more})
	case r.found > 0:
		return nil, r.mistakes
	}
	return config, nil
}

// readConfig reads the fields of the top level.
func readConfig(o object) *Config {
	c := &Config{
		Redis:   get(o, "redis", readRedis),
		Headers: Headers{XRateLimit: !o.has("headers")},
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
	c.Headers.ResetUnix = o.is("reset")
	c.RetryJitterPercent = o.number("retry_jitter")
	if o.has("top_offenders") {
		top := o.object("top_offenders")
		c.TopOffenders = &TopOffenders{Size: top.number("size"), IntervalMicros: top.number("interval")}
	}
	c.RejectedState = o.is("rejected_state")
	c.EnvoyRateLimited = o.is("envoy_ratelimited")
	c.DenyCacheSize = o.object("deny_cache").number("size")
	c.Mode = Mode(o.number("mode"))
	c.HashSecretEnv = o.variable("hash_secret_env", "SLUICE_HASH_SECRET")

	o.r.hasRedis, o.r.failure, o.r.hasHashSecret = o.has("redis"), c.Failure.Mode, c.HashSecretEnv != ""
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
		if c.Mode != Shadow || rule.Exempt || rule.Mode != Enforce {
			continue
		}
		// No client is told of its rejections, so its penalty and its leases are not in force.
		rule.Mode, rule.Penalty = Shadow, nil
		for l := range rule.everyLimit {
			l.Lease, l.LeaseMicros = nil, 0
		}
	}
	c.Expressions = o.r.expressions
	return c
}

// DefaultKeyPrefix begins the keys in Redis of a configuration that does not say otherwise.
const DefaultKeyPrefix = "rl"

func readRedis(v value) *Redis {
	o := v.readObject(redisFields)
	redis := &Redis{Cluster: o.text("cluster"), KeyPrefix: cmp.Or(o.text("key_prefix"), DefaultKeyPrefix)}
	// Every key begins with the prefix, in which a brace would move the hash tag.
	prefix := redis.KeyPrefix
	if len(prefix) > maxNameBytes || !isPrintable(prefix) || strings.ContainsAny(prefix, " {}") {
		at, _ := o.field("key_prefix")
		at.mistake("%s cannot begin a key (want at most %d printable ASCII characters other than space, { and })",
			at.shown(), maxNameBytes)
	}
	redis.TimeoutMicros = o.number("timeout")
	redis.MaxStreamAgeMicros = o.number("max_stream_age")
	redis.Database = o.number("database")

	// An empty string is like an absent field. No message shows a value.
	redis.Username, redis.Password = o.text("username"), o.text("password")
	redis.PasswordEnv = o.variable("password_env", "REDIS_PASSWORD")
	if redis.Password != "" && redis.PasswordEnv != "" {
		o.mistake(`"password" and "password_env" exclude each other (want at most one)`)
	}
	if redis.Username != "" && redis.Password == "" && redis.PasswordEnv == "" {
		o.mistake(`"username" has no password (want "password" or "password_env" beside it)`)
	}
	return redis
}

// String is the mode as configurations write it.
func (m FailureMode) String() string { return failureModes[m] }
