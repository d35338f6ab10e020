package config

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/sluiceproxy/sluice/plugin/config/jsonsyntax"
)

// maxDepth bounds how deep objects and arrays may nest. The deepest field of a
// configuration stands at 8, and each "not" adds one; what reads it recurses.
const maxDepth = 20

// Parse reads a configuration. The error is of type Mistakes and holds all that
// is wrong with it, not only the first.
func Parse(text []byte) (*Config, error) {
	r := &reader{rules: map[string]string{}, policies: map[string]policy{}}
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
	if m, found := jsonsyntax.Find(text, maxDepth); found {
		r.mistake(fmt.Sprintf("line %d, column %d", m.Line, m.Column), "%s", m.Problem)
		return nil
	}
	root := value{r: r, json: gjson.Parse(text)}
	if role, ok := root.find("role"); ok && role.json.Type == gjson.String && role.json.Str == "bridge" {
		return bridge(root)
	}
	o, ok := root.object("rules", "role", "redis", "failure", "response", "headers", "reset", "deny_cache", "top_offenders")
	if !ok {
		return nil
	}
	return limiter(o)
}

// bridge reads {"role": "bridge"}, which is all there is to that role.
func bridge(root value) *Config {
	fields, _ := root.entries("an object")
	for _, field := range fields {
		if field.name != "role" {
			root.mistake(`%s does not belong to the role "bridge" (want {"role": "bridge"} and nothing else)`, quoted(field.name))
		}
	}
	return &Config{Bridge: true}
}

func limiter(o object) *Config {
	o.readChoice("role", "limiter", "bridge")
	c := &Config{
		Redis:         redis(o),
		Failure:       failure(o),
		Response:      response(o),
		Headers:       headers(o),
		DenyCacheSize: defaultDenyCacheSize,
		TopOffenders:  topOffenders(o),
	}
	denyCache(o, &c.DenyCacheSize)
	c.Rules = rules(o)
	return c
}

const defaultDenyCacheSize = 4096

func denyCache(o object, size *int64) {
	if v, ok := o.field("deny_cache"); ok {
		if cache, ok := v.object("size"); ok {
			cache.readWhole("size", size, 0, 1_000_000)
		}
	}
}

func topOffenders(o object) *TopOffenders {
	v, ok := o.field("top_offenders")
	if !ok {
		return nil
	}
	top := &TopOffenders{Size: 100, IntervalMicros: minute}
	if o, ok := v.object("size", "interval"); ok {
		o.readWhole("size", &top.Size, 1, 1000)
		o.readDuration("interval", &top.IntervalMicros, second, hour)
	}
	return top
}
