package config

import (
	"strings"

	"github.com/tidwall/gjson"

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
		checks:     c,
		compiled:   map[string]error{},
		rules:      map[string]string{},
		limitNames: map[string]nameOwner{}, ttls: map[string]ttlOwner{},
	}
	config := r.parse(string(text))
	if err := r.err(); err != nil {
		return nil, err
	}
	return config, nil
}

func (r *reader) parse(text string) *Config {
	// RFC 8259 section 8.1 lets a parser ignore a byte order mark.
	text = strings.TrimPrefix(text, "\ufeff")
	if strings.Trim(text, " \t\r\n") == "" {
		r.mistake("", `the configuration is empty (want an object with "rules")`)
		return nil
	}
	if m, found := jsonsyntax.Find(text, maxNesting); found {
		r.mistake(message.Sprintf("line %d, column %d", m.Line, m.Column), "%s", m.Problem)
		return nil
	}
	root := &located{r: r, json: gjson.Parse(text)}
	if o := root.readObject(topFields); o.there {
		return readConfig(o)
	}
	return nil
}

func readConfig(o object) *Config {
	c := &Config{
		Redis:              get(o, "redis", readRedis),
		Failure:            readFailure(o.object("failure")),
		Response:           get(o, "response", readResponse),
		Headers:            readHeaders(o),
		RetryJitterPercent: get(o, "retry_jitter", readPercentage),
		TopOffenders:       get(o, "top_offenders", readTopOffenders),
		RejectedState:      o.is("rejected_state"),
		EnvoyRateLimited:   o.is("envoy_ratelimited"),
		DenyCacheSize:      o.object("deny_cache").number("size"),
		Mode:               Mode(o.number("mode")),
	}
	c.HashSecretEnv = readHashSecret(o)
	o.r.hasRedis, o.r.failure, o.r.hasHashSecret = o.has("redis"), c.Failure.Mode, c.HashSecretEnv != ""
	c.Rules = get(o, "rules", readRules)
	if v, ok := o.field("quota"); ok {
		c.Quota = readQuota(v, c.Rules)
	}
	if c.Mode == Shadow {
		shadow(c.Rules)
	}
	c.Expressions = o.r.expressions
	return c
}

func readTopOffenders(v value) *TopOffenders {
	o := v.readObject(topOffendersFields)
	return &TopOffenders{Size: o.number("size"), IntervalMicros: o.number("interval")}
}
