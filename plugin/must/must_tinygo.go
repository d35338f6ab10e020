//go:build tinygo

package must

// On is false in the built plugin, see must.go.
const On = false

// Hold is nothing in the built plugin, see must.go.
func Hold(bool, string) {}
