// Package pretty takes the place of github.com/tidwall/pretty in sluice.wasm. gjson needs it for
// three modifiers of its paths alone, which the plugin does not use, and it would bring
// encoding/json along.
package pretty

// Options are those that gjson sets.
type Options struct {
	Width    int
	Prefix   string
	Indent   string
	SortKeys bool
}

// DefaultOptions exist because gjson copies them.
var DefaultOptions = &Options{}

// Pretty returns the text as it is.
func Pretty(json []byte) []byte { return json }

// PrettyOptions returns the text as it is.
func PrettyOptions(json []byte, _ *Options) []byte { return json }

// Ugly returns the text as it is.
func Ugly(json []byte) []byte { return json }
