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

// Checks are what Parse cannot know by itself. A nil function finds no mistake.
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
		limitNames: map[string]nameOwner{},
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
		r.mistake("", `the configuration is empty (want an object with "rules", or {"role": "bridge"})`)
		return nil
	}
	if m, found := jsonsyntax.Find(text, maxNesting); found {
		r.mistake(message.Sprintf("line %d, column %d", m.Line, m.Column), "%s", m.Problem)
		return nil
	}
	root := value{r: r, json: gjson.Parse(text)}
	if v, ok := root.find("role"); ok && v.json.Type == gjson.String {
		if role, _ := roles.meaning(v.json.Str); role == bridgeRole {
			return readBridge(root)
		}
	}
	o, ok := root.readObject(
		"rules", "role", "mode", "redis", "failure", "response", "headers", "reset", "deny_cache", "retry_jitter",
		"top_offenders", "rejected_state", "envoy_ratelimited",
	)
	if !ok {
		return nil
	}
	return readLimiter(o)
}

// role is which of the two filters this instance of the plugin is.
type role uint8

const (
	limiterRole role = iota
	bridgeRole
)

var roles = words[role]{
	{limiterRole, "limiter"},
	{bridgeRole, "bridge"},
}

// readBridge reads {"role": "bridge"}. That role has no other field.
func readBridge(root value) *Config {
	fields, _ := root.readEntries("an object")
	for _, field := range fields {
		if field.name != "role" {
			root.mistake(`%s does not belong to the role "bridge" (want {"role": "bridge"} and nothing else)`, quoted(field.name))
		}
	}
	return &Config{Bridge: true}
}

func readLimiter(o object) *Config {
	if v, ok := o.field("role"); ok {
		readWord(v, roles)
	}
	c := &Config{
		Redis:              readRedis(o),
		Failure:            readFailure(o),
		Response:           readResponse(o),
		Headers:            readHeaders(o),
		DenyCacheSize:      defaultDenyCacheSize,
		RetryJitterPercent: readRetryJitter(o),
		RejectedState:      true,
		TopOffenders:       readTopOffenders(o),
	}
	o.readBooleanField("rejected_state", &c.RejectedState)
	o.readBooleanField("envoy_ratelimited", &c.EnvoyRateLimited)
	readDenyCache(o, &c.DenyCacheSize)
	readWordField(o, "mode", configurationModes, &c.Mode)
	o.r.hasRedis, o.r.failure = o.has("redis"), c.Failure.Mode
	c.Rules = readRules(o)
	if c.Mode == Shadow {
		shadow(c.Rules)
	}
	c.Expressions = o.r.expressions
	return c
}

const (
	// Bound: entries of the deny cache, unless `size` says otherwise. Beyond it, the one unused for
	// longest is forgotten. Protects memory.
	defaultDenyCacheSize = 4096
	// Bound: of `deny_cache.size`. Beyond it, the configuration is refused. Protects memory.
	maxDenyCacheSize = 1_000_000
)

func readDenyCache(o object, size *int64) {
	if v, ok := o.field("deny_cache"); ok {
		if cache, ok := v.readObject("size"); ok {
			cache.readWholeField("size", size, 0, maxDenyCacheSize)
		}
	}
}

// Bound: of `top_offenders.size`. Beyond it, the configuration is refused. Protects memory.
const maxOffenders = 1000

func readTopOffenders(o object) *TopOffenders {
	v, ok := o.field("top_offenders")
	if !ok {
		return nil
	}
	top := &TopOffenders{Size: 100, IntervalMicros: minute}
	if o, ok := v.readObject("size", "interval"); ok {
		o.readWholeField("size", &top.Size, 1, maxOffenders)
		o.readDurationField("interval", &top.IntervalMicros, second, hour)
	}
	return top
}
