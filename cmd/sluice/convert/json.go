package convert

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// object is a JSON object whose fields keep their order.
type object []field

type field struct {
	name  string
	value any // object, []any, string, int64 or bool
}

// with is the object with one more field.
func (o object) with(name string, value any) object {
	return append(o[:len(o):len(o)], field{name, value})
}

// set is the object with a field in the place of the one of its name.
func (o object) set(name string, value any) object {
	o = slices.Clone(o)
	for i := range o {
		if o[i].name == name {
			o[i].value = value
			return o
		}
	}
	return append(o, field{name, value})
}

// get is a field's value; nil if there is none.
func (o object) get(name string) any {
	for _, f := range o {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// lineWidth is how long a line of the configuration gets before a value is broken
// into several.
const lineWidth = 100

// format writes a value as people write configurations: short values in one line.
func format(value any, indent string) string {
	short := compact(value)
	if len(indent)+len(short) <= lineWidth {
		return short
	}
	inner := indent + "  "
	part := func(v any) string { return format(v, inner) }
	return layout(value, part, "\n"+inner, ",\n"+inner, "\n"+indent)
}

// compact writes a value in one line.
func compact(value any) string { return layout(value, compact, "", ", ", "") }

// layout writes a value, and part each value in it.
func layout(value any, part func(any) string, begin, between, end string) string {
	var parts []string
	switch v := value.(type) {
	case object:
		for _, f := range v {
			parts = append(parts, quote(f.name)+": "+part(f.value))
		}
		return "{" + begin + strings.Join(parts, between) + end + "}"
	case []any:
		for _, element := range v {
			parts = append(parts, part(element))
		}
		return "[" + begin + strings.Join(parts, between) + end + "]"
	}
	return quote(value)
}

// quote writes a scalar.
func quote(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // of a text, a number or a bool
	return strings.TrimSuffix(out.String(), "\n")
}
