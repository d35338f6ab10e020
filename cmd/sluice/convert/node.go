package convert

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/yamltree"
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
	name string
	read map[*yaml.Node]bool
}

// maxValues bounds what a document's aliases make of it.
const maxValues = 1_000_000

// size is how many values a document has with its aliases in place. It stops above
// maxValues, which one that leads into itself reaches.
func size(y *yaml.Node, counted int) int {
	if y = value(y); y == nil || counted > maxValues {
		return counted
	}
	counted++
	for _, child := range y.Content {
		counted = size(child, counted)
	}
	return counted
}

// parseNodes reads the documents of a file. What a ConfigMap holds counts as documents, too.
func parseNodes(file File) ([]node, error) {
	return (&source{name: file.Name, read: map[*yaml.Node]bool{}}).documents(file.Text, 0)
}

// documents are those of a text that stands after some lines of the file.
func (s *source) documents(text []byte, before int) (all []node, err error) {
	for document, err := range yamltree.DocumentsAt(text, before) {
		if err != nil {
			return nil, err
		}
		if size(document, 0) > maxValues {
			return nil, fmt.Errorf("aliases lead into themselves, or to more than %d values", maxValues)
		}
		root := node{value(document), "", s}
		all = append(all, root)
		root.find(func(n node) bool {
			if n.get("kind").text() != "ConfigMap" {
				return true
			}
			for _, name := range n.get("data").names() {
				held := n.get("data", name).yaml
				line := held.Line
				if held.Style != yaml.LiteralStyle && held.Style != yaml.FoldedStyle {
					line--
				}
				if found, err := (&source{s.name, s.read}).documents([]byte(held.Value), line); err == nil {
					all = append(all, found...)
				}
			}
			return false
		})
	}
	return all, nil
}

// value is the value that an alias stands for, and nil for null.
func value(y *yaml.Node) *yaml.Node {
	if y = yamltree.Resolve(y); y != nil && y.Tag == "!!null" {
		return nil
	}
	return y
}

func (n node) ok() bool { return n.yaml != nil }

// line is where the value stands in its file, from 1; 0 if it has no place.
func (n node) line() int {
	if n.yaml == nil {
		return 0
	}
	return n.yaml.Line
}

// child is a value below n.
func (n node) child(name string, y *yaml.Node) node {
	return node{value(y), strings.TrimPrefix(n.at+"."+name, "."), n.file}
}

var underscored = regexp.MustCompile("_[a-z]")

// get is a field. Envoy reads its fields in camel case, too.
func (n node) get(path ...string) node {
	for _, name := range path {
		camel := underscored.ReplaceAllStringFunc(name, func(s string) string { return strings.ToUpper(s[1:]) })
		n = n.child(name, cmp.Or(n.field(name), n.field(camel)))
	}
	return n
}

// field is the value of a field that has exactly this name, its own or one merged in.
func (n node) field(name string) (merged *yaml.Node) {
	for key, y := range yamltree.Fields(n.yaml) {
		switch {
		case key.Value == name:
			n.file.read[key] = true
			return value(y)
		case key.Tag == "!!merge":
			n.file.read[key] = true
			merged = cmp.Or(merged, node{y, n.at, n.file}.field(name))
		}
	}
	return merged
}

// each are the elements of a list.
func (n node) each() (all []node) {
	for i, y := range yamltree.List(n.yaml) {
		all = append(all, node{value(y), fmt.Sprintf("%s[%d]", n.at, i), n.file})
	}
	return all
}

// names are the fields of an object that have a value.
func (n node) names() (all []string) {
	for key, y := range yamltree.Fields(n.yaml) {
		if key.Tag == "!!merge" {
			all = append(all, node{y, n.at, n.file}.names()...)
		} else if value(y) != nil {
			all = append(all, key.Value)
		}
	}
	return all
}

// unread are the fields below n that nothing has read, the outer ones alone.
func (n node) unread() (all []node) {
	for _, element := range n.each() {
		all = append(all, element.unread()...)
	}
	for key, y := range yamltree.Fields(n.yaml) {
		if child := n.child(key.Value, y); child.ok() && !n.file.read[key] {
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
	if n.yaml.Decode(&value) == nil {
		switch v := value.(type) {
		case float64:
			return strconv.FormatFloat(v, 'f', -1, 64)
		case int, bool:
			return fmt.Sprint(v)
		}
	}
	return n.yaml.Value
}

// wrapped is the text of a wrapper such as UInt32Value, or the node's own.
func (n node) wrapped() string {
	if inner := n.get("value"); inner.ok() {
		return inner.text()
	}
	return n.text()
}

// number is a whole number, or a UInt32Value.
func (n node) number(fallback int64) int64 {
	if v, err := strconv.ParseInt(n.wrapped(), 10, 64); err == nil {
		return v
	}
	return fallback
}

// flag is a bool, or a BoolValue.
func (n node) flag(fallback bool) bool {
	if is := n.wrapped(); is == "true" || is == "false" {
		return is == "true"
	}
	return fallback
}

// find visits every object below n, the outer ones first.
func (n node) find(visit func(node) (deeper bool)) {
	for _, element := range n.each() {
		element.find(visit)
	}
	if n.yaml == nil || n.yaml.Kind != yaml.MappingNode || !visit(n) {
		return
	}
	for key, y := range yamltree.Fields(n.yaml) {
		n.child(key.Value, y).find(visit)
	}
}

// under reports whether n is, or stands below, another node of its file.
func (n node) under(other node) bool {
	return n.file != nil && n.file == other.file &&
		(n.at == other.at || other.at == "" || strings.HasPrefix(n.at, other.at) &&
			slices.Contains([]byte(".["), n.at[len(other.at)]))
}
