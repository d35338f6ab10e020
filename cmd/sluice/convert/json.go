package convert

import (
	"bytes"
	"encoding/json"
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
	var parts []string
	switch v := value.(type) {
	case object:
		for _, f := range v {
			parts = append(parts, quote(f.name)+": "+format(f.value, inner))
		}
		return "{\n" + inner + strings.Join(parts, ",\n"+inner) + "\n" + indent + "}"
	case []any:
		for _, element := range v {
			parts = append(parts, format(element, inner))
		}
		return "[\n" + inner + strings.Join(parts, ",\n"+inner) + "\n" + indent + "]"
	}
	return short
}

// compact writes a value in one line.
func compact(value any) string {
	var parts []string
	switch v := value.(type) {
	case object:
		for _, f := range v {
			parts = append(parts, quote(f.name)+": "+compact(f.value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, element := range v {
			parts = append(parts, compact(element))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return quote(value)
}

// quote writes a scalar.
func quote(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) != nil { // no scalar
		return "null"
	}
	return strings.TrimSuffix(out.String(), "\n")
}
