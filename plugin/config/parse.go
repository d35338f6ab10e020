package config

import (
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config/jsonsyntax"
	"github.com/sluiceproxy/sluice/plugin/message"
	"github.com/sluiceproxy/sluice/plugin/must"
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

// object is a JSON object with a fixed set of fields. Its methods that read a field of a
// kind take its bounds and its default from its row, and the default where the value is a
// mistake. It is a pointer for the same reason as a value is.
type object = *fields

type fields struct {
	value
	shape  []field
	there  bool // or else it has no field, and none is missed
	fields []entry
}

// readObject reads an object with the fields of shape. Others are mistakes.
func (v value) readObject(shape []field) object {
	o := &fields{value: v, shape: shape}
	if !v.json.IsObject() {
		v.mistake("%s is not an object (want fields such as %s)", v.shown(), quoted(shape[0].name))
		return o
	}
	fields, _ := v.readEntries("an object")
	o.there, o.fields = true, make([]entry, 0, len(fields))
	for _, field := range fields {
		if i := placeOf(shape, field.name); i >= 0 {
			field.secret = shape[i].hidden
			o.fields = append(o.fields, field)
		} else {
			field.unknown(shape)
		}
	}
	return o
}

func (e entry) unknown(shape []field) {
	if e.r.found >= maxMistakes {
		e.r.found++ // not shown: no work for its message
	} else if e.path == "role" {
		e.mistake("the plugin has no roles (want no such field; the bridge in Redis' cluster is bridge/bridge.wasm)")
	} else if e.name == "only" && placeOf(shape, "over") >= 0 || e.name == "charge" && placeOf(shape, "set_headers") >= 0 {
		e.mistake(`unknown field (want the limits that pay for a rule as "limits" of its "over": over.limits)`)
	} else if meant, found := nearest(e.name, namesOf(shape)); found {
		e.mistake("unknown field (did you mean %q?)", meant)
	} else {
		e.mistake("unknown field (want one of %s)", quotedList(namesOf(shape)))
	}
}

// row is a field's row in the reference.
func (o object) row(name string) *field {
	i := placeOf(o.shape, name)
	must.Hold(i >= 0, "every field that the parser reads has a row")
	if i < 0 {
		return &field{}
	}
	return &o.shape[i]
}

func (o object) has(name string) bool {
	return slices.ContainsFunc(o.fields, func(e entry) bool { return e.name == name })
}

// field finds a field. If it must be there and is not, that is a mistake.
func (o object) field(name string) (value, bool) {
	for _, f := range o.fields {
		if f.name == name {
			return f.value, true
		}
	}
	if need := o.row(name).need; o.there && need != "" {
		o.mistake("%q is missing (want %s)", name, need)
	}
	return &located{}, false
}

// get reads a field by a function of its own.
func get[T any](o object, name string, read func(value) T) (is T) {
	if v, ok := o.field(name); ok {
		is = read(v)
	}
	return is
}

// number reads a whole number, the microseconds of a duration, a word's place among its
// words, or true as 1.
func (o object) number(name string) int64 {
	f := o.row(name)
	v, ok := o.field(name)
	if !ok {
		return f.byDefault
	}
	n := f.byDefault
	switch f.kind {
	case integer:
		n, ok = v.readWhole(f.low, f.high)
	case duration:
		n, ok = v.readDuration(f.low, f.high, f.orZero)
	case word:
		n, ok = v.readWord(f.words)
	case boolean:
		n, ok = v.readBoolean()
	}
	if !ok {
		return f.byDefault
	}
	return n
}

// is reports whether a field is true, or the second of two words.
func (o object) is(name string) bool { return o.number(name) == 1 }

// text reads a string. By default it is empty.
func (o object) text(name string) (s string) {
	if v, ok := o.field(name); ok {
		s, _ = v.readText()
	}
	return s
}

// object reads an object. An absent one has no fields.
func (o object) object(name string) object {
	v, ok := o.field(name)
	if !ok {
		return &fields{value: &located{}, shape: o.row(name).fields}
	}
	return v.readObject(o.row(name).fields)
}

// choice finds the single field of that kind, which must be there.
func (o object) choice() (name string, v value, ok bool) {
	if !o.there {
		return "", &located{}, false
	}
	var known, present []string
	for i := range o.shape {
		if f := &o.shape[i]; f.kind == choice {
			known = append(known, f.name)
			if o.has(f.name) {
				present = append(present, f.name)
			}
		}
	}
	switch len(present) {
	case 0:
		o.mistake("one of %s is missing (want exactly one)", quotedList(known))
		return "", &located{}, false
	case 1:
		v, ok = o.field(present[0])
		return present[0], v, ok
	}
	o.mistake("%s exclude each other (want exactly one)", strings.Join(quotedEach(present), " and "))
	return "", &located{}, false
}

// refuse reports each of the fields that is there, and why it may not be.
func (o object) refuse(why string, names ...string) {
	for _, name := range names {
		if o.has(name) {
			o.mistake("%q %s", name, why)
		}
	}
}
