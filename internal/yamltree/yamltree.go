// Package yamltree reads and changes YAML as yaml.v3 parses it: values keep their lines, comments
// and order. Aliases are followed.
package yamltree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds the nesting of what is read: an alias may hold itself.
const maxDepth = 100

// Documents are the values of a text's YAML documents, without empty ones. It ends with the first
// error.
func Documents(text []byte) iter.Seq2[*yaml.Node, error] { return DocumentsAt(text, 0) }

// DocumentsAt is Documents of a text that stands in a file, after so many of its lines: the values have the lines
// of that file.
func DocumentsAt(text []byte, before int) iter.Seq2[*yaml.Node, error] {
	return func(yield func(*yaml.Node, error) bool) {
		for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var document yaml.Node
			err := decoder.Decode(&document)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("neither YAML nor JSON: %s", strings.TrimPrefix(err.Error(), "yaml: ")))
				return
			}
			shift(&document, before)
			if len(document.Content) > 0 && !yield(document.Content[0], nil) {
				return
			}
		}
	}
}

// shift moves a value down in its file.
func shift(n *yaml.Node, lines int) {
	n.Line += lines
	for _, child := range n.Content {
		shift(child, lines)
	}
}

// Resolve returns the value that an alias stands for, and any other value itself.
func Resolve(n *yaml.Node) *yaml.Node {
	for range maxDepth {
		if n == nil || n.Kind != yaml.AliasNode {
			return n
		}
		n = n.Alias
	}
	return nil
}

// Fields are the keys and values of an object, in their order; none of anything else.
func Fields(n *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	n = Resolve(n)
	return func(yield func(*yaml.Node, *yaml.Node) bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i], Resolve(n.Content[i+1])) {
				return
			}
		}
	}
}

// Field is a key of an object and its value; nil if there is none.
func Field(n *yaml.Node, name string) (key, value *yaml.Node) {
	for key, value := range Fields(n) {
		if key.Value == name {
			return key, value
		}
	}
	return nil, nil
}

// Get is the value that keys lead to; nil if there is none.
func Get(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		_, n = Field(n, key)
	}
	return Resolve(n)
}

// Text is the text of the scalar that keys lead to; "" if there is none.
func Text(n *yaml.Node, keys ...string) string {
	if n = Get(n, keys...); n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// List are the elements of the list that keys lead to.
func List(n *yaml.Node, keys ...string) (all []*yaml.Node) {
	if n = Get(n, keys...); n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	for _, element := range n.Content {
		all = append(all, Resolve(element))
	}
	return all
}

// Keys are the keys of an object, in their order.
func Keys(n *yaml.Node) (all []string) {
	for key := range Fields(n) {
		all = append(all, key.Value)
	}
	return all
}

// Objects are the objects at or below n, each once, the outer ones first.
func Objects(n *yaml.Node) (all []*yaml.Node) {
	seen := map[*yaml.Node]bool{}
	var visit func(*yaml.Node)
	visit = func(n *yaml.Node) {
		if n = Resolve(n); n == nil || seen[n] {
			return
		}
		seen[n] = true
		if n.Kind == yaml.MappingNode {
			all = append(all, n)
		}
		for _, child := range n.Content {
			visit(child)
		}
	}
	visit(n)
	return all
}

// Mentions reports whether a word, in lower case, stands in a key or value at or below n.
func Mentions(n *yaml.Node, word string) bool { return mentions(n, word, 0) }

func mentions(n *yaml.Node, word string, depth int) bool {
	if n == nil || depth > maxDepth {
		return false
	}
	if strings.Contains(strings.ToLower(n.Value), word) {
		return true
	}
	for _, child := range n.Content {
		if mentions(child, word, depth+1) {
			return true
		}
	}
	return mentions(n.Alias, word, depth+1)
}
