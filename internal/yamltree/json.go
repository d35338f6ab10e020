package yamltree

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// JSON is a value as JSON, nil for none. It keeps the order of fields and those that stand twice,
// for the plugin's own parser to judge.
func JSON(n *yaml.Node) []byte {
	if n == nil {
		return nil
	}
	return appendValue(nil, n, 0)
}

func appendValue(dst []byte, n *yaml.Node, depth int) []byte {
	if n = Resolve(n); n == nil || depth > maxDepth {
		return append(dst, "null"...)
	}
	switch n.Kind {
	case yaml.MappingNode:
		dst = append(dst, '{')
		for key, value := range Fields(n) {
			dst = append(appendAny(dst, key.Value), ':')
			dst = append(appendValue(dst, value, depth+1), ',')
		}
		return append(bytes.TrimSuffix(dst, []byte(",")), '}')
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for _, element := range n.Content {
			dst = append(appendValue(dst, element, depth+1), ',')
		}
		return append(bytes.TrimSuffix(dst, []byte(",")), ']')
	}
	return appendScalar(dst, n)
}

// YAML 1.1 has more words for true and false than YAML 1.2, and both Envoy and
// Kubernetes read them so: an unquoted off is false.
var words = map[string]string{"yes": "true", "on": "true", "no": "false", "off": "false"}

func appendScalar(dst []byte, n *yaml.Node) []byte {
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return appendAny(dst, n.Value)
	}
	switch n.ShortTag() {
	case "!!null":
		return append(dst, "null"...)
	case "!!bool", "!!int":
		var value any
		if n.Decode(&value) == nil {
			return appendAny(dst, value)
		}
	case "!!float":
		var value float64
		if n.Decode(&value) == nil && !math.IsInf(value, 0) && !math.IsNaN(value) {
			return appendAny(dst, value)
		}
	case "!!str":
		word := strings.ToLower(n.Value)
		if truth := words[word]; truth != "" &&
			slices.Contains([]string{word, strings.ToUpper(word), strings.ToUpper(word[:1]) + word[1:]}, n.Value) {
			return append(dst, truth...)
		}
	}
	return appendAny(dst, n.Value)
}

func appendAny(dst []byte, value any) []byte {
	text, _ := json.Marshal(value) // a scalar of YAML, which is no infinity: it does not fail
	return append(dst, text...)
}
