//go:build !tinygo

package algo

// hold is an assertion, real wherever this package is compiled by Go; TinyGo compiles it to
// nothing, see hold_tinygo.go. (Package plugin/must is the same for what imports more than the
// standard library.)
func hold(holds bool, text string) {
	if !holds {
		panic("sluice: an assertion does not hold: " + text)
	}
}
