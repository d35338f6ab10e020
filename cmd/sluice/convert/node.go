package convert

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// node is a value of Envoy's configuration, as decoded from YAML, with its place.
// Reading an absent field gives a node without a value.
type node struct {
	value any
	at    string
}

func parseNodes(text []byte) ([]node, error) {
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	var all []node
	for {
		var value any
		err := decoder.Decode(&value)
		if err != nil && err.Error() == "EOF" {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("neither YAML nor JSON: %w", err)
		}
		all = append(all, node{value: value})
	}
}

func (n node) ok() bool { return n.value != nil }

// get is a field. Envoy reads its fields in camel case, too.
func (n node) get(path ...string) node {
	for _, name := range path {
		m, _ := n.value.(map[string]any)
		value, ok := m[name]
		if !ok {
			value = m[camel(name)]
		}
		at := name
		if n.at != "" {
			at = n.at + "." + name
		}
		n = node{value, at}
	}
	return n
}

func camel(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// each are the elements of a list.
func (n node) each() (all []node) {
	list, _ := n.value.([]any)
	for i, value := range list {
		all = append(all, node{value, fmt.Sprintf("%s[%d]", n.at, i)})
	}
	return all
}

// names are the fields of an object that have a value.
func (n node) names() (all []string) {
	m, _ := n.value.(map[string]any)
	for name := range m {
		all = append(all, name)
	}
	return all
}

func (n node) text() string {
	switch v := n.value.(type) {
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

func (n node) number(fallback int64) int64 {
	if m, ok := n.value.(map[string]any); ok { // a UInt32Value
		return node{value: m["value"]}.number(fallback)
	}
	if v, err := strconv.ParseInt(n.text(), 10, 64); err == nil {
		return v
	}
	return fallback
}

// flag is a bool, or a BoolValue.
func (n node) flag(fallback bool) bool {
	switch v := n.value.(type) {
	case bool:
		return v
	case map[string]any:
		return node{value: v["value"]}.flag(fallback)
	}
	return fallback
}

// find visits every object below n, the outer ones first.
func (n node) find(visit func(node) (deeper bool)) {
	switch v := n.value.(type) {
	case map[string]any:
		if !visit(n) {
			return
		}
		for _, name := range sortedKeys(v) {
			n.get(name).find(visit)
		}
	case []any:
		for _, element := range n.each() {
			element.find(visit)
		}
	}
}
