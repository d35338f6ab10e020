package config

import (
	"slices"
	"strconv"
	"strings"
)

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
		place, name := placeOf(shape, field.name), field.name
		if place >= 0 {
			field.secret = shape[place].hidden
			o.fields = append(o.fields, field)
		} else if v.r.found >= maxMistakes {
			v.r.found++ // not shown: no work for its message
		} else if field.path == "role" {
			field.mistake("the plugin has no roles (want no such field; the bridge in Redis' cluster is bridge/bridge.wasm)")
		} else if name == "only" && placeOf(shape, "over") >= 0 || name == "charge" && placeOf(shape, "set_headers") >= 0 {
			field.mistake(`unknown field (want the limits that pay for a rule as "limits" of its "over": over.limits)`)
		} else if meant, found := nearest(name, namesOf(shape)); found {
			field.mistake("unknown field (did you mean %q?)", meant)
		} else {
			field.mistake("unknown field (want one of %s)", quotedList(namesOf(shape)))
		}
	}
	return o
}

// row is a field's row in the reference.
func (o object) row(name string) *field {
	return &o.shape[placeOf(o.shape, name)]
}

func (o object) has(name string) bool {
	return slices.ContainsFunc(o.fields, func(e entry) bool { return e.name == name })
}

// field finds a field. If it must be there and is not, that is a mistake.
func (o object) field(name string) (value, bool) {
	if i := slices.IndexFunc(o.fields, func(e entry) bool { return e.name == name }); i >= 0 {
		return o.fields[i].value, true
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

// number reads a whole number, a percentage, the microseconds of a duration, a word's place
// among its words, or true as 1.
func (o object) number(name string) int64 {
	f := o.row(name)
	v, ok := o.field(name)
	if !ok {
		return f.byDefault
	}
	var n int64
	switch f.kind {
	case integer:
		n, ok = v.readWhole(f.low, f.high)
	case percentage:
		var text string
		if text, ok = v.readText(); ok {
			digits, isPercent := strings.CutSuffix(text, "%")
			n, _ = strconv.ParseInt(digits, 10, 64)
			ok = isPercent && n >= 0 && n <= 100 && strconv.FormatInt(n, 10) == digits
			if !ok {
				v.mistake(`%s is not a percentage (want one such as "10%%", at most "100%%")`, v.shown())
			}
		}
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

// text reads a string, which is not empty if its row says what is wanted. By default it is empty.
func (o object) text(name string) (s string) {
	v, ok := o.field(name)
	if want := o.row(name).want; ok && want != "" {
		s, _ = v.readNonEmpty(want)
	} else if ok {
		s, _ = v.readText()
	}
	return s
}

// variable reads the name of an environment variable. By default it is empty.
func (o object) variable(name, example string) string {
	text := o.text(name)
	if strings.ContainsAny(text, "=\x00") {
		v, _ := o.field(name)
		v.mistake("not the name of an environment variable (want one such as %q)", example)
	}
	return text
}

// list reads an array. By default it is empty.
func (o object) list(name string) []value {
	return get(o, name, func(v value) []value { return v.readList(o.row(name)) })
}

// entries reads an object whose names the user chooses. By default it has none.
func (o object) entries(name string) (all []entry) {
	if v, ok := o.field(name); ok {
		all, _ = v.readEntries(o.row(name).want)
	}
	return all
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
	var known, present []string
	for i := range o.shape {
		if f := &o.shape[i]; f.kind == choice {
			known = append(known, f.name)
			if o.has(f.name) {
				present = append(present, f.name)
			}
		}
	}
	switch n := len(present); {
	case n == 1:
		v, ok = o.field(present[0])
		return present[0], v, ok
	case n > 1:
		o.mistake("%s exclude each other (want exactly one)", strings.Join(quotedEach(present), " and "))
	case o.there:
		o.mistake("one of %s is missing (want exactly one)", quotedList(known))
	}
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
