//go:build tinygo

package must

// Hold is nothing in the built plugin, see must.go.
func Hold(bool, string) {}
