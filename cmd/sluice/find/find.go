// Package find looks for configurations of the plugin in files: plain JSON, and
// what Envoy, Istio and Envoy Gateway keep them in.
package find

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/bridge"
	"github.com/sluiceproxy/sluice/internal/yamltree"
)

// Found is one configuration of the plugin.
type Found struct {
	// Line is where the configuration begins in its file, from 1.
	Line int
	// In says what it was found in, such as `WasmPlugin "sluice"`.
	In string
	// JSON is its text, as Envoy hands it to the plugin.
	JSON []byte
	// Bridge is true for the bridge's filter, which reads no configuration.
	Bridge bool
	// Owner has the configuration: the "config" of Envoy's filter, the WasmPlugin, the
	// entry of an EnvoyExtensionPolicy. nil for a file of its own.
	Owner *yaml.Node
	// Documents are those of the file that Owner stands in, or of a file inside a file.
	Documents *[]*yaml.Node

	root   *yaml.Node // its values, for their lines; nil if it does not parse
	offset int        // lines of the file before JSON
	folded bool       // lines of root say nothing about the file
}

// Mistake is one thing that is wrong in a file.
type Mistake struct {
	Line int    `json:"line"` // in the file
	Path string `json:"path"` // of the value in the plugin's configuration; "" where it is outside
	// Problem says what is wrong and, in parentheses, what would be right.
	Problem string `json:"problem"`
}

// Mistake is a mistake of the configuration, with its line.
func (f *Found) Mistake(path, problem string) Mistake { return Mistake{f.LineOf(path), path, problem} }

// String is the mistake without its line.
func (m Mistake) String() string {
	if m.Path == "" {
		return m.Problem
	}
	return m.Path + ": " + m.Problem
}

// Configurations finds the configurations in a file, in their order; others are the names of Wasm
// plugins that are not Sluice. The error
// says that the file is neither YAML nor JSON. The name's extension tells a broken
// JSON file from YAML; "-" may be either.
func Configurations(name string, text []byte) (found []Found, others []string, err error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	ext := filepath.Ext(name)
	isJSON := ext == ".json" || ext != ".yaml" && ext != ".yml" && bytes.HasPrefix(bytes.TrimSpace(text), []byte("{"))
	if isJSON && !json.Valid(text) {
		return []Found{Whole(text)}, nil, nil
	}
	f := &finder{read: &[]*yaml.Node{}}
	if err := f.documents(text); err != nil {
		return nil, nil, err
	}
	return f.found, f.others, nil
}

// Whole takes a text to be a configuration of the plugin, whatever it looks like.
func Whole(text []byte) Found {
	return Found{Line: 1, In: "JSON", JSON: text, root: firstOf(text, 0)}
}

// firstOf is the first document of a text that stands after some lines; nil if it does not parse.
func firstOf(text []byte, before int) *yaml.Node {
	for root, err := range yamltree.DocumentsAt(text, before) {
		if err == nil {
			return root
		}
	}
	return nil
}

type finder struct {
	found  []Found
	others []string
	offset int // lines of the file before the text being read
	read   *[]*yaml.Node
}

// documents reads all YAML documents of a text.
func (f *finder) documents(text []byte) error {
	for root, err := range yamltree.DocumentsAt(text, f.offset) {
		if err != nil {
			return err
		}
		*f.read = append(*f.read, root)
		has := func(name string) bool { return yamltree.Get(root, name) != nil }
		switch {
		case root.Kind != yaml.MappingNode, has("kind"), has("static_resources"),
			!has("rules") && !has("role") && !(has("limits") && has("redis")): // not a whole configuration of the plugin
			f.walk(root)
		default:
			found := Found{Line: root.Line, In: "YAML", JSON: yamltree.JSON(root), root: root, offset: f.offset}
			if json.Valid(text) { // as it stands, with the mistakes that YAML does not keep
				found.In, found.JSON = "JSON", text
			}
			f.found = append(f.found, found)
		}
	}
	return nil
}

// walk looks for configurations in all values below n.
func (f *finder) walk(n *yaml.Node) {
	if n.Style == yaml.LiteralStyle && strings.Contains(n.Value, filterType) { // a file, as ConfigMaps hold them
		inner := &finder{offset: n.Line, read: &[]*yaml.Node{}}
		if inner.documents([]byte(n.Value)) == nil {
			f.found, f.others = append(f.found, inner.found...), append(f.others, inner.others...)
		}
	}
	if n.Kind == yaml.AliasNode {
		return // found where its anchor is
	}
	kind, filter := yamltree.Text(n, "kind"), WasmFilter(n)
	switch h, isHome := homes[kind]; {
	case isHome:
		name := yamltree.Text(n, "metadata", "name")
		at := yamltree.Get(n, h.path...)
		take := func(own string, owner, plugin *yaml.Node) {
			hints := []*yaml.Node{yamltree.Get(n, "metadata")}
			for _, field := range h.hints {
				hints = append(hints, yamltree.Get(plugin, field))
			}
			f.place(fmt.Sprintf("%s %q", kind, name), own, owner, yamltree.Get(plugin, h.config), hints)
		}
		for _, plugin := range yamltree.List(at) {
			take(yamltree.Text(plugin, "name"), plugin, plugin)
		}
		if kind == "WasmPlugin" || at != nil && at.Kind == yaml.MappingNode {
			take(name, n, at)
		}
	case filter != nil:
		f.filter(filter)
	default:
		for _, child := range n.Content {
			f.walk(child)
		}
	}
}

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
	n, found := f.root, f.root.Line
	for _, step := range steps.FindAllString(path, -1) {
		name, bracketed := strings.CutPrefix(step, "[")
		name = strings.TrimSuffix(name, "]")
		if plain, err := strconv.Unquote(name); err == nil {
			name = plain
		} else if bracketed {
			i, err := strconv.Atoi(name)
			if err != nil || n.Kind != yaml.SequenceNode || i < 0 || i >= len(n.Content) {
				break
			}
			n, found = yamltree.Resolve(n.Content[i]), n.Content[i].Line
			continue
		}
		key, value := yamltree.Field(n, name)
		if key == nil {
			break
		}
		n, found = value, key.Line
	}
	return found
}

// steps are those of a path: "rules", "[0]" or `["a b"]`.
var steps = regexp.MustCompile(`\["(?:[^"\\]|\\.)*"\]|\[\d+\]|[^.\[]+`)

// filterType is the type of Envoy's HTTP filter for Wasm, as both a downstream
// and an upstream filter.
const filterType = "envoy.extensions.filters.http.wasm.v3.Wasm"

// WasmFilter is the "config" of a typed_config of Envoy's Wasm filter; nil for
// any other object.
func WasmFilter(n *yaml.Node) *yaml.Node {
	if strings.HasSuffix(yamltree.Text(n, "@type"), "/"+filterType) {
		return yamltree.Get(n, "config")
	}
	if strings.HasSuffix(yamltree.Text(n, "type_url"), "/"+filterType) {
		return yamltree.Get(n, "value", "config")
	}
	return nil
}

// filter takes the configuration of a Wasm filter.
func (f *finder) filter(config *yaml.Node) {
	name := cmp.Or(yamltree.Text(config, "name"), yamltree.Text(config, "root_id"))
	in := fmt.Sprintf("Wasm filter %q", name)
	if IsBridge(config) && !looksLikePlugin(unwrap(yamltree.Get(config, "configuration"))) {
		f.found = append(f.found, Found{Line: config.Line, In: in, Bridge: true, Owner: config, Documents: f.read})
		return
	}
	hints := []*yaml.Node{
		yamltree.Get(config, "name"), yamltree.Get(config, "root_id"),
		yamltree.Get(config, "vm_config", "vm_id"), yamltree.Get(config, "vm_config", "code"),
	}
	f.place(in, name, config, yamltree.Get(config, "configuration"), hints)
}

// IsBridge reports whether the code of one of Envoy's Wasm filters is the bridge, inline or by the
// name of its file.
func IsBridge(config *yaml.Node) bool {
	local := yamltree.Get(config, "vm_config", "code", "local")
	code, err := base64.StdEncoding.DecodeString(yamltree.Text(local, "inline_bytes"))
	return err == nil && bytes.Equal(code, bridge.Wasm) || path.Base(yamltree.Text(local, "filename")) == "bridge.wasm"
}

// home is where an object of Kubernetes has a plugin, or several.
type home struct {
	path   []string
	config string   // the field of the plugin's configuration
	hints  []string // fields that may name Sluice
}

// homes are by their kinds. Istio has TrafficExtension in WasmPlugin's place since 1.30; one with
// Lua is not Sluice.
var homes = map[string]home{
	"WasmPlugin":           {[]string{"spec"}, "pluginConfig", []string{"pluginName", "url"}},
	"TrafficExtension":     {[]string{"spec", "wasm"}, "pluginConfig", []string{"pluginName", "url"}},
	"EnvoyExtensionPolicy": {[]string{"spec", "wasm"}, "config", []string{"name", "rootID", "code"}},
}

// place takes the configuration at n of what stands at owner, if it is Sluice's.
func (f *finder) place(in, name string, owner, n *yaml.Node, hints []*yaml.Node) {
	ours := slices.ContainsFunc(hints, func(hint *yaml.Node) bool { return yamltree.Mentions(hint, "sluice") })
	value := unwrap(n)
	found := Found{Line: cmp.Or(value, owner).Line, In: in, Owner: owner, Documents: f.read}
	switch {
	case !ours && !looksLikePlugin(value):
		f.others = append(f.others, name)
		return
	case value == nil:
	case value.Kind == yaml.ScalarNode:
		found.JSON, found.offset = []byte(value.Value), value.Line
		if value.Style != yaml.LiteralStyle {
			found.offset--
			found.folded = strings.Contains(value.Value, "\n")
		}
		found.root = firstOf(found.JSON, found.offset)
	default:
		found.JSON, found.root, found.offset = yamltree.JSON(value), value, f.offset
	}
	f.found = append(f.found, found)
}

// looksLikePlugin guesses whose configuration this is where no name says so.
func looksLikePlugin(n *yaml.Node) bool {
	return yamltree.Mentions(n, "rules") && (yamltree.Mentions(n, "limits") || yamltree.Mentions(n, "exempt"))
}

// unwrap takes a value out of the Any that Envoy has for a plugin's
// configuration: a StringValue, a BytesValue, or what else somebody has written there.
func unwrap(n *yaml.Node) *yaml.Node {
	kind := yamltree.Text(n, "@type")
	if kind == "" {
		return n
	}
	value := yamltree.Get(n, "value")
	if value != nil && strings.HasSuffix(kind, "/google.protobuf.BytesValue") {
		if plain, err := base64.StdEncoding.DecodeString(value.Value); err == nil {
			decoded := *value
			decoded.Value = string(plain)
			return &decoded
		}
	}
	return value
}
