package find

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds the nesting of what is turned into JSON: an alias may hold
// itself.
const maxDepth = 100

// appendJSON writes a value of YAML as JSON, keeping the order of fields and
// those that stand twice, for the plugin's own parser to judge.
func appendJSON(dst []byte, n *yaml.Node) []byte { return appendValue(dst, n, 0) }

func appendValue(dst []byte, n *yaml.Node, depth int) []byte {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if depth > maxDepth {
		return append(dst, "null"...)
	}
	switch n.Kind {
	case yaml.MappingNode:
		dst = append(dst, '{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, n.Content[i].Value), ':')
			dst = appendValue(dst, n.Content[i+1], depth+1)
		}
		return append(dst, '}')
	case yaml.SequenceNode:
		dst = append(dst, '[')
		for i, element := range n.Content {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendValue(dst, element, depth+1)
		}
		return append(dst, ']')
	}
	return appendScalar(dst, n)
}

// YAML 1.1 has more words for true and false than YAML 1.2, and both Envoy and
// Kubernetes read them so: an unquoted off is false.
var (
	trueWords  = []string{"yes", "on"}
	falseWords = []string{"no", "off"}
)

func appendScalar(dst []byte, n *yaml.Node) []byte {
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return appendString(dst, n.Value)
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
		if n.Value == word || n.Value == strings.ToUpper(word) || n.Value == strings.ToUpper(word[:1])+word[1:] {
			if slices.Contains(trueWords, word) {
				return append(dst, "true"...)
			}
			if slices.Contains(falseWords, word) {
				return append(dst, "false"...)
			}
		}
	}
	return appendString(dst, n.Value)
}

func appendString(dst []byte, s string) []byte { return appendAny(dst, s) }

func appendAny(dst []byte, value any) []byte {
	text, err := json.Marshal(value)
	if err != nil { // no scalar of YAML
		return append(dst, "null"...)
	}
	return append(dst, text...)
}
