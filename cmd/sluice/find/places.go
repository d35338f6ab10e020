package find

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/bridge"
)

// filterType is the type of Envoy's HTTP filter for Wasm, as both a downstream
// and an upstream filter.
const filterType = "envoy.extensions.filters.http.wasm.v3.Wasm"

// wasmFilter is the "config" of a typed_config of Envoy's Wasm filter; nil for
// any other object.
func wasmFilter(n *yaml.Node) *yaml.Node {
	if strings.HasSuffix(text(get(n, "@type")), "/"+filterType) {
		return get(n, "config")
	}
	if strings.HasSuffix(text(get(n, "type_url")), "/"+filterType) {
		return get(get(n, "value"), "config")
	}
	return nil
}

// filter takes the configuration of a Wasm filter.
func (f *finder) filter(config *yaml.Node) {
	name := text(get(config, "name"))
	if name == "" {
		name = text(get(config, "root_id"))
	}
	vm, in := get(config, "vm_config"), fmt.Sprintf("Wasm filter %q", name)
	hints := []*yaml.Node{get(config, "name"), get(config, "root_id"), get(vm, "vm_id"), get(vm, "code")}
	if get(config, "configuration") == nil && SmallBridge(config) { // it reads none
		f.found = append(f.found, Found{Line: f.offset + config.Line, In: in, JSON: []byte(`{"role": "bridge"}`), Owner: config, Documents: f.read})
		return
	}
	f.place(in, name, config, get(config, "configuration"), hints)
}

// SmallBridge reports whether a Wasm filter of Envoy has the small bridge inline, and not a file
// that knows both roles.
func SmallBridge(config *yaml.Node) bool {
	code, err := base64.StdEncoding.DecodeString(text(get(get(get(get(config, "vm_config"), "code"), "local"), "inline_bytes")))
	return err == nil && bytes.Equal(code, bridge.Wasm)
}

func (f *finder) wasmPlugin(n *yaml.Node) {
	name, spec := text(get(get(n, "metadata"), "name")), get(n, "spec")
	hints := []*yaml.Node{get(n, "metadata"), get(spec, "pluginName"), get(spec, "url")}
	f.place(fmt.Sprintf("WasmPlugin %q", name), name, n, get(spec, "pluginConfig"), hints)
}

// trafficExtension takes what Istio has in WasmPlugin's place since 1.30. One with Lua is not
// Sluice.
func (f *finder) trafficExtension(n *yaml.Node) {
	name, plugin := text(get(get(n, "metadata"), "name")), get(get(n, "spec"), "wasm")
	if plugin == nil {
		return
	}
	hints := []*yaml.Node{get(n, "metadata"), get(plugin, "pluginName"), get(plugin, "url")}
	f.place(fmt.Sprintf("TrafficExtension %q", name), name, n, get(plugin, "pluginConfig"), hints)
}

func (f *finder) extensionPolicy(n *yaml.Node) {
	name := text(get(get(n, "metadata"), "name"))
	list := get(get(n, "spec"), "wasm")
	if list == nil {
		return
	}
	for _, plugin := range list.Content {
		hints := []*yaml.Node{get(n, "metadata"), get(plugin, "name"), get(plugin, "rootID"), get(plugin, "code")}
		in := fmt.Sprintf("EnvoyExtensionPolicy %q", name)
		f.place(in, text(get(plugin, "name")), plugin, get(plugin, "config"), hints)
	}
}

// place takes the configuration at n of what stands at owner, if it is Sluice's.
func (f *finder) place(in, name string, owner, n *yaml.Node, hints []*yaml.Node) {
	ours := false
	for _, hint := range hints {
		ours = ours || mentions(hint, "sluice")
	}
	value, before := unwrap(n), len(f.found)
	switch {
	case !ours && !looksLikePlugin(value):
		f.others = append(f.others, Other{Line: f.offset + owner.Line, Name: name})
	case value == nil:
		f.found = append(f.found, Found{Line: f.offset + owner.Line, In: in})
	case value.Kind == yaml.ScalarNode:
		f.addText(in, value)
	default:
		f.add(in, value)
	}
	for i := before; i < len(f.found); i++ {
		f.found[i].Owner, f.found[i].Documents = owner, f.read
	}
}

// looksLikePlugin guesses whose configuration this is where no name says so.
func looksLikePlugin(n *yaml.Node) bool {
	rules := mentions(n, "rules") && (mentions(n, "limits") || mentions(n, "exempt"))
	return rules || mentions(n, "role") && mentions(n, "bridge")
}

// unwrap takes a value out of the Any that Envoy has for a plugin's
// configuration: a StringValue, a BytesValue or a Struct.
func unwrap(n *yaml.Node) *yaml.Node {
	kind := text(get(n, "@type"))
	if kind == "" {
		return n
	}
	value := get(n, "value")
	if value != nil && strings.HasSuffix(kind, "/google.protobuf.BytesValue") {
		if plain, err := base64.StdEncoding.DecodeString(value.Value); err == nil {
			decoded := *value
			decoded.Value = string(plain)
			return &decoded
		}
	}
	return value
}

// mentions reports whether a word stands in a key or value at or below n.
func mentions(n *yaml.Node, word string) bool {
	if n == nil {
		return false
	}
	if strings.Contains(strings.ToLower(n.Value), word) {
		return true
	}
	for _, child := range n.Content {
		if mentions(child, word) {
			return true
		}
	}
	return n.Alias != nil && mentions(n.Alias, word)
}

// get is the value of a key of an object; nil if there is none.
func get(n *yaml.Node, key string) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// text is the value of a scalar; "" for anything else.
func text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}
