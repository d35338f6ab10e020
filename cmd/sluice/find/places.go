package find

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/bridge"
	"github.com/sluiceproxy/sluice/internal/yamltree"
)

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
	name := yamltree.Text(config, "name")
	if name == "" {
		name = yamltree.Text(config, "root_id")
	}
	in := fmt.Sprintf("Wasm filter %q", name)
	if IsBridge(config) && !looksLikePlugin(unwrap(yamltree.Get(config, "configuration"))) {
		f.found = append(f.found, Found{
			Line: f.offset + config.Line, In: in, Bridge: true, Owner: config, Documents: f.read,
		})
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

// resource takes the configurations of an object of Kubernetes.
func (f *finder) resource(kind string, n *yaml.Node) {
	h, name := homes[kind], yamltree.Text(n, "metadata", "name")
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
}

// place takes the configuration at n of what stands at owner, if it is Sluice's.
func (f *finder) place(in, name string, owner, n *yaml.Node, hints []*yaml.Node) {
	ours := slices.ContainsFunc(hints, func(hint *yaml.Node) bool { return yamltree.Mentions(hint, "sluice") })
	value, before := unwrap(n), len(f.found)
	switch {
	case !ours && !looksLikePlugin(value):
		f.others = append(f.others, name)
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
