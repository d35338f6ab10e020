//go:build !tinygo

// Package must holds the assertions of the plugin. They are real wherever the plugin runs as
// ordinary Go: in the tests, in the emulator and in sluice simulate. TinyGo compiles them to
// nothing, as a panic would end the VM for every request of that worker. Code that asserts
// something therefore goes on sensibly where it does not hold.
package must

// On says that assertions are real. What takes a loop to find out stands behind it.
const On = true

// Hold panics unless a condition holds. The text says what was expected. The arguments
// have no side effects, since the built plugin does not evaluate them.
func Hold(holds bool, text string) {
	if !holds {
		panic("sluice: an assertion does not hold: " + text)
	}
}
