package yamltree

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Tree is a YAML document that is changed in place. Its methods keep the first error, for Write.
// A path is such as "static_resources/listeners/limited/address": the keys of objects, and for lists the element's
// "name" or its index; "" is the whole.
type Tree struct {
	Root  *yaml.Node
	About string // the comment at the beginning
	Err   error
}

// Parse reads a document.
func Parse(text []byte) (*Tree, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return nil, fmt.Errorf("an empty document")
	}
	return &Tree{Root: document.Content[0], About: document.HeadComment}, nil
}

// Write encodes documents as the shipped files are written.
func Write(trees ...*Tree) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	for _, t := range trees {
		if t.Err != nil {
			return nil, t.Err
		}
		document := &yaml.Node{Kind: yaml.DocumentNode, HeadComment: t.About, Content: []*yaml.Node{t.Root}}
		if err := encoder.Encode(document); err != nil {
			return nil, err
		}
	}
	err := encoder.Close()
	return out.Bytes(), err
}

// Fail keeps the first error.
func (t *Tree) Fail(format string, args ...any) {
	if t.Err == nil {
		t.Err = fmt.Errorf(format, args...)
	}
}

// At is the node at a path. It must be there.
func (t *Tree) At(path string) *yaml.Node {
	n := t.Root
	for rest := path; rest != ""; {
		var step string
		step, rest, _ = strings.Cut(rest, "/")
		n = Child(n, step)
	}
	if n == nil {
		t.Fail("the shipped file has no %s", path)
		return new(yaml.Node)
	}
	return n
}

// Set replaces the node at a path that must be there, but for its comments.
func (t *Tree) Set(path string, value *yaml.Node) {
	n := t.At(path)
	head, line, foot := n.HeadComment, n.LineComment, n.FootComment
	*n = *value
	n.HeadComment, n.LineComment, n.FootComment = head, line, foot
}

// SetText is Set with a piece of YAML.
func (t *Tree) SetText(path, source string) { t.Set(path, t.Fragment(source)) }

// Fragment parses a piece of YAML.
func (t *Tree) Fragment(source string) *yaml.Node {
	parsed, err := Parse([]byte(source))
	if err != nil {
		t.Fail("fragment: %w", err)
		return new(yaml.Node)
	}
	return parsed.Root
}

// Child is one step from a node downwards.
func Child(n *yaml.Node, step string) *yaml.Node {
	if i := Index(n, step); i >= 0 {
		return Resolve(n.Content[i])
	}
	_, value := Field(n, step)
	return value
}

// Index is the place of an element of a list, by its "name" or by its index; -1 for none.
func Index(n *yaml.Node, step string) int {
	if n == nil || n.Kind != yaml.SequenceNode {
		return -1
	}
	named := func(element *yaml.Node) bool { return step != "" && Text(element, "name") == step }
	if i := slices.IndexFunc(n.Content, named); i >= 0 {
		return i
	}
	if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
		return i
	}
	return -1
}

// Put sets a key of an object, after its other keys if it is new.
func Put(object *yaml.Node, key string, value *yaml.Node) { PutBefore(object, "", key, value) }

// PutBefore sets a key of an object, before another one, if that is there and the key is new.
func PutBefore(object *yaml.Node, before, key string, value *yaml.Node) {
	if _, old := Field(object, key); old != nil {
		*old = *value
		return
	}
	at := len(object.Content)
	if next, _ := Field(object, before); next != nil {
		at = slices.Index(object.Content, next)
	}
	object.Content = slices.Insert(object.Content, at, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}

// Drop removes a key of an object. It reports whether it was there.
func Drop(object *yaml.Node, key string) bool {
	old, _ := Field(object, key)
	if i := slices.Index(object.Content, old); i >= 0 {
		object.Content = slices.Delete(object.Content, i, i+2)
		return true
	}
	return false
}
