package convert

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// node is a value of a configuration, with its place. Reading an absent field gives a
// node without a value, at the place of what lacks it.
type node struct {
	yaml *yaml.Node
	at   string // the path in its document
	file *source
}

// source is the text that nodes come from, and which of its fields have been read.
type source struct {
	name   string
	offset int // lines before the text, where it stands in another file
	read   map[*yaml.Node]bool
}

// maxValues bounds what a document's aliases make of it.
const maxValues = 1_000_000

// size is how many values a document has with its aliases in place. It stops above
// maxValues, which one that leads into itself reaches.
func size(y *yaml.Node, counted int) int {
	if y = resolved(y); y == nil || counted > maxValues {
		return counted
	}
	counted++
	for _, child := range y.Content {
		counted = size(child, counted)
	}
	return counted
}

// parseNodes reads the documents of a file. What a ConfigMap holds counts as documents, too.
func parseNodes(name string, text []byte) ([]node, error) {
	return (&source{name: name, read: map[*yaml.Node]bool{}}).documents(text)
}

func (s *source) documents(text []byte) (all []node, err error) {
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("neither YAML nor JSON: %w", err)
		}
		if len(document.Content) == 0 {
			continue
		}
		if size(&document, 0) > maxValues {
			return nil, fmt.Errorf("aliases lead into themselves, or to more than %d values", maxValues)
		}
		root := node{resolved(document.Content[0]), "", s}
		all = append(all, root)
		root.find(func(n node) bool {
			if n.get("kind").text() != "ConfigMap" {
				return true
			}
			for _, name := range n.get("data").names() {
				value := n.get("data", name).yaml
				inner := source{s.name, s.offset + value.Line, s.read}
				if value.Style != yaml.LiteralStyle && value.Style != yaml.FoldedStyle {
					inner.offset--
				}
				if found, err := inner.documents([]byte(value.Value)); err == nil {
					all = append(all, found...)
				}
			}
			return false
		})
	}
}

// resolved follows an alias.
func resolved(y *yaml.Node) *yaml.Node {
	for y != nil && y.Kind == yaml.AliasNode {
		y = y.Alias
	}
	if y != nil && y.Tag == "!!null" {
		return nil
	}
	return y
}

func (n node) ok() bool { return n.yaml != nil }

// line is where the value stands in its file, from 1; 0 if it has no place.
func (n node) line() int {
	if n.yaml == nil || n.file == nil {
		return 0
	}
	return n.file.offset + n.yaml.Line
}

// get is a field. Envoy reads its fields in camel case, too.
func (n node) get(path ...string) node {
	for _, name := range path {
		value := n.field(name)
		if value == nil {
			value = n.field(camel(name))
		}
		n = node{value, below(n.at, name), n.file}
	}
	return n
}

func below(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// field is the value of a field that has exactly this name, its own or one merged in.
func (n node) field(name string) *yaml.Node {
	if n.yaml == nil || n.yaml.Kind != yaml.MappingNode {
		return nil
	}
	var merged *yaml.Node
	for i := 0; i+1 < len(n.yaml.Content); i += 2 {
		key, value := n.yaml.Content[i], n.yaml.Content[i+1]
		switch {
		case key.Value == name:
			n.file.read[key] = true
			return resolved(value)
		case key.Tag == "!!merge":
			n.file.read[key] = true
			if found := (node{resolved(value), n.at, n.file}).field(name); merged == nil {
				merged = found
			}
		}
	}
	return merged
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
	if n.yaml == nil || n.yaml.Kind != yaml.SequenceNode {
		return nil
	}
	for i, value := range n.yaml.Content {
		all = append(all, node{resolved(value), fmt.Sprintf("%s[%d]", n.at, i), n.file})
	}
	return all
}

// names are the fields of an object that have a value.
func (n node) names() (all []string) {
	if n.yaml == nil || n.yaml.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.yaml.Content); i += 2 {
		if key := n.yaml.Content[i]; key.Tag == "!!merge" {
			all = append(all, node{resolved(n.yaml.Content[i+1]), n.at, n.file}.names()...)
		} else if resolved(n.yaml.Content[i+1]) != nil {
			all = append(all, key.Value)
		}
	}
	return all
}

// unread are the fields below n that nothing has read, the outer ones alone.
func (n node) unread() (all []node) {
	if n.yaml == nil {
		return nil
	}
	for _, element := range n.each() {
		all = append(all, element.unread()...)
	}
	if n.yaml.Kind != yaml.MappingNode {
		return all
	}
	for i := 0; i+1 < len(n.yaml.Content); i += 2 {
		key := n.yaml.Content[i]
		child := node{resolved(n.yaml.Content[i+1]), below(n.at, key.Value), n.file}
		if !n.file.read[key] && child.ok() {
			all = append(all, child)
		} else {
			all = append(all, child.unread()...)
		}
	}
	return all
}

// name is the last field of the node's path.
func (n node) name() string { return n.at[strings.LastIndex(n.at, ".")+1:] }

// text is a scalar's value; "" for anything else.
func (n node) text() string {
	if n.yaml == nil || n.yaml.Kind != yaml.ScalarNode {
		return ""
	}
	var value any
	if n.yaml.Decode(&value) != nil {
		return n.yaml.Value
	}
	switch v := value.(type) {
	case int:
		return strconv.Itoa(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return n.yaml.Value
}

// wrapped is the value of a wrapper such as UInt32Value, or the node itself.
func (n node) wrapped() node {
	if inner := n.get("value"); inner.ok() {
		return inner
	}
	return n
}

// number is a whole number, or a UInt32Value.
func (n node) number(fallback int64) int64 {
	if v, err := strconv.ParseInt(n.wrapped().text(), 10, 64); err == nil {
		return v
	}
	return fallback
}

// flag is a bool, or a BoolValue.
func (n node) flag(fallback bool) bool {
	switch n.wrapped().text() {
	case "true":
		return true
	case "false":
		return false
	}
	return fallback
}

// find visits every object below n, the outer ones first.
func (n node) find(visit func(node) (deeper bool)) {
	if n.yaml == nil {
		return
	}
	for _, element := range n.each() {
		element.find(visit)
	}
	if n.yaml.Kind != yaml.MappingNode || !visit(n) {
		return
	}
	for i := 0; i+1 < len(n.yaml.Content); i += 2 {
		child := node{resolved(n.yaml.Content[i+1]), below(n.at, n.yaml.Content[i].Value), n.file}
		child.find(visit)
	}
}

// under reports whether n is, or stands below, another node of its file.
func (n node) under(other node) bool {
	return n.file != nil && other.file != nil && n.file.name == other.file.name && n.file.offset == other.file.offset &&
		(n.at == other.at || other.at == "" || strings.HasPrefix(n.at, other.at) && slices.Contains([]byte(".["), n.at[len(other.at)]))
}
