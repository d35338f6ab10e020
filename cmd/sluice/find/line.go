package find

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// LineOf is the line in the file of a mistake's path, such as
// "rules[1].limits[0].window" or "line 3, column 5"; the nearest one that is
// known.
func (f *Found) LineOf(path string) int {
	var line, column int
	if n, _ := fmt.Sscanf(path, "line %d, column %d", &line, &column); n == 2 {
		if f.folded {
			return f.Line
		}
		return f.offset + line
	}
	if f.root == nil || f.folded || path == "" {
		return f.Line
	}
	return f.offset + lineBelow(f.root, path)
}

// steps are those of a path: "rules", "[0]" or `["a b"]`.
var steps = regexp.MustCompile(`\["(?:[^"\\]|\\.)*"\]|\[\d+\]|[^.\[]+`)

// lineBelow follows a path as far as it leads.
func lineBelow(n *yaml.Node, path string) int {
	line := n.Line
	for _, step := range steps.FindAllString(path, -1) {
		child, at := stepInto(n, step)
		if child == nil {
			return line
		}
		n, line = child, at
	}
	return line
}

// stepInto is the value that one step leads to, and the line of its key.
func stepInto(n *yaml.Node, step string) (*yaml.Node, int) {
	name, bracketed := strings.CutPrefix(step, "[")
	name = strings.TrimSuffix(name, "]")
	if plain, err := strconv.Unquote(name); err == nil {
		name = plain
	} else if bracketed {
		i, err := strconv.Atoi(name)
		if err != nil || n.Kind != yaml.SequenceNode || i < 0 || i >= len(n.Content) {
			return nil, 0
		}
		return yamltree.Resolve(n.Content[i]), n.Content[i].Line
	}
	if key, value := yamltree.Field(n, name); key != nil {
		return value, key.Line
	}
	return nil, 0
}
