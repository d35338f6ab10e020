package render

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// tree is a YAML document that is changed in place, comments and order kept.
// Its methods keep the first error.
type tree struct {
	root  *yaml.Node
	about string // the comment at the beginning
	err   error
}

// parse reads a document.
func parse(text []byte) (*tree, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return nil, fmt.Errorf("an empty document")
	}
	return &tree{root: document.Content[0], about: document.HeadComment}, nil
}

// write encodes documents as the shipped files are written.
func write(trees ...*tree) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	for _, t := range trees {
		if t.err != nil {
			return nil, t.err
		}
		document := &yaml.Node{Kind: yaml.DocumentNode, HeadComment: t.about, Content: []*yaml.Node{t.root}}
		if err := encoder.Encode(document); err != nil {
			return nil, err
		}
	}
	if err := encoder.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// fail keeps the first error.
func (t *tree) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

// get is the node at a path of keys, indexes and, for elements of lists, names;
// nil if there is none.
func (t *tree) get(path ...string) *yaml.Node {
	n := t.root
	for _, step := range path {
		if n = child(n, step); n == nil {
			return nil
		}
	}
	return n
}

// at is the node at a path that must be there.
func (t *tree) at(path ...string) *yaml.Node {
	if n := t.get(path...); n != nil {
		return n
	}
	t.fail("the shipped file has no %s", strings.Join(path, "/"))
	return new(yaml.Node)
}

// set replaces the node at a path that must be there, but for its comments.
func (t *tree) set(value *yaml.Node, path ...string) {
	n := t.at(path...)
	head, line, foot := n.HeadComment, n.LineComment, n.FootComment
	*n = *value
	n.HeadComment, n.LineComment, n.FootComment = head, line, foot
}

// child is one step from a node downwards.
func child(n *yaml.Node, step string) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		for _, element := range n.Content {
			if name := child(element, "name"); element.Kind == yaml.MappingNode && name != nil && name.Value == step {
				return element
			}
		}
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	}
	return nil
}

// put sets a key of an object, after its other keys if it is new.
func put(object *yaml.Node, key string, value *yaml.Node) {
	if old := child(object, key); old != nil {
		*old = *value
		return
	}
	object.Content = append(object.Content, text(key), value)
}

// putBefore sets a new key of an object before another.
func putBefore(object *yaml.Node, before, key string, value *yaml.Node) {
	for i := 0; i+1 < len(object.Content); i += 2 {
		if object.Content[i].Value == before {
			rest := append([]*yaml.Node{text(key), value}, object.Content[i:]...)
			object.Content = append(object.Content[:i:i], rest...)
			return
		}
	}
	put(object, key, value)
}

// drop removes a key of an object.
func drop(object *yaml.Node, key string) {
	for i := 0; i+1 < len(object.Content); i += 2 {
		if object.Content[i].Value == key {
			object.Content = append(object.Content[:i:i], object.Content[i+2:]...)
			return
		}
	}
}

// text is a string, quoted where it has to be.
func text(value string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
	if !plain(value) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func number(value int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(value)}
}

// fragment parses a piece of YAML that this package has written itself.
func (t *tree) fragment(source string) *yaml.Node {
	parsed, err := parse([]byte(source))
	if err != nil {
		t.fail("%w", err)
		return new(yaml.Node)
	}
	return parsed.root
}

// copyOf is a node of its own with the same values.
func copyOf(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = nil
	for _, child := range n.Content {
		c.Content = append(c.Content, copyOf(child))
	}
	return &c
}
