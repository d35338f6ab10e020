package find

import "go.yaml.in/yaml/v3"

// Document is one YAML document of a file, or of a file inside a file.
type Document struct {
	Root  *yaml.Node
	Shift int // what to add to the lines of Root
}

// Line is the line in the file of a value of the document.
func (d *Document) Line(n *yaml.Node) int {
	if n == nil {
		n = d.Root
	}
	return d.Shift + n.Line
}

// Get is the value that the keys lead to; nil if there is none.
func Get(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		n = get(n, key)
	}
	return Resolve(n)
}

// Text is the text of the scalar that the keys lead to; "" if there is none.
func Text(n *yaml.Node, keys ...string) string { return text(Get(n, keys...)) }

// Resolve is what an alias stands for, and any other value itself.
func Resolve(n *yaml.Node) *yaml.Node {
	for range maxDepth {
		if n == nil || n.Kind != yaml.AliasNode {
			return n
		}
		n = n.Alias
	}
	return nil
}

// List are the elements of a list, aliases followed.
func List(n *yaml.Node) (all []*yaml.Node) {
	n = Resolve(n)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	for _, element := range n.Content {
		all = append(all, Resolve(element))
	}
	return all
}

// Keys are the keys of an object, in their order.
func Keys(n *yaml.Node) (all []string) {
	n = Resolve(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		all = append(all, n.Content[i].Value)
	}
	return all
}

// Objects calls visit for every object at or below n, once for each, aliases followed.
func Objects(n *yaml.Node, visit func(*yaml.Node)) { objects(n, visit, map[*yaml.Node]bool{}) }

func objects(n *yaml.Node, visit func(*yaml.Node), seen map[*yaml.Node]bool) {
	n = Resolve(n)
	if n == nil || seen[n] {
		return
	}
	seen[n] = true
	if n.Kind == yaml.MappingNode {
		visit(n)
	}
	for _, child := range n.Content {
		objects(child, visit, seen)
	}
}

// JSON is a value as JSON, nil for none.
func JSON(n *yaml.Node) []byte {
	if n == nil {
		return nil
	}
	return appendJSON(nil, n)
}

// Mentions reports whether a word, in lower case, stands in a key or value at or below n.
func Mentions(n *yaml.Node, word string) bool { return mentions(n, word) }

// WasmFilter is the "config" of a typed_config of Envoy's Wasm filter; nil for any other object.
func WasmFilter(n *yaml.Node) *yaml.Node { return Resolve(wasmFilter(Resolve(n))) }
