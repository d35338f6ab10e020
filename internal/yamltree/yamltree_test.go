package yamltree_test

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/yamltree"
)

const text = `# about
kind: Thing
list:
- {name: first, port: 1}
- {name: second, port: &port 2}
shared: {alias: *port, words: [on, "on", No, 0x10, 1e3, .inf, ~, plain]}
`

func parsed(t *testing.T, text string) *yamltree.Tree {
	t.Helper()
	tree, err := yamltree.Parse([]byte(text))
	testenv.OK(t, err)
	return tree
}

func TestRead(t *testing.T) {
	t.Parallel()
	tree := parsed(t, text)
	testenv.Same(t, "kind", yamltree.Text(tree.Root, "kind"), "Thing")
	testenv.Same(t, "an alias", yamltree.Text(tree.Root, "shared", "alias"), "2")
	testenv.Same(t, "nothing", yamltree.Text(tree.Root, "shared", "none", "below"), "")
	testenv.Same(t, "an element by its name", tree.At("list/second/port").Value, "2")
	testenv.Same(t, "an element by its index", tree.At("list/0/port").Line, 4)
	testenv.Same(t, "keys", strings.Join(yamltree.Keys(tree.Root), " "), "kind list shared")
	testenv.Same(t, "objects", len(yamltree.Objects(tree.Root)), 4)
	testenv.Same(t, "JSON", string(yamltree.JSON(yamltree.Get(tree.Root, "shared"))),
		`{"alias":2,"words":[true,"on",false,16,1000,".inf",null,"plain"]}`)
	testenv.Same(t, "a word", yamltree.Mentions(tree.Root, "second"), true)
	testenv.Same(t, "no word", yamltree.Mentions(tree.Root, "third"), false)
}

func TestChange(t *testing.T) {
	t.Parallel()
	tree := parsed(t, text)
	value := func() *yaml.Node { return tree.Fragment("new") }
	yamltree.PutBefore(tree.Root, "list", "before", value())
	yamltree.Put(tree.Root, "last", value())
	tree.Set("list/0/port", value())
	testenv.Same(t, "what is there is dropped", yamltree.Drop(tree.Root, "shared"), true)
	testenv.Same(t, "what is not there", yamltree.Drop(tree.Root, "shared"), false)
	got, err := yamltree.Write(tree)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Same(t, "the text", string(got), `# about
kind: Thing
before: new
list:
- {name: first, port: new}
- {name: second, port: &port 2}
last: new
`)
	tree.At("list/third")
	tree.At("another")
	_, err = yamltree.Write(tree)
	testenv.Same(t, "the first error", err.Error(), "the shipped file has no list/third")
}

// An alias may stand inside its own anchor.
func TestCycle(t *testing.T) {
	t.Parallel()
	tree := parsed(t, "a: &a {b: [*a]}")
	testenv.Same(t, "objects", len(yamltree.Objects(tree.Root)), 2)
	testenv.Same(t, "no word", yamltree.Mentions(tree.Root, "none"), false)
	testenv.Same(t, "JSON ends", strings.Contains(string(yamltree.JSON(tree.Root)), "null"), true)
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	var lines []int
	for root, err := range yamltree.Documents([]byte("a: 1\n---\n---\nb: 1\n---\nc: [")) {
		if err != nil {
			testenv.Same(t, "the error", strings.HasPrefix(err.Error(), "neither YAML nor JSON: line "), true)
			continue
		}
		lines = append(lines, root.Line)
	}
	if len(lines) < 2 {
		t.Errorf("documents at the lines %v", lines)
	}
}
